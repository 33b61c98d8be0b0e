"""Sends succeed again within a bound while the fault lasts, if enough nodes are left; all recover after the heal."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from chaos.judging.findings import Findings, decide
from chaos.law import Partial, Rows, RunContext, Scope
from chaos.verdict import AnomalyName, LawName, Verdict
from checkers._views import rows as views
from checkers._views.rows import Fault, Ints

AVAILABLE_S = 10.0
STALL_MS = 1_000
#: Faults that take their targets out of service, and those that owe no interruption of sends at all.
TAKES_OUT = ("kill", "pause", "stop")
TAKES_OUT_SHAPES = ("isolate", "halves")
#: How a fault names all clients of the run.
CLIENT = "client"
HARMLESS = ("noop", "tier_outage")
#: What ``membership`` does when a broker joins a group that is well without it.
ADD = "add"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


@dataclass(frozen=True, slots=True)
class Availability:
    name: LawName = LawName.AVAILABILITY
    scope: Scope = Scope.QUEUE

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(self.name)
        sends = rows.memo(views.sends)
        found.count("sends", len(sends.invoke))
        found.count("acked", int(sends.ok.sum()))
        _harness(rows, context, found)
        bound_s = float((context.meta.get("bounds") or {}).get("available_s", AVAILABLE_S))
        owed = _owed(rows, context, int(bound_s * 1e9))
        found.fact(owed_ms=sum(b - a for a, b, _ in owed) // 1_000_000)
        queue = rows.column("queue")[sends.invoke]
        for number in np.unique(queue).tolist():
            _of_queue(rows, found, int(number), np.flatnonzero(queue == number), owed, bound_s)
        return found.partial()

    def judge(self, partials: Sequence[Partial], context: RunContext) -> Verdict:
        """The counts also tell the longest time without an acknowledged send of any queue, in milliseconds."""
        facts = [fact for partial in partials for fact in partial.facts]
        longest = max((int(1000 * fact["longest_s"]) for fact in facts if "longest_s" in fact), default=0)
        owed = max((int(fact["owed_ms"]) for fact in facts if "owed_ms" in fact), default=0)
        summary = Partial(counts={"longest_without_ok_ms": longest, "service_owed_ms": owed})
        needs = [
            ("acked", "no acknowledged send: nothing tells whether there was service"),
            ("service_owed_ms", "at no time were enough nodes well for service to be owed"),
        ]
        return decide(self.name, [*partials, summary] if partials else [], needs=needs)


def _harness(rows: Rows, context: RunContext, found: Findings) -> None:
    """A harness that did not run can't judge anybody's service; a cluster that did not recover broke its promise."""
    for at in rows.where(kind="harness", f="stall"):
        stalled_ms = float(rows.value(at).get("ms", 0))
        if stalled_ms > STALL_MS:
            found.gap(f"the harness itself stood still for {stalled_ms:g} ms at {views.at_s(rows, at)}")
    lost = rows.where(kind="harness", f="host_lost")
    if len(lost):
        found.gap("; ".join(str(rows.value(at).get("what", "a host could not be reached")) for at in lost))
        return
    destroyed = views.only_copy_destroyed(rows, context)
    if destroyed and not views.has_recovered(rows):
        found.gap(f"{destroyed}, so that the group owes no service any more")
        return
    for at in rows.where(kind="harness", f="not_recovered"):
        found.add(
            AnomalyName.NOT_RECOVERED,
            f"The system had not recovered {rows.value(at).get('seconds', 'some')} s after the last fault was undone: "
            f"{rows.value(at).get('reason', 'no reason was recorded')}.",
            *([heal] if (heal := views.phase_index(rows, "heal")) >= 0 else []),
            int(rows.column("index")[at]),
        )
    if not len(rows.where(kind="harness", f="not_recovered")) and not views.has_recovered(rows):
        found.gap("nothing tells whether the system recovered after the last fault")


#: A stretch of time in which service is owed, and the row of the fault that began it (-1: none).
Stretch = tuple[int, int, int]


def _owed(rows: Rows, context: RunContext, bound_ns: int) -> list[Stretch]:
    """The stretches in which sends must succeed again within the bound; each change of who is out begins a new one."""
    begin, end = views.phase_time(rows, "load"), views.phase_time(rows, "heal")
    sends = rows.memo(views.sends)
    if not len(sends.invoke) or len(rows.where(kind="harness", f="host_lost")):
        return []
    times = rows.column("time_ns")
    begin = begin if begin >= 0 else int(times[sends.invoke[0]])
    end = end if end >= 0 else int(times[sends.invoke[-1]])
    known = rows.memo(views.faults)
    moments = {begin, end}
    for fault in known:
        moments |= {moment for moment in (fault.began_ns, fault.until_ns) if begin < moment < end}

    ended = views.service_ended(rows, context)
    moments |= {moment for moment in ended if begin < moment < end}

    def owed_at(now: int) -> bool:
        if ended[0] <= now < ended[1]:
            return False
        active = [fault for fault in known if fault.began_ns <= now < fault.until_ns]
        return _enough_left(rows, context, active, now, bound_ns)

    changes = {now for now, _ in rows.memo(_sets) if begin < now < end}
    moments |= {now for now in changes if owed_at(now) != owed_at(now - 1)}
    stretches: list[Stretch] = []
    for one, two in pairwise(sorted(moments)):
        if owed_at(one):
            cause = max((fault.index for fault in known if fault.began_ns == one or fault.until_ns == one), default=-1)
            stretches.append((one, two, cause))
    return stretches


def _enough_left(rows: Rows, context: RunContext, active: Sequence[Fault], at_ns: int, bound_ns: int) -> bool:
    """Are a majority of controllers and enough brokers, one of them of the committed SyncStateSet, untouched? A fault
    of a kind that only owes recovery after its undo leaves nothing owed, and so does one that takes out clients."""
    out: set[str] = set()
    for fault in active:
        if CLIENT in fault.targets:
            return False
        shape = str(fault.detail.get("shape", ""))
        if fault.name in TAKES_OUT or (fault.name == "partition" and shape in TAKES_OUT_SHAPES):
            out |= set(fault.targets)
        elif fault.name not in HARMLESS and fault.detail.get("change") != ADD:
            return False
    names = views.brokers(rows, context, at_ns)
    others = {node.get("name") for node in context.meta.get("nodes") or () if node.get("role") == "nameserver"}
    if others and others <= out:
        return False
    if not out & {*names, *others}:
        return not out or _settled(rows, names, at_ns, bound_ns)
    controllers: Sequence[str] = context.meta.get("controllers") or ()
    profile: Mapping[str, object] = context.meta.get("profile") or {}
    needed = int(str(profile.get("min_in_sync", 2)))
    left = [name for name in names if name not in out]
    members = _set_at(rows, at_ns) if rows.memo(_sets) else names
    return (
        2 * sum(name not in out for name in controllers) > len(controllers) - (not controllers)
        and len(left) >= needed
        and any(name in members for name in left)
    )


def _settled(rows: Rows, names: Sequence[str], at_ns: int, bound_ns: int) -> bool:
    """Had no fault touched a broker for as long as the bound? Then traffic goes on even while no controller is up."""
    touched = (fault for fault in rows.memo(views.faults) if set(fault.targets) & set(names))
    return all(fault.from_ns > at_ns or fault.until_ns <= at_ns - bound_ns for fault in touched)


def _sets(rows: Rows) -> Sequence[tuple[int, tuple[str, ...]]]:
    """(time, SyncStateSet from then on), by time: as the controllers committed it or, without their word, as masters
    told it."""
    times = rows.column("time_ns")
    told: list[tuple[int, tuple[str, ...], int]] = []
    for at in rows.where(kind="trace", f="applied").tolist():
        entry = rows.value(at).get("entry") or {}
        if "set" in entry and not entry.get("unattended"):
            told.append((int(times[at]), tuple(entry["set"]), int(entry.get("set_epoch", -1))))
    if told:
        first: dict[int, tuple[int, tuple[str, ...]]] = {}
        for now, members, epoch in sorted(told):  # each controller applies it, some of them late or again
            first.setdefault(epoch, (now, members))
        return sorted(first.values())
    by_masters = [*rows.where(kind="trace", f="set").tolist(), *rows.where(kind="trace", f="role").tolist()]
    return sorted((int(times[at]), tuple(rows.value(at)["set"])) for at in by_masters if rows.value(at).get("set"))


def _set_at(rows: Rows, at_ns: int) -> Sequence[str]:
    """The SyncStateSet at this time."""
    known = rows.memo(_sets)
    place = bisect_right(known, at_ns, key=lambda one: one[0]) - 1
    return known[place][1] if place >= 0 else ()


def _of_queue(rows: Rows, found: Findings, queue: int, mine: Ints, owed: Sequence[Stretch], bound_s: float) -> None:
    """Within each stretch, no time longer than the bound passes without an acknowledged send, if any was tried."""
    sends, times, index = rows.memo(views.sends), rows.column("time_ns"), rows.column("index")
    asked = times[sends.invoke[mine]]
    good = mine[sends.ok[mine]]
    answered = np.sort(times[sends.done[good]])
    if len(answered) > 1:
        found.fact(queue=queue, longest_s=round(float(np.diff(answered).max()) / 1e9, 3))
    bound_ns = int(bound_s * 1e9)
    for begin, end, cause in owed:
        inside = answered[(answered >= begin) & (answered <= end)]
        marks = np.concatenate([[begin], inside, [end]])
        for gap in np.flatnonzero(np.diff(marks) > bound_ns).tolist():
            low, high = int(marks[gap]), int(marks[gap + 1])
            tried = mine[(asked > low) & (asked <= high)]
            # A client must have tried early enough that its send could have been answered within the bound.
            if not len(tried) or int(asked[(asked > low) & (asked <= high)].min()) > high - bound_ns:
                continue
            first, last = int(sends.invoke[tried[0]]), int(sends.invoke[tried[-1]])
            found.add(
                AnomalyName.UNAVAILABLE,
                f"No send to queue {queue} was acknowledged for {(high - low) / 1e9:.1f} s, from "
                f"{views.at_s(rows, first)} on, although {len(tried)} were tried and enough nodes were well; "
                f"{bound_s:g} s are permitted.",
                cause,
                int(index[first]),
                int(index[last]),
                queue=queue,
            )


def create(options: Options) -> Availability:
    return Availability()
