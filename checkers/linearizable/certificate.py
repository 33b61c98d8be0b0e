"""Certificates: replay an order that a checker claims to be a linearization. It shares nothing with any search."""

from __future__ import annotations

from collections.abc import Sequence

from checkers.linearizable.history import History
from checkers.linearizable.models import model_named, restricts_nothing


def verify(history: History, key: str | None, order: Sequence[int]) -> str:
    """Return "" when ``order`` (operation numbers) proves that the object ``key`` is linearizable, else why not.

    Every completed operation on the object stands in it once (those that restrict nothing may be left out), a crashed
    one at most once; none stands after another that was called only after its return; and the model allows each in
    turn.
    """
    operations = history.operations
    if len(set(order)) != len(order):
        return "an operation stands twice in the order"
    for number in order:
        if not 0 <= number < len(operations) or operations[number].key != key:
            return f"operation {number} is none of the operations on {key!r}"
    present = set(order)
    for number, operation in enumerate(operations):
        needed = operation.key == key and operation.ret is not None and not restricts_nothing(operation)
        if needed and number not in present:
            return f"operation {number} completed and is missing"
    latest_call = -1
    for number in order:
        operation = operations[number]
        if operation.ret is not None and operation.ret < latest_call:
            return f"operation {number} returned before one that stands earlier was called"
        latest_call = max(latest_call, operation.call)
    model = model_named(history.model)
    state = model.initial(history.init)
    for number in order:
        operation = operations[number]
        after = model.step(state, operation.f, operation.arguments)
        if after is None:
            return f"operation {number} is illegal when the state is {model.describe(state)}"
        state = after
    return ""
