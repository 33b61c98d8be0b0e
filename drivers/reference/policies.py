"""Which small decision of the nodes' code stands behind what a row says: methods that planted bugs override."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: See :data:`chaos.driver.DECIDED_BY`.
DECIDED_BY: Mapping[str, Sequence[str]] = {
    "acked": ("Replication.acknowledged_end",),
    "confirm acks": ("Replication.confirm_members", "Replication.confirm_end"),
    "truncate": ("Replication.truncation_point", "CommitLog.truncate"),
    "recovered": ("CommitLog.is_sound",),
    "bootstrap": ("Retention.bootstrap_position",),
    "retention": ("Retention.covered_position",),
    "delivered": ("Broker.readable_end",),
    "raft leader": ("RaftPolicy.may_vote",),
    "applied elect": ("Replicas.candidates",),
    "applied alter": ("Replicas.is_current",),
    "applied register": ("Replicas.lost_memory",),
    "read ok": ("RaftPolicy.read_is_safe",),
    "write ok": ("RaftPolicy.may_commit",),
    "cas ok": ("RaftPolicy.may_commit",),
    "tier_commit": ("Tier.may_write", "Tier.commit_confirm"),
    "tier_view": ("Tier.adopt_view",),
}
