"""Sends succeed again within a bound while a fault lasts, if enough nodes are left; after the heal all recover."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from chaos.fault import Effect
from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs
from chaos.law import AnomalyKind, Harm, Partial, Promise, RunContext
from chaos.operations import Send
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import reads, service, waits
from checkers._facts.arrays import Ints, Line
from checkers._facts.clients import SILENCE_NS
from checkers._facts.reads import everywhere, own
from checkers._facts.service import Stretch

AVAILABLE_S = 10.0
STALL_MS = 1_000
#: A harness may stand still for so long, and large queues show no shorter silence.
SILENCE_S = SILENCE_NS / 1e9
#: In virtual time an answer takes no longer than this besides, to look for the master and on its way, and as long as
#: the jitter of so many messages: who is master, a connection, a send to a broker and its replicas, their answers.
BESIDES_MS, MESSAGES = 200, 8
#: So long after its end a fault may still make answers late.
CALM_NS = 3_000_000_000
UNAVAILABLE = "unavailable"
NOT_RECOVERED = "not-recovered"
LATE_ANSWER = "late-answer"
PROMISE = Promise(
    name="availability",
    place=110,
    meaning="With enough nodes well, sends succeed again within a bound, and the system recovers after the faults.",
    counts={
        "acked": "acknowledged",
        "longest_without_ok_ms": "ms without service at most",
        "service_owed_ms": "",
    },
    anomalies=(
        AnomalyKind(
            name=UNAVAILABLE,
            meaning="no send to a queue was acknowledged for longer than the bound, although clients tried",
            headline=("A queue had no service for longer than permitted",),
            harm=Harm.CLIENTS,
        ),
        AnomalyKind(
            name=NOT_RECOVERED,
            meaning="after all faults were undone the system did not become whole within its bound",
            headline=("The system did not recover after the faults",),
            harm=Harm.CLIENTS,
        ),
        AnomalyKind(
            name=LATE_ANSWER,
            meaning="a broker answered a send later than a message may wait for its acknowledgement",
            decision=(Send,),
        ),
    ),
)


NEEDS = Needs(
    part="how long nobody was served",
    key=Key.QUEUE,
    rows=(reads.SILENCE, everywhere("trace", "crash"), *reads.SERVICE_OWED),
    columns=(*reads.BASIC, *reads.OPERATIONS, "position"),
    uses=(Use.QUEUES,),
)
ANSWERED = Needs(
    part="how many sends were acknowledged, and when the others were answered",
    key=Key.OFFSET,
    rows=(own("op", "send"), everywhere("trace", "role"), reads.RUN, reads.FAULTS),
    columns=(*reads.BASIC, *reads.OPERATIONS),
    uses=(Use.QUEUES,),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


@dataclass(frozen=True, slots=True)
class Answered:
    """Counts the sends: without one that was acknowledged nothing shows whether there was service. Those that can't be
    acknowledged in time are answered all the same."""

    promise: Promise = PROMISE
    needs: Needs = ANSWERED

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        sends, found, index = rows.memo(facts.sends), Findings(PROMISE), rows.column("index")
        for late in _late_answers(rows, context):
            found.add(
                LATE_ANSWER,
                f"{late.node} answered a send to queue {rows.column('queue')[late.invoke]} "
                f"{late.took_ms:.0f} ms after it was made at {facts.at_s(rows, late.invoke)}, where a message may wait "
                f"{late.limit_ms} ms for its acknowledgement, with no fault in the way of either.",
                *(int(index[row]) for row in (late.limit_at, late.invoke, late.done)),
                queue=int(rows.column("queue")[late.invoke]),
            )
        counts = {"sends": len(sends.invoke), "acked": int(sends.ok.sum())}
        return found.partial().merge(Partial(counts=counts))

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [("acked", "no acknowledged send: nothing shows whether there was service")]
        return decide(PROMISE, partial, needs=needs, unless=context.no_queues)


@dataclass(frozen=True, slots=True)
class _LateAnswer:
    """A send, by the rows that began and ended it; ``limit_at`` is the row in which its broker gave ``limit_ms``."""

    invoke: int
    done: int
    node: str
    took_ms: float
    limit_ms: int
    limit_at: int


def _late_answers(rows: Rows, context: RunContext) -> Iterator[_LateAnswer]:
    """Yield those that a broker has answered itself, in whatever way, in the order of the sends. They are judged only
    where one clock gives all times, and no fault but of other brokers was in force meanwhile or shortly before."""
    if not context.one_clock or context.unfinished:
        return
    limits, reporting = _limits(rows)
    besides_ns = BESIDES_MS * 1_000_000 + MESSAGES * context.jitter_ns
    made, times = rows.memo(facts.sends), rows.column("time_ns")
    ended = np.flatnonzero(made.done >= 0)
    took_ns = times[made.done[ended]] - times[made.invoke[ended]]
    shortest_ms = min((ms for ms, _ in limits.values()), default=0)
    if not limits:
        return
    for n in np.flatnonzero(took_ns > shortest_ms * 1_000_000 + besides_ns).tolist():
        invoke, done = int(made.invoke[ended[n]]), int(made.done[ended[n]])
        node = rows.text("node", done)
        limit_ms, limit_at = limits.get(node, (-1, -1))
        late = limit_ms >= 0 and took_ns[n] > limit_ms * 1_000_000 + besides_ns
        if late and not _excused(rows, reporting - {node}, int(times[invoke]), int(times[done])):
            yield _LateAnswer(invoke, done, node, int(took_ns[n]) / 1e6, limit_ms, limit_at)


def _limits(rows: Rows) -> tuple[Mapping[str, tuple[int, int]], Set[str]]:
    """Return for each broker how long a message may wait there, in ms, with the row that says so; and the nodes that
    reported roles."""
    limits: dict[str, tuple[int, int]] = {}
    reporting = set()
    for at in rows.where(kind="trace", f="role").tolist():
        node, limit_ms = rows.text("node", at), rows.value(at).get("ack_timeout_ms")
        reporting.add(node)
        if isinstance(limit_ms, int) and limit_ms > limits.get(node, (-1, -1))[0]:
            limits[node] = (limit_ms, at)
    return limits, reporting


def _excused(rows: Rows, others: Set[str], began_ns: int, ended_ns: int) -> bool:
    """Return whether a fault was in force that may have hit the broker, a client, or another node that clients ask."""
    return any(
        fault.effects is None or bool((fault.hits(*Effect) | fault.targets) - others)
        for fault in rows.memo(facts.faults)
        if fault.began_ns <= ended_ns and fault.until_ns + CALM_NS >= began_ns
    )


@dataclass(frozen=True, slots=True)
class Availability:
    """How long no send was acknowledged. Of a large queue it is given only the sends that bound a long silence."""

    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        check_harness(rows, context, found)
        bound_s = facts.bound(context, "available_s", AVAILABLE_S)
        if bound_s < SILENCE_S:
            found.gap(f"bounds.available_s is {bound_s:g}: times of less than {SILENCE_S:g} s are not judged")
        owed = service.stretches(rows, context, int(bound_s * 1e9), by_client=True)
        found.fact(owed_ms=sum(one.end - one.begin for one in owed if one.certain) // 1_000_000)
        lacks = _Lacks.of(rows, owed, max(int(bound_s * 1e9), SILENCE_NS))
        found.fact(longest_s=round(lacks.longest_ns / 1e9, 3), acked=bool(rows.memo(facts.sends).ok.any()))
        _report_lacks(rows, found, lacks, owed, bound_s)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        """Decide, and count also the longest time without an acknowledged send of any queue, in milliseconds. Where no
        send was acknowledged, the other kernel says so; in a run that uses no queues nothing is owed then."""
        longest = max((int(1000 * fact["longest_s"]) for fact in partial.facts if "longest_s" in fact), default=0)
        owed = max((int(fact["owed_ms"]) for fact in partial.facts if "owed_ms" in fact), default=0)
        if context.no_queues and not any(fact.get("acked") for fact in partial.facts):
            owed = 0
        summary = Partial(counts={"longest_without_ok_ms": longest, "service_owed_ms": owed})
        needs = [("service_owed_ms", "at no time were enough nodes well for service to be owed")]
        return decide(PROMISE, partial.merge(summary), needs=needs, unless=context.no_queues)


def check_harness(rows: Rows, context: RunContext, found: Findings) -> None:
    """Check that the harness ran and that the cluster recovered. A harness that did not run can't judge anybody's
    service; a cluster that did not recover broke its promise."""
    for at in rows.where(kind="harness", f="stall"):
        stalled_ms = float(rows.value(at).get("ms", 0))
        if stalled_ms > STALL_MS:
            found.gap(f"the harness itself stood still for {stalled_ms:g} ms at {facts.at_s(rows, at)}")
    lost = rows.where(kind="harness", f="host_lost")
    if len(lost):
        found.gap("; ".join(str(rows.value(at).get("what", "a host could not be reached")) for at in lost))
        return
    destroyed = facts.only_copy_destroyed(rows, context)
    if destroyed and not facts.has_recovered(rows) and facts.service_ended(rows, context)[1] == facts.NEVER:
        found.gap(f"{destroyed.why}, so that the group owes no service any more")
        return
    if (unlucky := _accident_after_heal(rows)) and not facts.has_recovered(rows):
        found.gap(f"an accident of the machine ended {', '.join(unlucky)} while the system was to recover")
        return
    for at in rows.where(kind="harness", f="not_recovered").tolist():
        waiting = waits.waits(rows, at)
        found.add(
            NOT_RECOVERED,
            f"The system had not recovered {rows.value(at).get('seconds', 'some')} s after the last fault was undone: "
            f"{rows.value(at).get('reason', 'no reason was recorded')}.{waits.in_words(waiting)}",
            *([heal] if (heal := facts.phase_index(rows, "heal")) >= 0 else []),
            *dict.fromkeys(one.index for one in waiting[: waits.NAMED]),
            int(rows.column("index")[at]),
        )
    if not len(rows.where(kind="harness", f="not_recovered")) and not facts.has_recovered(rows):
        found.gap("nothing shows whether the system recovered after the last fault")


def _accident_after_heal(rows: Rows) -> Sequence[str]:
    """Return the nodes that an unplanned fault hit, or still held down, after the harness had undone all of its own."""
    healed = facts.phase_time(rows, "heal")
    late = [one for one in rows.memo(facts.faults) if healed >= 0 and one.until_ns > healed and one.unplanned]
    return sorted({node for one in late for node in one.targets})


@dataclass(frozen=True, slots=True)
class _Lacks:
    """Times longer than the bound, within a stretch in which service was owed, without an acknowledged send to a queue
    to which sends were tried early enough: from ``low_ns`` to ``high_ns``, by queue, then stretch, then time.
    ``first`` and ``last`` are the rows of the first and the last of the ``tried`` sends. ``longest_ns``: the longest
    time between two acknowledged sends to one queue, owed or not, if a second of the clock began between them."""

    queue: Ints
    stretch: Ints
    low_ns: Ints
    high_ns: Ints
    first: Ints
    last: Ints
    tried: Ints
    longest_ns: int

    @classmethod
    def of(cls, rows: Rows, owed: Sequence[Stretch], bound_ns: int) -> _Lacks:
        sends, times = rows.memo(facts.sends), rows.column("time_ns")
        queues, number = np.unique(rows.column("queue")[sends.invoke], return_inverse=True)
        line = Line.of(times)
        counts = ~service.felt(rows, sends.invoke)
        asked = line.places(number[counts], times[sends.invoke[counts]])
        order = np.argsort(asked, kind="stable")
        asked, invoked = asked[order], sends.invoke[counts][order]
        answered = np.sort(line.places(number[sends.ok], times[sends.done[sends.ok]]))
        found = [cls._within(line, stretch, answered, len(queues), bound_ns) for stretch in owed]
        of, low, high = (np.concatenate(part) for part in zip(*found, strict=True)) if found else _NOTHING
        stretch = np.repeat(np.arange(len(found)), np.array([len(one[0]) for one in found], dtype=np.int64))
        # A client must have tried early enough that its send could have been answered within the bound.
        first = np.searchsorted(asked, line.places(of, low), "right")
        end = np.searchsorted(asked, line.places(of, high), "right")
        in_time = np.searchsorted(asked, line.places(of, high - bound_ns), "right")
        kept = np.flatnonzero(in_time > first)
        kept = kept[np.lexsort((low[kept], stretch[kept], of[kept]))]
        first, end = first[kept], end[kept]
        second = line.numbers(answered) // SILENCE_NS
        apart = (line.keys(answered[1:]) == line.keys(answered[:-1])) & (second[1:] != second[:-1])
        return cls(
            queue=queues[of[kept]],
            stretch=stretch[kept],
            low_ns=low[kept],
            high_ns=high[kept],
            first=invoked[first],
            last=invoked[end - 1],
            tried=end - first,
            longest_ns=int(np.diff(answered)[apart].max(initial=0)),
        )

    @staticmethod
    def _within(line: Line, stretch: Stretch, answered: Ints, queues: int, bound_ns: int) -> tuple[Ints, Ints, Ints]:
        """Return (queue's number, begin, end) of each time longer than the bound without an answer in this stretch."""
        of, at = line.keys(answered), line.numbers(answered)
        inside = (at >= stretch.begin) & (at <= stretch.end)
        of, at = of[inside], at[inside]
        number = np.concatenate([of, np.arange(queues), np.arange(queues)])
        marks = np.concatenate([at, np.full(queues, stretch.begin), np.full(queues, stretch.end)])
        order = np.lexsort((marks, number))
        number, marks = number[order], marks[order]
        wide = np.flatnonzero((np.diff(marks) > bound_ns) & (number[1:] == number[:-1]))
        return number[wide], marks[wide], marks[wide + 1]


_NOTHING = (np.empty(0, dtype=np.int64),) * 3


def _report_lacks(rows: Rows, found: Findings, lacks: _Lacks, owed: Sequence[Stretch], bound_s: float) -> None:
    certain = np.array([stretch.certain for stretch in owed], dtype=np.bool_)[lacks.stretch]

    def without(item: int) -> str:
        seconds = (int(lacks.high_ns[item]) - int(lacks.low_ns[item])) / 1e9
        return (
            f"o send to queue {lacks.queue[item]} was acknowledged for {seconds:.1f} s, from "
            f"{facts.at_s(rows, int(lacks.first[item]))} on, "
        )

    def report(item: int) -> None:
        index, last = rows.column("index"), int(lacks.last[item])
        found.add(
            UNAVAILABLE,
            f"N{without(item)}although {lacks.tried[item]} were tried and enough nodes were well; {bound_s:g} s are "
            f"permitted.{waits.in_words(waits.waits(rows, last))}",
            owed[lacks.stretch[item]].cause,
            int(index[lacks.first[item]]),
            int(index[last]),
            queue=int(lacks.queue[item]),
        )

    found.add_each(UNAVAILABLE, np.flatnonzero(certain), report, queues=lacks.queue[certain])
    for item in np.flatnonzero(~certain).tolist():
        found.gap(
            f"n{without(item)}while a fault was in force that declares no effects: whether service was owed is unknown"
        )


def create(options: Options) -> Sequence[Availability | Answered]:
    return (Availability(), Answered())
