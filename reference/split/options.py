"""The options of a split cluster's nodes, by role and name: the type of the value, and what it means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reference.options import OPTIONS as REFERENCE_OPTIONS
from reference.split.layout import check_layout

Options = Mapping[str, tuple[type, str]]

METAS: Options = {
    "metas": (list, "the meta nodes of the cluster"),
    "cluster_id": (str, "a word that all nodes of a cluster share; who comes with another one is refused"),
}
LAYOUT: Options = {
    "groups": (int, "how many Raft groups hold the queues; fixed when the cluster is born"),
    "slices": (int, "how many slices, each with a brokerName, the groups are dealt to; fixed as well"),
}
RAFT: Options = {
    name: option
    for name, option in REFERENCE_OPTIONS["controller"].items()
    if name in ("heartbeat_ms", "election_ms", "snapshot_entries", "window", "in_flight", "append_entries")
    or name in ("lease_ms", "piece_bytes")
}
OPTIONS: Mapping[str, Options] = {
    "meta": {
        **METAS,
        **LAYOUT,
        **RAFT,
        "metadata_kept": REFERENCE_OPTIONS["controller"]["metadata_kept"],
        "replicas": (int, "how many stores hold each group"),
        "broker_timeout_ms": (int, "how long a broker may be silent before its life is over"),
        "store_timeout_ms": (int, "how long a store may be silent before its replicas are made elsewhere"),
        "birth_stores": (int, "groups are born once so many stores have registered; as many as replicas by default"),
        "moves": (int, "how many groups may be changing members at once"),
    },
    "store": {
        **METAS,
        **LAYOUT,
        **RAFT,
        "objectstore": (str, "the object store that sealed segments are uploaded to"),
        "zone": (str, "where it stands; replicas of a group are spread over zones"),
        "store_heartbeat_ms": (int, "how often it says to meta that it lives"),
        "linger_ms": (int, "how long a leader lets entries of its groups gather before it logs and sends them"),
        "virtual_time": REFERENCE_OPTIONS["broker"]["virtual_time"],
        "rewrite_bytes": (int, "its file of logs is rewritten once it has so many bytes and half of them are garbage"),
        "segment_bytes": (int, "a group's records are sealed once there are so many bytes of them"),
        "segment_ms": (int, "and once the oldest has waited for so long"),
        "local_bytes": (int, "so many bytes of uploaded segments are kept on its disk as well, the newest first"),
        "delete_ms": (int, "so long after its trim a segment's object is deleted"),
        "tier_timeout_ms": (int, "how long an answer of the object store may take"),
    },
    "broker": {
        **METAS,
        **LAYOUT,
        "cluster": (str, "the name of the cluster"),
        "heartbeat_ms": (int, "how often meta hears that it lives"),
        "ack_timeout_ms": REFERENCE_OPTIONS["broker"]["ack_timeout_ms"],
        "append_window": (int, "how many appends to a group may be under way; what comes meanwhile gathers"),
        "call_timeout_ms": (int, "how long a store that leads a group may take to answer before another one is asked"),
        "read_timeout_ms": (int, "how long a store may take to give records before another one is asked"),
        "member_grace_ms": (int, "how long after its start, or a slice, it knows too few consumers to list a group's"),
    },
    "nameserver": {**METAS, **LAYOUT, "cluster": (str, "the name of the cluster")},
    "objectstore": {},
}


def names_of(options: Mapping[str, object], key: str) -> tuple[str, ...]:
    """Return the names of nodes in an option. Raises ``ValueError``."""
    found = options.get(key, ())
    if not isinstance(found, Sequence) or isinstance(found, str) or not all(isinstance(name, str) for name in found):
        raise ValueError(f"{key} must be a list of nodes, not {found!r}")
    return tuple(found)


def number_of(options: Mapping[str, object], key: str, default: int, least: int = 1) -> int:
    """Return a whole number in an option. Raises ``ValueError``."""
    found = options.get(key, default)
    if not isinstance(found, int) or isinstance(found, bool) or found < least:
        raise ValueError(f"{key} must be a whole number that is {least} or more, not {found!r}")
    return found


def layout_of(options: Mapping[str, object]) -> tuple[int, int]:
    """Return how many groups and slices the cluster has. Raises ``ValueError``."""
    groups = number_of(options, "groups", 8)
    slices = number_of(options, "slices", min(2, groups))
    check_layout(groups, slices)
    return groups, slices
