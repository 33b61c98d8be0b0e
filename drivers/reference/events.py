"""What the reference nodes trace, in the order of ``docs/history.md``."""

from __future__ import annotations

from chaos import events
from reference.objectstore.faults import TierFault
from reference.objectstore.gateway import StoreLost

#: Each event by its name in the history.
EVENTS: dict[str, type[events.Event]] = {
    one.f: one
    for one in (
        *(events.Start, events.Damaged, events.Recovered, events.Append, events.Truncate, events.Synced),
        *(events.Confirm, events.Role, events.SyncStateSet, events.Acked, events.Commit, events.Retention),
        *(events.BootstrapBegun, events.Bootstrap, events.TierRequest, events.TierCommit, events.TierView),
        *(events.TierStop, events.TierCut, events.RaftRole, events.Vote, events.TermRaised, events.Applied),
        *(events.RaftMembers, events.EntriesCut, events.MetadataApplied, events.Route, events.StorePut),
        *(events.StoreCas, events.StoreGet, events.StoreList, events.StoreDelete, TierFault, StoreLost),
    )
}
