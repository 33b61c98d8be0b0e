"""The smallest part of a history that is still not linearizable, and for the same reason.

Taking operations away at random finds small parts that are illegal for a silly reason: a read whose write was taken
away. So what an operation saw is taken away only together with it: a write never without the reads that may have seen
it, a lock's release never without its acquire, a queue's enqueue never without the dequeue of that value.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Sequence
from typing import Protocol

from checkers.linearizable.history import NIL, Argument, Function, History, Operation

#: What an operation makes true and others see: (cell, content). A register has one cell, a set one for each element.
Fact = tuple[Hashable, Hashable]
#: The cell of what piles up and is never overwritten: sums, appended text, removals.
PILE = "pile"
SUM: Fact = (PILE, "sum")


class Question(Protocol):
    """Whether these operations alone are not linearizable. Once ``spent``, the answer is no for want of budget."""

    spent: bool

    def __call__(self, numbers: Sequence[int]) -> bool: ...


def minimal(history: History, numbers: Sequence[int], illegal: Question) -> tuple[int, ...]:
    """Return a part of ``numbers`` that is still ``illegal`` and from which nothing can be taken away (Zeller and
    Hildebrandt's delta debugging, over units of operations). A budget that is spent makes the part larger, never
    wrong."""
    units = _units(history, numbers)
    seen_by = _seen_by(history, units)
    kept = _illegal_end(units, seen_by, illegal)
    share = max(1, len(kept) // 2)
    while not illegal.spent:
        smaller = _without_one_share(kept, share, units, seen_by, illegal)
        if smaller is not None:
            kept = smaller
            share = min(share, max(1, len(kept) // 2))
        elif share > 1:
            share //= 2
        else:
            break
    return tuple(_numbers(units, kept))


def _illegal_end(units: list[list[int]], seen_by: list[set[int]], illegal: Question) -> list[int]:
    """Return an illegal end of the history, shorter ones tried first: what was wrong mostly happened late, and a short
    part costs a short search."""
    everything = list(range(len(units)))
    length = 8
    while length < len(units) and not illegal.spent:
        end = _without(everything, everything[:-length], seen_by)
        if end and illegal(_numbers(units, end)):
            return end
        length *= 2
    return everything


def _without_one_share(
    kept: list[int], share: int, units: list[list[int]], seen_by: list[set[int]], illegal: Question
) -> list[int] | None:
    """Return what is left without ``share`` units in a row, the earliest first; None: all are needed."""
    for start in range(0, len(kept), share):
        left = _without(kept, kept[start : start + share], seen_by)
        if left and illegal(_numbers(units, left)):
            return left
    return None


def _without(kept: list[int], unwanted: list[int], seen_by: list[set[int]]) -> list[int]:
    """Return the units that are left without those and all that may have seen them."""
    gone = set(unwanted)
    affected = list(unwanted)
    while affected:
        more = seen_by[affected.pop()] - gone
        gone |= more
        affected.extend(more)
    return [unit for unit in kept if unit not in gone]


def _numbers(units: list[list[int]], kept: Iterable[int]) -> list[int]:
    return sorted(number for unit in kept for number in units[unit])


def _units(history: History, numbers: Sequence[int]) -> list[list[int]]:
    """Return what can only be taken away together: a lock's acquire and release, all that happens to one value of a
    queue, all that is added to a counter. Elsewhere every operation is one unit."""
    units: dict[Hashable, list[int]] = {}
    holdings: dict[str, int] = {}
    for number in numbers:
        operation = history.operations[number]
        name: Hashable = number
        if operation.f is Function.ACQUIRE:
            holdings[operation.process] = number
        elif operation.f is Function.RELEASE:
            name = holdings.pop(operation.process, number)
        elif operation.f in (Function.ENQUEUE, Function.DEQUEUE) and operation.arguments[0] not in (None, NIL):
            name = ("value", operation.arguments[0])
        elif history.model == "counter" and operation.f is Function.ADD:
            name = "sum"
        units.setdefault(name, []).append(number)
    return list(units.values())


def _seen_by(history: History, units: list[list[int]]) -> list[set[int]]:
    """Return, for each unit, those that may have seen what it made: it was called before they returned, and nothing
    surely overwrote it before they were called."""
    unit_of = {number: place for place, unit in enumerate(units) for number in unit}
    makers: dict[Fact, dict[int, int]] = {}
    overwriters: dict[Hashable, list[Operation]] = {}
    for number in unit_of:
        operation = history.operations[number]
        for fact in _made(history.model, operation):
            makers.setdefault(fact, {}).setdefault(unit_of[number] if fact == SUM else number, number)
            if operation.ret is not None and fact[0] != PILE:
                overwriters.setdefault(fact[0], []).append(operation)
    last_call = {cell: _LastCall(those) for cell, those in overwriters.items()}
    seen_by: list[set[int]] = [set() for _ in units]
    for number, unit in unit_of.items():
        operation = history.operations[number]
        for fact in _seen(history.model, operation):
            overwritten = last_call[fact[0]].before(operation.call) if fact[0] in last_call else -1
            for maker in makers.get(fact, {}).values():
                made = history.operations[maker]
                in_time = operation.ret is None or made.call < operation.ret
                lasting = made.ret is None or made.ret >= overwritten
                if in_time and lasting and unit_of[maker] != unit and _shows(operation, made):
                    seen_by[unit_of[maker]].add(unit)
    return seen_by


class _LastCall:
    """The latest call among the operations that returned before some moment."""

    def __init__(self, operations: list[Operation]) -> None:
        ordered = sorted((operation.ret or 0, operation.call) for operation in operations)
        self._returns = [ret for ret, _ in ordered]
        self._latest = [-1]
        for _, call in ordered:
            self._latest.append(max(self._latest[-1], call))

    def before(self, moment: int) -> int:
        return self._latest[bisect_left(self._returns, moment)]


def _shows(observer: Operation, maker: Operation) -> bool:
    """Return whether a text that was read can hold what was written; of anything but texts: yes."""
    if observer.f is not Function.READ or maker.f not in (Function.WRITE, Function.APPEND):
        return True
    text, piece = observer.arguments[0], maker.arguments[0]
    return not (isinstance(text, str) and isinstance(piece, str)) or piece[1:-1] in text


def _made(model: str, operation: Operation) -> list[Fact]:
    f, arguments = operation.f, operation.arguments
    if f is Function.TXN:
        return [(key, value) for what, key, value in _triples(arguments) if what == Function.WRITE]
    if model == "set":
        if f is Function.REMOVE:
            return [(arguments[0], False), (PILE, "removals")]
        return [(arguments[0], True)] if f is Function.ADD else []
    if f is Function.WRITE:
        return [("", arguments[0]), (PILE, "text")] if model == "kv" else [("", arguments[0])]
    if f is Function.CAS:
        return [("", _raised(arguments) if model == "replica-info" else arguments[1])]
    if f is Function.DELETE:
        return [("", NIL)]
    if f is Function.APPEND:
        return [(PILE, "text")]
    return [SUM] if f is Function.ADD else []


def _seen(model: str, operation: Operation) -> list[Fact]:
    f, arguments = operation.f, operation.arguments
    if f is Function.TXN:
        return [(key, value) for what, key, value in _triples(arguments) if what == Function.READ]
    if f is Function.READ:
        if model == "set":
            return [*((element, True) for element in arguments), (PILE, "removals")]
        if model == "counter":
            return [SUM]
        return [("", arguments[0]), (PILE, "text")] if model == "kv" else [("", arguments[0])]
    if f is Function.CAS:
        return [("", arguments[0])]
    if model == "set" and arguments[1] is not None:
        present = arguments[1] == 1 if f is Function.CONTAINS else (f is Function.ADD) != (arguments[1] == 1)
        return [(arguments[0], present)]
    return []


def _raised(arguments: tuple[Argument, ...]) -> Argument:
    """Return the epoch that a compare-and-set leaves."""
    expected = arguments[0]
    return expected + 1 if arguments[1] is None and isinstance(expected, int) else arguments[1]


def _triples(arguments: tuple[Argument, ...]) -> list[tuple[Argument, Argument, Argument]]:
    return list(zip(arguments[::3], arguments[1::3], arguments[2::3], strict=True))
