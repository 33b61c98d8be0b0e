"""What went in must come out: Jepsen's check ``total-queue``, which is none of linearizability.

Every element whose enqueue was acknowledged must come out of the queue, once it was drained, and nothing may come out
that nobody tried to put in. As in ``jepsen.checker/total-queue`` (jepsen-io/jepsen, ``jepsen/src/jepsen/checker.clj``),
a history is not valid if and only if elements are lost or unexpected; what came out more often than it was put in is
reported as duplicated, and what came out although its enqueue was not acknowledged as recovered.

Where Jepsen takes for granted that the queue was drained, and refuses drains that crashed, this asks for evidence: an
element is lost only if, after its enqueue was acknowledged, a drain (or a dequeue) found the queue empty, and no call
of unknown outcome can have taken it: a dequeue that crashed takes one element, a drain that crashed any number. Else it
is outstanding, and the history is undecided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from checkers.linearizable.history import NIL, Argument, Function, History, Operation, Result, Tally, Undecided

NOTHING = "no enqueue was acknowledged: nothing had to come out"


def examine(history: History) -> Result:
    """Judge a history of enqueues, dequeues and drains; objects (keys) one by one."""
    objects: dict[str | None, list[Operation]] = {}
    for operation in history.operations:
        objects.setdefault(operation.key, []).append(operation)
    tallies: list[Tally] = []
    undecided: list[Undecided] = []
    for key, operations in objects.items():
        tally, reason = _tally(operations, Counter(history.init))
        tallies.append(tally)
        if reason:
            undecided.append(Undecided(key=key, reason=reason, placed=0, of=0))
    whole = _sum(tallies)
    broken = bool(whole.lost or whole.unexpected)
    valid = False if broken else None if undecided else True
    return Result(
        id=history.id,
        valid=valid,
        ms=0.0,
        configs=0,
        peak_mib=0.0,
        undecided=() if broken else tuple(undecided),
        tally=whole,
    )


def sentences(tally: Tally) -> list[str]:
    """Return what became of the elements, in words."""
    counts = f"{tally.attempts} enqueues, {tally.acknowledged} of them acknowledged; {tally.dequeued} elements came out"
    kinds = ("lost", "unexpected", "duplicated", "recovered", "outstanding")
    found = [f"{kind} {sum(of.values())}: {_named(of)}" for kind in kinds if (of := getattr(tally, kind))]
    return [counts, *found]


def _tally(operations: list[Operation], init: Counter[Argument]) -> tuple[Tally, str]:
    """Return what became of the elements of one object, and why that is undecided ("": it is not)."""
    puts = [one for one in operations if one.f is Function.ENQUEUE]
    takes = [one for one in operations if one.f is Function.DEQUEUE and one.arguments[0] not in (None, NIL)]
    attempted = Counter(one.arguments[0] for one in puts) + init
    acknowledged = Counter(one.arguments[0] for one in puts if one.ret is not None) + init
    came_out = Counter(one.arguments[0] for one in takes if one.ret is not None)
    emptied = max((one.call for one in operations if _found_empty(one)), default=-1)
    due = Counter(one.arguments[0] for one in puts if one.ret is not None and one.ret < emptied)
    due += init if emptied >= 0 else Counter()
    missing = acknowledged - came_out
    lost = due - came_out
    crashed_dequeues = sum(one.f is Function.DEQUEUE and one.ret is None for one in operations)
    crashed_drains = sum(one.f is Function.DRAINED and one.ret is None for one in operations)
    excused = crashed_drains > 0 or 0 < lost.total() <= crashed_dequeues
    if excused:
        lost = Counter()
    unexpected = Counter({value: n for value, n in came_out.items() if value not in attempted})
    wrong = {*lost, *unexpected}
    rows = sorted({row for one in (*puts, *takes) if one.arguments[0] in wrong for row in one.rows if row >= 0})
    tally = Tally(
        lost=_texts(lost),
        unexpected=_texts(unexpected),
        duplicated=_texts(came_out - attempted - unexpected),
        recovered=_texts((came_out & attempted) - acknowledged),
        outstanding=_texts(missing - lost),
        attempts=len(puts),
        acknowledged=sum(one.ret is not None for one in puts),
        dequeued=came_out.total(),
        rows=tuple(rows),
    )
    return tally, _why(missing, acknowledged, emptied, crashed_drains, crashed_dequeues, excused)


def _found_empty(one: Operation) -> bool:
    empty = one.f is Function.DRAINED or (one.f is Function.DEQUEUE and one.arguments[0] == NIL)
    return empty and one.ret is not None


def _why(
    missing: Counter[Argument],
    acknowledged: Counter[Argument],
    emptied: int,
    crashed_drains: int,
    crashed_dequeues: int,
    excused: bool,
) -> str:
    if not acknowledged:
        return NOTHING
    if not missing:
        return ""
    outstanding = f"{missing.total()} acknowledged elements did not come out"
    if excused and crashed_drains:
        return f"{outstanding}, and a drain that crashed may have taken them"
    if excused:
        return f"{outstanding}, and the {crashed_dequeues} dequeues that crashed may have taken them"
    if emptied < 0:
        return f"{outstanding}, and no drain found the queue empty"
    return f"{outstanding}, and no drain after their enqueues found the queue empty"


def _texts(counts: Counter[Argument]) -> dict[str, int]:
    return {str(value): counts[value] for value in sorted(counts, key=_place)}


def _place(value: Argument) -> tuple[int, int, str]:
    """Numbers as numbers, then the others as texts."""
    text = str(value)
    number = text.lstrip("-").isdigit()
    return (0, int(text), "") if number else (1, 0, text)


def _sum(tallies: Iterable[Tally]) -> Tally:
    """Of several objects together."""
    all_of = list(tallies)

    def together(name: str) -> dict[str, int]:
        total: Counter[Argument] = Counter()
        for one in all_of:
            total.update(getattr(one, name))
        return _texts(total)

    return Tally(
        lost=together("lost"),
        unexpected=together("unexpected"),
        duplicated=together("duplicated"),
        recovered=together("recovered"),
        outstanding=together("outstanding"),
        attempts=sum(one.attempts for one in all_of),
        acknowledged=sum(one.acknowledged for one in all_of),
        dequeued=sum(one.dequeued for one in all_of),
        rows=tuple(sorted({row for one in all_of for row in one.rows})),
    )


def _named(counts: Mapping[str, int], most: int = 10) -> str:
    words = [value if n == 1 else f"{value} ({n} times)" for value, n in counts.items()]
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more
