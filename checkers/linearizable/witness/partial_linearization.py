"""Orders of some calls, followed step by step: the state after each, and why no call that is left can come next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from checkers.linearizable.history import DeadEnd, History, Witness
from checkers.linearizable.models import model_named
from checkers.linearizable.python import checker as sequential
from checkers.linearizable.witness.words import illegal

#: A minimal witness with more operations than this isn't searched once more by itself.
SEARCHED = 60
#: What that search may cost.
MAX_CONFIGS = 20_000
#: Of a longer order only so many last states are given.
STATES = 2_000
#: A state is given with at most this many characters.
STATE_LENGTH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialLinearization:
    """Calls in an order that is allowed as far as it goes. All calls are numbers of operations.

    ``order``: the calls. ``states``: the states after the last ``len(states)`` of them, in words (none: not known).
    ``state``: the last state. ``illegal``: the calls that can't come next, each with the reason; none where the order
    is a whole linearization."""

    order: Sequence[int]
    states: Sequence[str] = ()
    state: str = ""
    illegal: Mapping[int, str] = field(default_factory=dict)


def dead_ends(history: History, witness: Witness) -> tuple[PartialLinearization, ...]:
    """Return the longest partial linearizations of a witness."""
    blocked = (witness.blocked,) if witness.blocked >= 0 else ()
    found = witness.dead_ends or ((DeadEnd(order=witness.prefix, state="", illegal=blocked),) if witness.prefix else ())
    return tuple(_followed(history, end) for end in found)


def minimal_dead_ends(history: History, minimal: Sequence[int]) -> tuple[PartialLinearization, ...]:
    """Return how far a minimal sub-history alone can get; nothing if that would cost too much. Its operations keep the
    numbers that they have in the whole history."""
    numbers = sorted(minimal)
    if not numbers or len(numbers) > SEARCHED:
        return ()
    alone = replace(history, operations=[history.operations[number] for number in numbers])
    found = sequential.examine(alone, max_configs=MAX_CONFIGS).witness
    if found is None:
        return ()
    ends = [
        DeadEnd(order=_named(numbers, end.order), state=end.state, illegal=_named(numbers, end.illegal))
        for end in found.dead_ends
    ]
    return tuple(_followed(history, end) for end in ends)


def linearization(history: History, order: Sequence[int]) -> PartialLinearization:
    """Return a whole order, with the state after every step."""
    return _followed(history, DeadEnd(order=tuple(order), state="", illegal=()))


def _named(numbers: Sequence[int], places: Sequence[int]) -> tuple[int, ...]:
    return tuple(numbers[place] for place in places)


def _followed(history: History, end: DeadEnd) -> PartialLinearization:
    model = model_named(history.model)
    state = model.initial(history.init)
    states: list[str] = []
    first_shown = len(end.order) - STATES
    for place, number in enumerate(end.order):
        operation = history.operations[number]
        after = model.step(state, operation.f, operation.arguments)
        if after is None:  # the checkers disagree, which their tests rule out: what the other one said stands
            states = []
            break
        state = after
        if place >= first_shown:
            states.append(_short(model.describe(state)))
    last = _short(model.describe(state)) if states or not end.order else _short(end.state)
    reasons = {number: illegal(history.operations[number], history.model, last) for number in end.illegal}
    return PartialLinearization(order=end.order, states=tuple(states), state=last, illegal=reasons)


def _short(text: str) -> str:
    return text if len(text) <= STATE_LENGTH else text[: STATE_LENGTH - 1] + "…"
