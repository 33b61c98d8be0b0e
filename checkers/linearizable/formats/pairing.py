"""From the events of clients, in the order of a file, to a history: which completion belongs to which invocation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from chaos.errors import BadInput
from checkers.linearizable.formats.edn import Set
from checkers.linearizable.formats.operation_mapping import FUNCTIONS, Call, Shape, first_state, show, text
from checkers.linearizable.history import Argument, Function, History, Operation
from checkers.linearizable.models import MODELS

TYPES = ("invoke", "ok", "fail", "info")
#: Who injects faults is no client.
NEMESIS = "nemesis"
#: Calls that tell what they found; of a history with a key in each value, these have nil for the rest.
_OBSERVERS = frozenset({"read", "get", "r", "dequeue", "pop", "poll"})


class Event(NamedTuple):
    """``row``: line, or place among the events; ``key``: a canonical text."""

    row: int
    process: int | str
    type: str
    f: str
    value: Any
    key: str | None = None


class Source(NamedTuple):
    """Where events come from. ``at`` names the place of a row for messages. ``nil_observed``: an ok read of nil has
    seen nil. ``failed_cas_observed``: a failed compare-and-set has seen another value."""

    at: Callable[[int], str]
    nil_observed: bool = False
    failed_cas_observed: bool = False


def history(identity: str | int, model: str, events: Iterable[Event | None], init: Any, source: Source) -> History:
    """Pair the events and give each call its meaning; None stands for an event that is no client's, and only counts.
    Raises :class:`BadInput` where they make no sense."""
    if model not in FUNCTIONS:
        raise BadInput(f"{source.at(0)}: expected a model ({', '.join(MODELS)}), got {show(model)}")
    calls, processes, left_out = _pair(events, source)
    functions = FUNCTIONS[model]
    operations: list[Operation] = []
    for call in calls:
        try:
            meaning = _meaning(call, functions, source)
        except Shape as wrong:
            place = source.at(call.row if call.ret_row < 0 else call.ret_row)
            raise BadInput(f"{place}: {call.f}: expected {wrong.expected} got {show(wrong.got)}") from None
        except KeyError:
            raise BadInput(
                f"{source.at(call.row)}: the model {model} has no {show(call.f)}; expected one of"
                f" {', '.join(functions)}"
            ) from None
        if meaning is None:
            left_out += 1
            continue
        f, arguments = meaning
        ret = call.ret if call.outcome != "info" else None
        operations.append(
            Operation(
                process=call.process,
                f=f,
                arguments=arguments,
                call=call.call,
                ret=ret,
                key=call.key,
                rows=(call.row, call.ret_row),
            )
        )
    first = _first_state(model, init, processes, operations, source)
    if model == "kv":
        _only_strings_grow(operations, first, source)
    return History(id=identity, model=model, operations=operations, init=first, left_out=left_out)


def _meaning(call: Call, functions: Any, source: Source) -> tuple[Function, tuple[Argument, ...]] | None:
    meaning: tuple[Function, tuple[Argument, ...]] | None
    meaning = functions[call.f.lower().replace("_", "-")](call) if call.outcome != "fail" else None
    if call.outcome == "fail":
        function = functions[call.f.lower().replace("_", "-")]
        answered = isinstance(call.result, list)  # and not why it failed
        if source.failed_cas_observed and answered and function is FUNCTIONS["cas-register"]["cas"]:
            meaning = FUNCTIONS["cas-register"]["cas-failed"](replace(call, outcome="ok"))
    return meaning


def _pair(events: Iterable[Event | None], source: Source) -> tuple[list[Call], dict[str, int], int]:
    """All calls in order, the processes as dense numbers, and how many events were no client's."""
    others = 0
    calls: list[Call] = []
    pending: dict[int | str, Call] = {}
    processes: dict[str, int] = {}
    for position, event in enumerate(events):
        if event is None:
            others += 1
            continue
        process = event.process
        if event.type == "invoke":
            if process in pending:
                raise BadInput(
                    f"{source.at(event.row)}: process {process} invokes {event.f} before its {pending[process].f} of"
                    f" {source.at(pending[process].row)} has ended; a process does one call at a time"
                )
            name = str(process)
            number = processes.setdefault(name, len(processes))
            call = Call(name, number, event.f, event.value, event.key, position, event.row)
            call.nil_observed = source.nil_observed
            pending[process] = call
            calls.append(call)
            continue
        ended = pending.pop(process, None)
        if ended is None:
            raise BadInput(
                f"{source.at(event.row)}: process {process} ends {event.f} ({event.type}), which it has not invoked;"
                " expected an invoke first"
            )
        if event.f != ended.f or (event.key is not None and event.key != ended.key):
            raise BadInput(
                f"{source.at(event.row)}: process {process} ends {_named(event.f, event.key)}, but"
                f" {_named(ended.f, ended.key)} is what it invoked in {source.at(ended.row)}"
            )
        ended.outcome = event.type
        ended.result = event.value
        ended.ret = position
        ended.ret_row = event.row
    return calls, processes, others


def _named(f: str, key: str | None) -> str:
    return f if key is None else f"{f} of {key}"


def _first_state(
    model: str, init: Any, processes: dict[str, int], operations: Sequence[Operation], source: Source
) -> tuple[Argument, ...]:
    used = {str(key) for one in operations if one.f == Function.TXN for key in one.arguments[1::3]}
    try:
        return first_state(model, init, processes, used)
    except Shape as wrong:
        raise BadInput(f"{source.at(0)}: expected {wrong.expected}, got {show(wrong.got)}") from None


def _only_strings_grow(operations: Sequence[Operation], first: tuple[Argument, ...], source: Source) -> None:
    """Nobody knows what appending to a number means."""
    if not any(one.f == Function.APPEND for one in operations):
        return
    written = [(one.arguments[0], one.rows[0]) for one in operations if one.f == Function.WRITE]
    for value, row in [*((value, 0) for value in first), *written]:
        if not (isinstance(value, str) and (value == "null" or value[0] == '"')):
            raise BadInput(f"{source.at(row)}: where there are appends, expected strings only, got {value}")


def with_keys(events: list[Event | None]) -> list[Event | None]:
    """Jepsen's independent histories have [key, value] for each value; make the keys keys, if that is what this is.

    It is when every invocation has such a pair, and of the calls that observe (one at least) the rest is nil, and that
    of a compare-and-set again a pair.
    """
    invocations = [event for event in events if event is not None and event.type == "invoke"]
    observers = [event for event in invocations if event.f in _OBSERVERS]
    if not observers or not all(_is_pair(event.value) for event in invocations):
        return events
    if any(event.value[1] is not None for event in observers):
        return events
    if not all(_is_pair(event.value[1]) for event in invocations if event.f == "cas"):
        return events
    keys: dict[int | str, str] = {}
    split: list[Event | None] = []
    for event in events:
        if event is None:
            split.append(None)
            continue
        if event.type == "invoke":
            keys[event.process] = text(event.value[0])
        key, value = keys.get(event.process), None
        if _is_pair(event.value) and text(event.value[0]) == key:
            value = event.value[1]
        elif event.type == "ok" and event.value is not None:
            return events
        split.append(event._replace(key=key, value=value))
    return split


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and not isinstance(value, Set) and len(value) == 2
