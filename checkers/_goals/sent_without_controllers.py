"""Messages were acknowledged more than two seconds after all nodes that keep the metadata had gone down."""

from __future__ import annotations

import numpy as np

from chaos.driver import Evidence, NoOptions
from chaos.events import RaftRole
from chaos.fault import Effect
from chaos.goal import Goal
from chaos.law import Rows
from chaos.operations import FaultRow, Send
from checkers import _facts as facts

LATER_NS = 2_000_000_000


def _reached(history: Rows) -> int:
    """Count the sends that were made then. Members of groups of stores trace which group they are about."""
    rows = history.columns
    raft = rows.where(kind="trace", f="raft").tolist()
    controllers = {rows.text("node", at) for at in raft if rows.value(at).get("group") is None}
    sends, times = rows.memo(facts.sends), rows.column("time_ns")
    made = times[sends.invoke]
    found = np.zeros(len(made), dtype=np.bool_)
    for fault in rows.memo(facts.faults):
        if controllers and controllers <= fault.hits(Effect.TAKES_DOWN):
            found |= sends.ok & (made > fault.from_ns + LATER_NS) & (made < fault.until_ns)
    return int(np.count_nonzero(found))


def create(options: NoOptions) -> Goal:
    return Goal(reads=(RaftRole, Send, FaultRow), evidence=(Evidence.OPERATIONS,), reached=_reached)
