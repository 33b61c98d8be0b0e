"""What the harness records of a run: its phases, its replicas, and when something happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.arrays import Flags, Ints, among


def bound(context: RunContext, name: str, usual: float) -> float:
    """One of the run's ``bounds``, in seconds; the ``usual`` one where the run names none."""
    return context.meta.bounds.get(name, usual)


def in_run(context: RunContext, queue: Ints) -> Flags:
    """Return which of these queues (by their indexes) clients use in this run. Systems have others besides: a group's,
    for the messages that its members sent back."""
    own = np.array([one.index for one in context.meta.queues], dtype=np.int64)
    return among(queue, np.sort(own)) if len(own) else np.ones(len(queue), dtype=np.bool_)


def brokers(rows: Rows, context: RunContext, at_ns: int | None = None) -> tuple[str, ...]:
    """Return all replicas: those that ``run.json`` lists and those that were added to them, at any time or until
    ``at_ns``; else those that reported something which only a broker reports."""
    known = context.meta.brokers
    if known:
        return (*known, *(node for added_ns, node in rows.memo(_added) if at_ns is None or added_ns <= at_ns))
    names = {rows.text("node", at) for f in ("start", "recovered", "role") for at in rows.where(kind="trace", f=f)}
    names |= {rows.text("node", at) for at in rows.where(kind="final", f="node")}
    return tuple(sorted(names))


def _added(rows: Rows) -> Sequence[tuple[int, str]]:
    """Return when which brokers joined that there had not been before."""
    times = rows.column("time_ns")
    added = [at for at in rows.where(kind="harness", f="node_added") if rows.value(at).get("role") == "broker"]
    return [(int(times[at]), rows.text("node", at)) for at in added]


def replica_groups(rows: Rows) -> Mapping[str, str]:
    """Return each replica's group, which has a log and a master of its own; "" where replicas name none, being all of
    one."""
    finals = rows.where(kind="final", f="node")
    return {rows.text("node", at): str(rows.value(at).get("group", "")) for at in finals}


def phase_index(rows: Rows, phase: str) -> int:
    """Return the ``index`` of the row that begins a phase, -1 if the run did not come to it."""
    for at in rows.where(kind="harness", f="phase"):
        if rows.value(at).get("phase") == phase:
            return int(rows.column("index")[at])
    return -1


def phase_time(rows: Rows, phase: str) -> int:
    """Return the time at which a phase began, -1 if the run did not come to it."""
    index = phase_index(rows, phase)
    return int(rows.column("time_ns")[np.searchsorted(rows.column("index"), index)]) if index >= 0 else -1


#: What is said of a node that reported less than it must have had, in such a run.
ENDS_LACKING = "a host was lost, and {} reported less of its disk than was confirmed: its trace may lack its end"

#: Likewise of a node that acted for an epoch, when no node has reported to be its master.
ROLE_LACKING = "a host was lost, and {} did not report that it led epoch {}: its trace may lack its end"


def may_lack_ends(rows: Rows) -> bool:
    """Return whether traces of nodes may lack their ends: a host was lost, with what its nodes had traced and nobody
    had fetched yet."""
    return len(rows.where(kind="harness", f="host_lost")) > 0


def has_recovered(rows: Rows) -> bool:
    return len(rows.where(kind="harness", f="recovered")) > 0


def complete_nodes(rows: Rows) -> frozenset[str]:
    """Nodes whose final content was read to its end."""
    return frozenset(rows.text("node", at) for at in rows.where(kind="final", f="complete"))


def at_s(rows: Rows, at: int) -> str:
    """Return when a row was recorded, for people: seconds since the load began, as reports count them; less than 0
    before."""
    return in_s(int(rows.column("time_ns")[at]) - rows.memo(load_began_ns))


def who(node: str, epoch: int) -> str:
    """Who did something, for people: a node with its epoch, where the system has epochs; the system where no node is
    known."""
    return f"{node or 'the system'}{f' (epoch {epoch})' if epoch >= 0 else ''}"


def since_load_ns(rows: Rows, at: Ints) -> Ints:
    """Return how long after the load began each of these rows was recorded; less than 0 before."""
    since: Ints = rows.column("time_ns")[at] - rows.memo(load_began_ns)
    return since


def in_s(time_ns: int) -> str:
    """Return a time since the load began, as all explanations write it."""
    return f"{time_ns / 1e9:.3f} s"


def last_reported_ns(rows: Rows) -> int:
    """Return the last moment that the harness recorded, of its own doing or of a fault; -1 if it recorded nothing. All
    shards know it, unlike the last of their rows."""
    recorded = np.concatenate([rows.where(kind=kind) for kind in ("harness", "fault")])
    return int(rows.column("time_ns")[recorded].max(initial=-1))


def load_began_ns(rows: Rows) -> int:
    """Return where the clock of everything that people read begins: with the load; without that phase, with the run."""
    begin = phase_time(rows, "load")
    if begin >= 0:
        return begin
    harness, times = rows.where(kind="harness"), rows.column("time_ns")
    return int(times[harness[0]]) if len(harness) else int(times[0])
