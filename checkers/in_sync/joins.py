"""Whether a replica that lives, and that nothing hinders, comes into the SyncStateSet: also where nobody writes.

What a replica lacks is sent to it because it joins, not because somebody sends a message. So a cluster that is idle
becomes whole by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from chaos.fault import Effect
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.arrays import NEVER
from checkers._facts.causes import AFTER_S, HARMLESS
from checkers._facts.committed import Course, Stage, courses
from checkers._facts.faults import Fault, faults
from checkers._facts.garbage import REAL_TIME
from checkers._facts.nodes.due import Span, first_calm, spans
from checkers._facts.promptness import MESSAGES
from checkers._facts.run import bound, phase_time


@dataclass(frozen=True, slots=True)
class LateJoin:
    """A replica that was in no SyncStateSet of its group from ``since_ns`` until ``until_ns`` or longer, although
    nothing hindered it. ``out``: the row of the entry since which it was out. ``certain``: no fault was in force whose
    effects are unknown."""

    node: str
    group: str
    out: int
    since_ns: int
    until_ns: int
    certain: bool


def join_bound_s(context: RunContext) -> float:
    """So long a replica may take to get what it lacks and to be taken in."""
    usual_s = max(AFTER_S, bound(context, "available_s", AFTER_S))
    return (usual_s + MESSAGES * context.jitter_ns / 1e9) * (1.0 if context.one_clock else REAL_TIME)


def late_joins(rows: Rows, context: RunContext) -> Iterator[LateJoin]:
    """Of each replica the first time that it did not join, from the load to the end of the final read. Each fault, each
    start or end of a process and each election gives it the whole bound again, once it is over."""
    began_ns, end_ns = phase_time(rows, "load"), phase_time(rows, "collect")
    if began_ns < 0 or end_ns < 0:
        return
    bound_ns = int(1e9 * join_bound_s(context))
    lives = rows.memo(_lives)
    for group, course in rows.memo(courses).items():
        elections = list(_elections(rows, course))
        for node, known_at in sorted(_replicas(rows, group, course).items()):
            hindrances = [*elections, *(one for name in lives for one in lives[name])]
            hindrances += spans(one for one in rows.memo(faults) if _hinders(one, node))
            unknown = spans(one for one in rows.memo(faults) if one.effects is None)
            late: LateJoin | None = None
            for out, from_ns, until_ns in _absences(rows, course, node, known_at):
                for certain, others in ((True, unknown), (False, ())):
                    since = np.array([max(began_ns, from_ns)], dtype=np.int64)
                    since_ns = int(first_calm(since, [*hindrances, *others], after_ns=bound_ns)[0])
                    if since_ns < min(end_ns, until_ns) - bound_ns and (late is None or certain > late.certain):
                        late = LateJoin(node, group, out, since_ns, since_ns + bound_ns, certain)
            if late is not None:
                yield late


def _replicas(rows: Rows, group: str, course: Course) -> Mapping[str, int]:
    """Those that have registered in the group, or were in its set: each with the first row that says so."""
    found: dict[str, int] = {}
    for at in rows.where(kind="trace", f="applied").tolist():
        entry = rows.value(at).get("entry") or {}
        registers = entry.get("type") in ("register", "apply_id") and not entry.get("unattended")
        if registers and entry.get("group") == group:
            found.setdefault(str(entry.get("broker", "")), at)
    for stage in course.stages:
        for node in stage.members:
            found.setdefault(node, stage.at)
    return found


def _absences(rows: Rows, course: Course, node: str, known_at: int) -> Iterator[tuple[int, int, int]]:
    """(row since which it was in no set, from when until when) each time."""
    times = rows.column("time_ns")
    out, since_ns = known_at, int(times[known_at])
    for stage in course.stages:
        now_ns = int(times[stage.at])
        if node in stage.members and since_ns >= 0:
            yield out, since_ns, now_ns
            since_ns = -1
        elif node not in stage.members and since_ns < 0:
            out, since_ns = stage.at, now_ns
    if since_ns >= 0:
        yield out, since_ns, NEVER


def _elections(rows: Rows, course: Course) -> Iterator[Span]:
    """Yield when somebody was elected, and the times without a master."""
    times = rows.column("time_ns")
    last: Sequence[Stage] = course.stages[-1:]
    for stage, after in pairwise([*course.stages, *last]):
        if not stage.master:
            yield int(times[stage.at]), NEVER if stage is after else int(times[after.at])
    for before, stage in pairwise(course.stages):
        if stage.epoch != before.epoch:
            yield int(times[stage.at]), int(times[stage.at])


def _lives(rows: Rows) -> Mapping[str, Sequence[Span]]:
    """By node: when it started, and from when on it was gone by an error of its own."""
    times, found = rows.column("time_ns"), dict[str, list[Span]]()
    gone: dict[str, int] = {}
    for at in np.sort(np.concatenate([rows.where(kind="trace", f=f) for f in ("start", "crash")])).tolist():
        node, now_ns = rows.text("node", at), int(times[at])
        if rows.text("f", at) == "crash":
            gone.setdefault(node, now_ns)
        else:
            found.setdefault(node, []).append((gone.pop(node, now_ns), now_ns))
    for node, since_ns in gone.items():
        found.setdefault(node, []).append((since_ns, NEVER))
    return found


def _hinders(fault: Fault, node: str) -> bool:
    """Return whether it declares that it may keep the replica from joining. One that has removed another replica for
    good does not."""
    harms: Set[str] = {effect for effect in fault.effects or () if effect not in HARMLESS}
    return bool(harms) and (harms != {Effect.REMOVES_REPLICA} or node in fault.targets | fault.hits(*Effect))
