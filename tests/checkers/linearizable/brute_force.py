"""Linearizability by its definition: some order of the completed operations and of some of the crashed ones that keeps
real time and that the object allows. The objects' rules are written here once more, so that nothing is shared with the
checkers under test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from checkers.linearizable.history import Argument, Function, History, Operation

NIL = "null"
NOT_ALLOWED = object()
F = Function


def linearizable(history: History, numbers: Iterable[int] | None = None) -> bool:
    """Whether the history, or the part of it with these operation numbers, is linearizable, every object for itself."""
    chosen = history.operations if numbers is None else [history.operations[n] for n in numbers]
    return all(
        _some_order([operation for operation in chosen if operation.key == key], _RULES[history.model], history.init)
        for key in {operation.key for operation in chosen}
    )


def _some_order(operations: Sequence[Operation], rule: Callable[..., Any], init: tuple[Argument, ...]) -> bool:
    tried: set[tuple[frozenset[int], Any]] = set()

    def go_on(left: frozenset[int], state: Any) -> bool:
        if all(operations[i].ret is None for i in left):
            return True
        if (left, state) in tried:
            return False
        tried.add((left, state))
        for i in left:
            late = any(operations[j].ret is not None and operations[j].ret < operations[i].call for j in left)
            after = NOT_ALLOWED if late else rule(state, operations[i].f, operations[i].arguments)
            if after is not NOT_ALLOWED and go_on(left - {i}, after):
                return True
        return False

    return go_on(frozenset(range(len(operations))), rule(None, None, init))


def _register(value: Any, f: Any, a: Any) -> Any:
    if f is None:
        return a[0] if a else NIL
    if f == F.READ:
        return value if a[0] in (None, value) else NOT_ALLOWED
    if f == F.WRITE:
        return a[0]
    if f == F.CAS:
        return a[1] if a[0] == value else NOT_ALLOWED
    if f == F.CAS_FAILED:
        return NOT_ALLOWED if a[0] == value else value
    raise AssertionError(f)


def _kv(state: Any, f: Any, a: Any) -> Any:
    """(value, what absent means)."""
    if f is None:
        return (NIL, NIL) if a in ((), (NIL,)) else (a[0], '""' if a[0] == '""' else NIL)
    value, absent = state
    if f == F.READ:
        return state if a[0] in (None, value) or (a[0] == NIL and value == absent) else NOT_ALLOWED
    if f == F.DELETE or a[0] == NIL:
        return (absent, absent)
    if f == F.WRITE:
        return (a[0], absent)
    before = "" if value == NIL else value.removeprefix('"').removesuffix('"')
    return ('"' + before + a[0].removeprefix('"').removesuffix('"') + '"', absent)


def _multi_register(values: Any, f: Any, a: Any) -> Any:
    if f is None:
        return frozenset(pair for pair in zip(a[::2], a[1::2], strict=True) if pair[1] != NIL)
    now = dict(values)
    for i in range(0, len(a), 3):
        if a[i] == F.WRITE:
            now[a[i + 1]] = a[i + 2]
        elif a[i + 2] is not None and now.get(a[i + 1], NIL) != a[i + 2]:
            return NOT_ALLOWED
    return frozenset(pair for pair in now.items() if pair[1] != NIL)


def _mutex(held: Any, f: Any, a: Any) -> Any:
    if f is None:
        return a == (1,)
    if f == F.ACQUIRE:
        return NOT_ALLOWED if held else True
    return False if held else NOT_ALLOWED


def _fenced_lock(state: Any, f: Any, a: Any) -> Any:
    """(tokens so far, holder or None, the holder's token or None)."""
    if f is None:
        holder = a[0] if a and a[0] != -1 else None
        return (tuple(a[1:2]), holder, a[1] if holder is not None and len(a) > 1 else None)
    tokens, holder, token = state
    if f == F.ACQUIRE:
        if holder is not None or (a[1] is not None and tokens and a[1] <= max(tokens)):
            return NOT_ALLOWED
        if a[1] is not None:
            return ((a[1],), a[0], a[1])
        return ((max(tokens) + 1,) if tokens else (), a[0], None)
    if holder != a[0]:
        return NOT_ALLOWED
    if a[1] is None:
        return (tokens, None, None)
    if a[1] != token if token is not None else tokens and a[1] < max(tokens):
        return NOT_ALLOWED
    return ((a[1],), None, None)


def _set(elements: Any, f: Any, a: Any) -> Any:
    if f is None:
        return frozenset(a)
    if f == F.READ:
        return elements if a == (None,) or set(a) == elements else NOT_ALLOWED
    inside = a[0] in elements
    if f == F.CONTAINS:
        return elements if a[1] in (None, int(inside)) else NOT_ALLOWED
    if f == F.ADD:
        return elements | {a[0]} if a[1] in (None, int(not inside)) else NOT_ALLOWED
    return elements - {a[0]} if a[1] in (None, int(inside)) else NOT_ALLOWED


def _fifo_queue(queue: Any, f: Any, a: Any) -> Any:
    if f is None:
        return a
    if f == F.ENQUEUE:
        return queue + a
    if a[0] == NIL:
        return NOT_ALLOWED if queue else queue
    if a[0] is None:
        return queue[1:]
    return queue[1:] if queue[:1] == a else NOT_ALLOWED


def _unordered_queue(worlds: Any, f: Any, a: Any) -> Any:
    """All that may be: sets of (elements as a sorted tuple, drains that are over), one for each choice of elements."""
    if f is None:
        return frozenset({(tuple(sorted(a)), frozenset())})
    found = set()
    for elements, over in worlds:
        if f == F.ENQUEUE:
            found.add((tuple(sorted((*elements, a[0]))), over))
        elif f == F.DRAINED and not elements:
            found.add((elements, over | {a[0]}))
        elif f == F.DEQUEUE and not elements and a[0] in (None, NIL):
            found.add((elements, over))
        elif f == F.DEQUEUE and not (len(a) > 1 and a[1] in over):
            for place, element in enumerate(elements):
                if a[0] in (None, element):
                    found.add((elements[:place] + elements[place + 1 :], over))
    return frozenset(found) if found else NOT_ALLOWED


def _counter(number: Any, f: Any, a: Any) -> Any:
    if f is None:
        return sum(a)
    if f == F.ADD:
        return number + a[0]
    return number if a[0] in (None, number) else NOT_ALLOWED


def _replica_info(info: Any, f: Any, a: Any) -> Any:
    if f is None:
        return a or (0,)
    if f == F.READ:
        return info if a in ((None,), info) else NOT_ALLOWED
    if f == F.WRITE:
        return a
    if f == F.CAS_FAILED:
        return NOT_ALLOWED if info[0] == a[0] else info
    new = a[0] + 1 if a[1] is None else a[1]
    return (new, *a[2:]) if info[0] == a[0] < new else NOT_ALLOWED


_RULES: dict[str, Callable[..., Any]] = {
    "register": _register,
    "cas-register": _register,
    "multi-register": _multi_register,
    "mutex": _mutex,
    "fenced-lock": _fenced_lock,
    "kv": _kv,
    "set": _set,
    "fifo-queue": _fifo_queue,
    "unordered-queue": _unordered_queue,
    "counter": _counter,
    "replica-info": _replica_info,
}
