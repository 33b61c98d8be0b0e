"""The controllers' leader answered a read that was asked when it could reach no other controller any more."""

from __future__ import annotations

from chaos import shard_rows
from chaos.driver import Evidence, NoOptions
from chaos.events import RaftRole
from chaos.fault import Effect
from chaos.goal import Goal
from chaos.law import Rows
from chaos.operations import FaultRow, ReadObject
from checkers import _facts as facts

#: So long after the beginning of a fault what had been sent before has arrived.
ARRIVED_NS = 50_000_000


def _reached(history: Rows) -> int:
    """Count the reads of a leader to which nothing but its lease can have shown that it still leads. Where several
    controllers are cut off together they could inform each other."""
    rows = history.columns
    index, times, reads = rows.column("index"), rows.column("time_ns"), rows.memo(_reads)
    raft = rows.where(kind="trace", f="raft").tolist()
    nodes = {rows.text("node", at) for at in raft}
    leads = [(int(index[at]), rows.text("node", at)) for at in raft if rows.value(at).get("role") == "leader"]
    found = 0
    for fault in rows.memo(facts.faults):
        cut_off = fault.hits(Effect.ISOLATES) & nodes
        asked = (times[reads.invoke] > fault.began_ns + ARRIVED_NS) & (times[reads.invoke] < fault.until_ns) & reads.ok
        for invoke, done in zip(reads.invoke[asked].tolist(), reads.done[asked].tolist(), strict=True):
            leader = next((node for since, node in reversed(leads) if since < index[done]), "")
            found += cut_off == {leader} and rows.value(invoke).get("to") == leader
    return found


def _reads(rows: shard_rows.Rows) -> facts.Calls:
    return facts.calls(rows, "read")


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=(RaftRole, ReadObject, FaultRow),
        evidence=(Evidence.OPERATIONS, Evidence.ELECTIONS),
        reached=_reached,
    )
