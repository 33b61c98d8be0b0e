"""Which small decision of the nodes' code stands behind what a row says: methods that planted bugs override."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: See :data:`chaos.driver.DECIDED_BY`.
DECIDED_BY: Mapping[str, Sequence[str]] = {
    "applied entry": ("ClusterState.next_epoch", "ClusterState.may_own", "ClusterState.keeps_majority"),
    "closed_slice": ("Slices.is_ours",),
    "fence": ("Group.takes_fence",),
    "group_acked": ("Appends.has_landed", "Appends.acknowledged_end"),
    "group_append": ("Group.has_epoch", "Group.is_repeat", "Group.goes_on"),
    "opened": ("Slices.may_serve",),
    "raft leader": ("RaftPolicy.may_vote",),
    "sealed": ("Group.may_seal", "Group.cut_segments"),
    "trim": ("Retention.count_by_time", "Retention.count_by_size", "Group.may_trim"),
    "uploaded": ("Uploads.may_log",),
}
