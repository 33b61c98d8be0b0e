"""What several laws need of the same rows, computed once for each shard."""

from __future__ import annotations

from checkers._views.arrays import NEVER, Flags, Ints, groups
from checkers._views.claims import Claims, acknowledged, claims_of, conflicts, holds, join, read, tiered
from checkers._views.clients import Calls, Delivered, calls, delivered, drain_reads, pulls, sends
from checkers._views.faults import (
    Fault,
    all_destroyed,
    destroyers,
    faults,
    in_force,
    only_copy_destroyed,
    service_ended,
)
from checkers._views.logs import confirmed_appends, durable_ends, final_log, in_node_order, moment, node_traces
from checkers._views.masters import from_masters, masters
from checkers._views.run import (
    ENDS_LACKING,
    ROLE_LACKING,
    at_s,
    brokers,
    complete_nodes,
    has_recovered,
    may_lack_ends,
    one_clock,
    phase_index,
    phase_time,
    replica_groups,
)

__all__ = [
    "ENDS_LACKING",
    "NEVER",
    "ROLE_LACKING",
    "Calls",
    "Claims",
    "Delivered",
    "Fault",
    "Flags",
    "Ints",
    "acknowledged",
    "all_destroyed",
    "at_s",
    "brokers",
    "calls",
    "claims_of",
    "complete_nodes",
    "confirmed_appends",
    "conflicts",
    "delivered",
    "destroyers",
    "drain_reads",
    "durable_ends",
    "faults",
    "final_log",
    "from_masters",
    "groups",
    "has_recovered",
    "holds",
    "in_force",
    "in_node_order",
    "join",
    "masters",
    "may_lack_ends",
    "moment",
    "node_traces",
    "one_clock",
    "only_copy_destroyed",
    "phase_index",
    "phase_time",
    "pulls",
    "read",
    "replica_groups",
    "sends",
    "service_ended",
    "tiered",
]
