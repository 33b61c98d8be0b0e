"""Sends succeed again within a bound while a fault lasts, if enough nodes are left; after the heal all recover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chaos.judging.findings import Findings, decide
from chaos.law import AnomalyKind, Key, Needs, Partial, Promise, Rows, RunContext
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _views as views
from checkers._views import reads, service, waits
from checkers._views.arrays import Ints
from checkers._views.reads import everywhere, own
from checkers._views.service import Stretch

AVAILABLE_S = 10.0
STALL_MS = 1_000
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
    rows=(own("op", "send"), everywhere("trace", "crash"), *reads.SERVICE),
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
        owed = service.stretches(rows, context, int(bound_s * 1e9))
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
    for at in rows.where(kind="harness", f="not_recovered").tolist():
        waiting = waits.waits(rows, at)
        found.add(
            NOT_RECOVERED,
            f"The system had not recovered {rows.value(at).get('seconds', 'some')} s after the last fault was undone: "
            f"{rows.value(at).get('reason', 'no reason was recorded')}.{waits.in_words(waiting)}",
            *([heal] if (heal := views.phase_index(rows, "heal")) >= 0 else []),
            *dict.fromkeys(one.index for one in waiting[: waits.TOLD]),
            int(rows.column("index")[at]),
        )
    if not len(rows.where(kind="harness", f="not_recovered")) and not views.has_recovered(rows):
        found.gap("nothing tells whether the system recovered after the last fault")


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
                f"{bound_s:g} s are permitted.{waits.in_words(waits.waits(rows, last))}",
                stretch.cause,
                int(index[first]),
                int(index[last]),
                queue=queue,
            )


def create(options: Options) -> Availability:
    return Availability()
