"""The options of the reference system's nodes, by role and name: the type of the value, and what it means.

Nodes take them from :attr:`chaos.node.NodeSpec.options`; people who start one by hand write them as environment
variables (:mod:`chaos.shell.environment`).
"""

from __future__ import annotations

from collections.abc import Mapping

_CONTROLLERS = (list, "the controllers of the cluster")
_METADATA = (bool, "whether the controllers keep topics, routes and groups in their log, for all others to follow")
OPTIONS: Mapping[str, Mapping[str, tuple[type, str]]] = {
    "controller": {
        "controllers": _CONTROLLERS,
        "mode": (
            str,
            "parallel, or classic: one request at a time, on the leader only, as RocketMQ's controller works",
        ),
        "broker_timeout_ms": (int, "how long a broker may be silent before it counts as dead"),
        "unclean": (bool, "whether a replica that was not in sync may become the master when no other lives"),
        "heartbeat_ms": (int, "how often the leader shows the others that it lives"),
        "election_ms": (int, "after how long a silence an election begins: between this and its double"),
        "snapshot_entries": (int, "after how many entries the log is replaced by a snapshot"),
        "window": (int, "how many requests that change something may be under way; beyond it the answer is busy"),
        "in_flight": (int, "how many appends to one follower may be under way"),
        "append_entries": (int, "how many entries an append has at most"),
        "lease_ms": (int, "how long the leader answers reads without asking the others again; 0 for never"),
        "piece_bytes": (int, "how much of a snapshot is sent in one message"),
        "cluster_id": (str, "a word that all controllers of a cluster share; messages with another one are refused"),
        "metadata": _METADATA,
        "embedded": (bool, "whether the node is a name server, too, as with RocketMQ's enableControllerInNamesrv"),
        "expire_ms": (int, "of such a name server: how long a broker may be silent before its routes go"),
        "metadata_kept": (int, "how many changes a watch gets one by one; a watch that lacks more gets all entries"),
    },
    "nameserver": {
        "expire_ms": (int, "how long a broker may be silent before its routes go"),
        "metadata": _METADATA,
        "controllers": (list, "the controllers whose metadata it follows"),
    },
    "broker": {
        "cluster": (str, "the name of the cluster"),
        "group": (str, "the name of its replica group"),
        "controllers": _CONTROLLERS,
        "heartbeats": (str, "whether all controllers get its heartbeats (all), or one after the other (one)"),
        "nameservers": (list, "the name servers that it registers with"),
        "objectstore": (str, "the object store of the tier; empty for no tier"),
        "topics": (dict, "topics, each with the number of its queues"),
        "segment_bytes": (int, "the size of a file of the log"),
        "retain_bytes": (int, "how much of the log stays on the disk; 0 for all"),
        "delete_untiered": (bool, "whether old files go although no tier has them"),
        "flush": (str, "whether a message is on the disk before it is acknowledged (sync) or not (async)"),
        "acks": (str, "whose copies an acknowledgement waits for: all (in sync), master, or a number of them"),
        "min_in_sync": (int, "with how many replicas in sync messages are taken"),
        "ack_timeout_ms": (int, "how long a message may wait for its acknowledgement"),
        "linger_ms": (int, "how long the master lets records gather before it syncs and replicates them"),
        "virtual_time": (bool, "whether time is simulated: to wait costs nothing then, and records gather for longer"),
        "transaction_timeout_ms": (int, "after how long a producer is asked how a transaction of its group ends"),
        "transaction_check_ms": (int, "how often it is asked again"),
        "transaction_keep_ms": (int, "after how long a transaction without an end is rolled back"),
        "log_version": (int, "1 for a broker as it was before its log had messages that wait, and locks; 2"),
        "lock_ms": (int, "how long a member's lock of a queue holds without being renewed"),
        "max_lag_ms": (int, "how far a slave may be behind and still count as in sync"),
        "tier_level": (
            str,
            "what readers get from the tier: nothing (DISABLE), what the log has no more (NOT_IN_DISK), what its newest"
            " file does not hold (NOT_IN_MEM), or all that the tier holds (FORCE)",
        ),
        "tier_segment_bytes": (int, "the size of a segment in the tier"),
        "tier_max_age_ms": (int, "how long a message may wait before its segment is uploaded"),
        "tier_timeout_ms": (int, "how long a request to the object store may take"),
        "tier_parallel": (int, "how many requests of its uploads to the object store may be under way"),
        "tier_cache_bytes": (int, "how much of what was read from the tier is kept in memory"),
        "tier_retain_bytes": (int, "how much the tier keeps; 0 for all"),
        "tier_retain_ms": (int, "for how long the tier keeps all but its newest segment; 0 for ever"),
        "tier_collect_ms": (int, "how often objects that nothing refers to are removed"),
        "metadata": _METADATA,
        "tier_cut_back": (bool, "whether a manifest that the log contradicts is cut (where losses are allowed)"),
    },
    "objectstore": {
        "store": (str, "the URL of a real store, where the objects stand instead of on the node's disk (a gateway)"),
        "prefix": (str, "of a gateway: what the names of its objects begin with in that store"),
        "single_writer": (bool, "whether one gateway alone writes there, so that conditional writes may be missing"),
        "timeout_ms": (int, "of a gateway: how long a request may be tried"),
    },
}
