"""Puts dead ends into words: the state after every step, and why none of the pending operations can come next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from checkers.linearizable.history import NIL, Argument, DeadEnd, Function, History, Operation, Witness
from checkers.linearizable.models import model_named
from checkers.linearizable.python import checker as sequential
from checkers.linearizable.witness.explanation import value

#: A minimal witness with more operations than this isn't searched once more by itself.
SEARCHED = 60
#: What that search may cost.
MAX_CONFIGS = 20_000
#: Of a longer order only so many last states are told.
STATES = 2_000
#: A state is told with at most this many characters.
STATE_LENGTH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A dead end in words. ``states`` are those after the last ``len(states)`` operations of ``order``; ``illegal``
    pairs each operation that can't come next with the reason."""

    order: tuple[int, ...]
    states: tuple[str, ...]
    state: str
    illegal: tuple[tuple[int, str], ...]


def dead_ends(history: History, witness: Witness) -> tuple[Step, ...]:
    """The longest partial linearizations of a witness, in words."""
    blocked = (witness.blocked,) if witness.blocked >= 0 else ()
    found = witness.dead_ends or ((DeadEnd(order=witness.prefix, state="", illegal=blocked),) if witness.prefix else ())
    return tuple(_told(history, end) for end in found)


def minimal_dead_ends(history: History, minimal: Sequence[int]) -> tuple[Step, ...]:
    """How far a minimal sub-history alone can get; nothing if that would cost too much. Its operations keep the
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
    return tuple(_told(history, end) for end in ends)


def linearization(history: History, order: Sequence[int]) -> Step:
    """A whole order, with the state after every step."""
    return _told(history, DeadEnd(order=tuple(order), state="", illegal=()))


def _named(numbers: Sequence[int], places: Sequence[int]) -> tuple[int, ...]:
    return tuple(numbers[place] for place in places)


def _told(history: History, end: DeadEnd) -> Step:
    model = model_named(history.model)
    state = model.initial(history.init)
    states: list[str] = []
    first_told = len(end.order) - STATES
    for place, number in enumerate(end.order):
        operation = history.operations[number]
        after = model.step(state, operation.f, operation.arguments)
        if after is None:  # the checkers disagree, which their tests rule out: what the other one said stands
            states = []
            break
        state = after
        if place >= first_told:
            states.append(_short(model.describe(state)))
    last = _short(model.describe(state)) if states or not end.order else _short(end.state)
    reasons = tuple((number, _why(history.model, history.operations[number], last)) for number in end.illegal)
    return Step(order=end.order, states=tuple(states), state=last, illegal=reasons)


def _short(text: str) -> str:
    return text if len(text) <= STATE_LENGTH else text[: STATE_LENGTH - 1] + "…"


def _why(model: str, operation: Operation, state: str) -> str:
    """Why the operation is illegal on that state."""
    arguments = [value(argument) for argument in operation.arguments]
    match operation.f:
        case Function.READ:
            return f"it read {_content(model, operation.arguments)}, the object then holds {state}"
        case Function.CAS:
            return f"it changed what was {_expected(model, arguments)}, the object then holds {state}"
        case Function.CAS_FAILED:
            return f"it found another one than {_expected(model, arguments)}, the object then holds {state}"
        case Function.ADD | Function.REMOVE | Function.CONTAINS if model == "set":
            found = operation.arguments[1] == (0 if operation.f is Function.ADD else 1)
            return f"it found {arguments[0]} {'in' if found else 'not in'} the set, which then is {state}"
        case Function.DEQUEUE:
            found_empty = operation.arguments[0] == NIL
            return f"it {'found nothing' if found_empty else f'took {arguments[0]}'}, the queue then is {state}"
        case Function.ACQUIRE | Function.RELEASE:
            return f"the lock then is {state}"
        case _:
            return f"it does not fit {state}"


def _members(arguments: Sequence[Argument]) -> str:
    return "{" + ", ".join(map(value, arguments)) + "}"


def _content(model: str, arguments: Sequence[Argument]) -> str:
    if model == "replica-info":
        return f"epoch {value(arguments[0])} {_members(arguments[1:])}"
    return _members(arguments) if model == "set" else " ".join(map(value, arguments))


def _expected(model: str, arguments: Sequence[str]) -> str:
    return f"epoch {arguments[0]}" if model == "replica-info" else arguments[0]
