"""What the nodes of a split cluster trace, in the order of ``docs/history.md``."""

from __future__ import annotations

from chaos import events
from reference.objectstore.faults import TierFault

#: Each event by its name in the history.
EVENTS: dict[str, type[events.Event]] = {
    one.f: one
    for one in (
        *(events.Start, events.Damaged, events.RaftRole, events.Vote, events.TermRaised, events.Applied),
        *(events.RaftMembers, events.EntriesCut, events.Route, events.StorePut, events.StoreCas, events.StoreGet),
        *(events.StoreList, events.StoreDelete, TierFault, events.TierRequest, events.GroupFenced),
        *(
            events.GroupAppended,
            events.GroupSynced,
            events.Sealed,
            events.Uploaded,
            events.SegmentHeld,
            events.SegmentDropped,
        ),
        *(events.Trimmed, events.SliceOpened, events.SliceClosed, events.GroupAcked, events.MapView),
    )
}
