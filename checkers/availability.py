"""Sends succeed again within a bound while the fault lasts, if enough nodes are left; all recover after the heal."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence, Set
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

import numpy as np

from chaos.fault import Effect
from chaos.judging.findings import Findings, decide
from chaos.law import AnomalyKind, Key, Needs, Partial, Promise, Rows, RunContext
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _views as views
from checkers._views import reads
from checkers._views.arrays import Ints
from checkers._views.faults import Fault
from checkers._views.reads import everywhere, own

AVAILABLE_S = 10.0
STALL_MS = 1_000
#: Effects that take nodes out of service, and those that owe no interruption of sends at all.
TAKES_OUT = (Effect.TAKES_DOWN, Effect.ISOLATES)
HARMLESS = (Effect.HARMS_TIER, Effect.ADDS_REPLICA)
#: How an effect names all clients of the run.
CLIENT = "client"
UNAVAILABLE = "unavailable"
NOT_RECOVERED = "not-recovered"
PROMISE = Promise(
    name="availability",
    place=110,
    meaning="With enough nodes well, sends succeed again within a bound, and the system recovers after the faults.",
    anomalies=(
        AnomalyKind(
            name=UNAVAILABLE,
            meaning="no send to a queue was acknowledged for longer than the bound, although clients tried",
        ),
        AnomalyKind(
            name=NOT_RECOVERED, meaning="after all faults were undone the system did not become whole within its bound"
        ),
    ),
)


NEEDS = Needs(
    key=Key.QUEUE,
    rows=(own("op", "send"), everywhere("trace", "applied", "set"), reads.RUN, reads.FAULTS, *reads.REPLICAS),
    columns=(*reads.BASIC, *reads.OPERATIONS, "position"),
    uses=(Use.QUEUES,),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


@dataclass(frozen=True, slots=True)
class Availability:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        sends = rows.memo(views.sends)
        found.count("sends", len(sends.invoke))
        found.count("acked", int(sends.ok.sum()))
        _harness(rows, context, found)
        bound_s = float((context.meta.get("bounds") or {}).get("available_s", AVAILABLE_S))
        owed = _owed(rows, context, int(bound_s * 1e9))
        found.fact(owed_ms=sum(one.end - one.begin for one in owed if one.certain) // 1_000_000)
        queue = rows.column("queue")[sends.invoke]
        for number in np.unique(queue).tolist():
            _of_queue(rows, found, int(number), np.flatnonzero(queue == number), owed, bound_s)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        """The counts also tell the longest time without an acknowledged send of any queue, in milliseconds."""
        longest = max((int(1000 * fact["longest_s"]) for fact in partial.facts if "longest_s" in fact), default=0)
        owed = max((int(fact["owed_ms"]) for fact in partial.facts if "owed_ms" in fact), default=0)
        summary = Partial(counts={"longest_without_ok_ms": longest, "service_owed_ms": owed})
        needs = [
            ("acked", "no acknowledged send: nothing tells whether there was service"),
            ("service_owed_ms", "at no time were enough nodes well for service to be owed"),
        ]
        return decide(PROMISE, partial.merge(summary), needs=needs, unless=context.no_queues)


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
        found.gap(f"{destroyed.why}, so that the group owes no service any more")
        return
    for at in rows.where(kind="harness", f="not_recovered"):
        found.add(
            NOT_RECOVERED,
            f"The system had not recovered {rows.value(at).get('seconds', 'some')} s after the last fault was undone: "
            f"{rows.value(at).get('reason', 'no reason was recorded')}.",
            *([heal] if (heal := views.phase_index(rows, "heal")) >= 0 else []),
            int(rows.column("index")[at]),
        )
    if not len(rows.where(kind="harness", f="not_recovered")) and not views.has_recovered(rows):
        found.gap("nothing tells whether the system recovered after the last fault")


class Owed(IntEnum):
    """Is service owed at a moment? PERHAPS: a fault is in force of which nobody knows what it does."""

    NO = 0
    PERHAPS = 1
    YES = 2


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in which sends must succeed again within the bound: ``certain``, or if the faults of unknown effect that
    were in force did nothing. ``cause`` is the index of the row of the fault that began it, -1 if none did."""

    begin: int
    end: int
    cause: int
    certain: bool


def _owed(rows: Rows, context: RunContext, bound_ns: int) -> list[Stretch]:
    """The stretches in which service is owed; each change of who is out begins a new one."""
    begin, end = views.phase_time(rows, "load"), views.phase_time(rows, "heal")
    sends = rows.memo(views.sends)
    if not len(sends.invoke) or len(rows.where(kind="harness", f="host_lost")):
        return []
    times = rows.column("time_ns")
    begin = begin if begin >= 0 else int(times[sends.invoke[0]])
    end = end if end >= 0 else int(times[sends.invoke[-1]])
    known = [fault for fault in rows.memo(views.faults) if _interferes(fault)]
    ended = views.service_ended(rows, context)
    moments = {begin, end, *ended[:2]}
    moments |= {moment for fault in known for moment in (fault.began_ns, fault.until_ns)}

    def owed_at(now: int) -> Owed:
        if ended[0] <= now < ended[1]:
            return Owed.NO if ended[2] else Owed.PERHAPS
        return _owed_at(rows, context, known, now, bound_ns)

    changes = {now for now, _ in rows.memo(_sets) if begin < now < end}
    moments |= {now for now in changes if owed_at(now) is not owed_at(now - 1)}
    stretches: list[Stretch] = []
    for one, two in pairwise(sorted(moment for moment in moments if begin <= moment <= end)):
        if (owed := owed_at(one)) is not Owed.NO:
            cause = max((fault.index for fault in known if one in (fault.began_ns, fault.until_ns)), default=-1)
            stretches.append(Stretch(one, two, cause, owed is Owed.YES))
    return stretches


def _interferes(fault: Fault) -> bool:
    """May this fault have interrupted sends? One that is proven to have done nothing of that kind begins no new bound
    either."""
    return fault.effects is None or any(nodes for effect, nodes in fault.effects.items() if effect not in HARMLESS)


def _owed_at(rows: Rows, context: RunContext, known: Sequence[Fault], now: int, bound_ns: int) -> Owed:
    """A fault with another effect than to take nodes out of service only owes recovery after its undo, and so does one
    that concerns clients."""
    active = views.in_force(known, now)
    if any(CLIENT in fault.hits(*Effect) or _does_more(fault) for fault in active):
        return Owed.NO
    out = {node for fault in active for node in fault.hits(*TAKES_OUT)}
    enough = _enough_left(rows, context, known, out, now, bound_ns)
    return min(enough, Owed.PERHAPS) if any(fault.effects is None for fault in active) else enough


def _does_more(fault: Fault) -> bool:
    """Has it a proven effect besides? A node that is down or cut off may also have crashed: that changes nothing as
    long as it is out."""
    known = fault.effects or {}
    crashed = fault.hits(Effect.MAY_CRASH) - fault.hits(*TAKES_OUT)
    return bool(crashed) or any(known[one] for one in known if one not in (*TAKES_OUT, *HARMLESS, Effect.MAY_CRASH))


def _enough_left(
    rows: Rows, context: RunContext, known: Sequence[Fault], out: Set[str], at_ns: int, bound_ns: int
) -> Owed:
    """Are a majority of controllers and enough brokers, one of them of the committed SyncStateSet, untouched?"""
    names = views.brokers(rows, context, at_ns)
    others = {node.get("name") for node in context.meta.get("nodes") or () if node.get("role") == "nameserver"}
    if others and others <= out:
        return Owed.NO
    if not out & {*names, *others}:
        return _settled(known, names, at_ns, bound_ns) if out else Owed.YES
    controllers: Sequence[str] = context.meta.get("controllers") or ()
    left = [name for name in names if name not in out]
    members = _set_at(rows, at_ns) if rows.memo(_sets) else names
    enough = (
        2 * sum(name not in out for name in controllers) > len(controllers) - (not controllers)
        and len(left) >= context.profile.min_in_sync
        and any(name in members for name in left)
    )
    return Owed.YES if enough else Owed.NO


def _settled(known: Sequence[Fault], names: Sequence[str], at_ns: int, bound_ns: int) -> Owed:
    """Had no fault touched a broker for as long as the bound? Then traffic goes on even while no controller is up."""
    lately = [fault for fault in known if fault.from_ns <= at_ns and fault.until_ns > at_ns - bound_ns]
    if any(fault.hits(*(effect for effect in Effect if effect not in HARMLESS)) & set(names) for fault in lately):
        return Owed.NO
    return Owed.PERHAPS if any(fault.may_hit(name) for fault in lately for name in names) else Owed.YES


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
    for stretch in owed:
        begin, end = stretch.begin, stretch.end
        inside = answered[(answered >= begin) & (answered <= end)]
        marks = np.concatenate([[begin], inside, [end]])
        for gap in np.flatnonzero(np.diff(marks) > bound_ns).tolist():
            low, high = int(marks[gap]), int(marks[gap + 1])
            tried = mine[(asked > low) & (asked <= high)]
            # A client must have tried early enough that its send could have been answered within the bound.
            if not len(tried) or int(asked[(asked > low) & (asked <= high)].min()) > high - bound_ns:
                continue
            first, last = int(sends.invoke[tried[0]]), int(sends.invoke[tried[-1]])
            if not stretch.certain:
                found.gap(
                    f"no send to queue {queue} was acknowledged for {(high - low) / 1e9:.1f} s, from "
                    f"{views.at_s(rows, first)} on, while a fault was in force that declares no effects: nobody knows "
                    "whether it owed service"
                )
                continue
            found.add(
                UNAVAILABLE,
                f"No send to queue {queue} was acknowledged for {(high - low) / 1e9:.1f} s, from "
                f"{views.at_s(rows, first)} on, although {len(tried)} were tried and enough nodes were well; "
                f"{bound_s:g} s are permitted.",
                stretch.cause,
                int(index[first]),
                int(index[last]),
                queue=queue,
            )


def create(options: Options) -> Availability:
    return Availability()
