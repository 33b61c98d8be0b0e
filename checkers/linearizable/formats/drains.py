"""Drains: one call that takes whatever is in a queue, in the three forms in which Jepsen's queue tests record it.

* ``:ok :drain [1 2]``: the elements in the completion, which Jepsen's checkers expand to dequeues;
* a drain around dequeues of the same process, and ``:ok :drain :exhausted`` at the end (Disque);
* ``:invoke :drain``, ``:ok :dequeue 1``, ``:invoke :drain``, ``:ok :dequeue 2``, ..., ``:ok :drain :exhausted``
  (RabbitMQ, 2014).

A drain that ended ok is a dequeue for each element, in no order, and after them an observation that the queue was
empty; the last is not taken for granted where its last dequeue failed for another reason than that. A drain is not
atomic: others may take elements meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from checkers.linearizable.formats.edn import Set
from checkers.linearizable.formats.operation_mapping import Call, Shape, text
from checkers.linearizable.history import NIL, Argument, Function
from checkers.linearizable.models import TOTAL_QUEUE

DRAIN = "drain"
#: The models that know drains.
QUEUES = ("unordered-queue", TOTAL_QUEUE)
#: What a drain or a dequeue says when nothing was left.
EMPTY = ("exhausted", "empty", "queue-empty", "")

#: A moment: a place among the events, and an order among what was recorded as one event.
Moment = tuple[int, int]
#: What one of the operations of a drain did, and from when to when; no end: it crashed.
Part = tuple[Function, tuple[Argument, ...], Moment, Moment | None]


@dataclass(slots=True)
class Drain:
    """A drain of one process that goes on. ``since`` and ``row``: the latest event in it; ``emptied``: whether the last
    dequeue recorded in it, if there is one, failed for want of elements."""

    call: Call
    since: int
    row: int
    nested: bool = False
    emptied: bool = True

    def next_call(self, result: Any, position: int, row: int) -> Call:
        """Return the dequeue that completes here without an invocation of its own."""
        call = self.call
        made = Call(call.process, call.number, "dequeue", None, call.key, self.since, self.row)
        made.outcome, made.result, made.ret, made.ret_row = "ok", result, position, row
        made.place = 1
        self.moved(position, row)
        return made

    def moved(self, position: int, row: int, emptied: bool = True) -> None:
        self.since, self.row, self.nested, self.emptied = position, row, True, emptied


def expand(drain: Drain, number: int, model: str, supply: int) -> list[Part]:
    """Return the operations that a drain stands for. ``number``: of the drain, among those of the history; ``supply``:
    how many elements a crashed one may have taken at most."""
    call = drain.call
    if call.outcome == "fail":
        return []
    if call.outcome == "info" or call.ret is None:
        if model == TOTAL_QUEUE:
            return [(Function.DRAINED, (number,), (call.call, 0), None)]
        return [(Function.DEQUEUE, (None,), (call.call, place), None) for place in range(supply)]
    elements = _elements(call.result)
    parts: list[Part] = [
        (Function.DEQUEUE, (text(element), number), (call.call, place), (call.ret, place))
        for place, element in enumerate(elements)
    ]
    if drain.emptied:
        begin = (drain.since, 2) if drain.nested else (call.call, len(parts))
        end = (call.ret, len(parts))
        empty = (Function.DRAINED, (number,)) if parts else (Function.DEQUEUE, (NIL,))
        parts.append((*empty, begin, end))
    return parts


def _elements(result: Any) -> list[Any]:
    if result is None or result in EMPTY:
        return []
    if not isinstance(result, list) or isinstance(result, Set) or None in result:
        raise Shape("the list of the elements that the drain took, or :exhausted,", result)
    return result
