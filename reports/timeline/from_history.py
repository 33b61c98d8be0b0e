"""From a history and what a checker found to the timeline of each of its objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from checkers.linearizable import (
    History,
    Result,
    Undecided,
    blocked_call,
    call_words,
    dead_ends,
    linearization,
    minimal_dead_ends,
    undecided_object,
    value_words,
    violation_reason,
)
from reports.timeline.model import CallBar, ObjectTimeline


def timelines(history: History, result: Result) -> list[ObjectTimeline]:
    """Return each object of the history with its calls and what was found about it. Where the checker stopped at the
    first violation, the other objects are undecided."""
    by_key: dict[str | None, list[int]] = {}
    for number, operation in enumerate(history.operations):
        by_key.setdefault(operation.key, []).append(number)
    undecided = {one.key: one for one in result.undecided}
    return [
        _object(history, result, key, numbers, undecided.get(key, undecided.get(None)))
        for key, numbers in by_key.items()
    ]


def _object(
    history: History, result: Result, key: str | None, numbers: Sequence[int], undecided: Undecided | None
) -> ObjectTimeline:
    calls = [_call(history, number) for number in numbers]
    name = None if key is None else value_words(key)
    witness = result.witness
    if result.valid is False and witness is not None and witness.key == key:
        return ObjectTimeline(
            key=name,
            verdict="invalid",
            calls=calls,
            reason=f"{violation_reason(history, witness) or blocked_call(history, result)}.",
            blocked=witness.blocked if witness.blocked >= 0 else None,
            orders=dead_ends(history, witness),
            minimal=witness.minimal,
            minimal_orders=minimal_dead_ends(history, witness.minimal),
        )
    if undecided is not None:
        return ObjectTimeline(
            key=name,
            verdict="unknown",
            calls=calls,
            reason=f"Undecided: {undecided_object(replace(undecided, key=None))}.",
            placed=undecided.placed if undecided.key == key else 0,
            of=undecided.of if undecided.key == key else 0,
        )
    order = result.orders.get(key)
    orders = [linearization(history, order)] if order else []
    if result.valid is True or order:
        return ObjectTimeline(key=name, verdict="valid", calls=calls, orders=orders)
    why = "Undecided: the search ended with another object, which is not linearizable." if result.valid is False else ""
    return ObjectTimeline(key=name, verdict="unknown", calls=calls, reason=why)


def _call(history: History, number: int) -> CallBar:
    operation = history.operations[number]
    lines = [f"{name} {row}" for name, row in zip(("line", "to"), operation.rows, strict=True) if row >= 0]
    return CallBar(
        number=number,
        process=operation.process,
        label=call_words(operation, history.model),
        call=operation.call,
        ret=operation.ret,
        detail=" ".join(lines),
    )
