"""From the events of clients, in the order of a file, to a history: which completion belongs to which invocation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from chaos.errors import BadInput
from checkers.linearizable.formats.drains import DRAIN, EMPTY, QUEUES, Drain, Moment, expand
from checkers.linearizable.formats.edn import Set
from checkers.linearizable.formats.operation_mapping import FUNCTIONS, Call, Shape, first_state, show, text
from checkers.linearizable.history import NIL, Argument, Function, History, Operation, Reading
from checkers.linearizable.models import JUDGED_AS, TOTAL_QUEUE

TYPES = ("invoke", "ok", "fail", "info")
#: Who injects faults is no client.
NEMESIS = "nemesis"
#: Calls that report what they found; of a history with a key in each value, these have nil for the rest.
_OBSERVERS = frozenset({"read", "get", "r", "members", "dequeue", "pop", "poll", "drain"})
_DEQUEUES = frozenset({"dequeue", "pop", "poll"})


class Event(NamedTuple):
    """``row``: line, or place among the events; ``key``: a canonical text; ``why``: why a call failed, where that
    is said."""

    row: int
    process: int | str
    type: str
    f: str
    value: Any
    key: str | None = None
    why: str = ""


class Source(NamedTuple):
    """Where events come from. ``at`` names the place of a row for messages. ``nil_observed``: an ok read of nil has
    seen nil. ``failed_cas_observed``: a failed compare-and-set has seen another value, if it names no other reason.
    ``reading``: how the file was read."""

    at: Callable[[int], str]
    nil_observed: bool = False
    failed_cas_observed: bool = False
    reading: Reading | None = None


class _Made(NamedTuple):
    """An operation whose moments are not yet numbers."""

    operation: Operation
    call: Moment
    ret: Moment | None


def history(identity: str | int, model: str, events: Iterable[Event | None], init: Any, source: Source) -> History:
    """Pair the events and give each call its meaning; None stands for an event that is no client's, and only counts.
    Raises :class:`BadInput` where they make no sense."""
    if model not in FUNCTIONS:
        raise BadInput(f"{source.at(0)}: expected a model ({', '.join(JUDGED_AS)}), got {show(model)}")
    calls, drains, processes, left_out = _pair(events, source, model in QUEUES)
    _all_or_none_have_keys(calls, source)
    if not calls:
        return History(id=identity, model=model, operations=(), reading=source.reading)
    supply = len(init) if isinstance(init, list) else 0
    supply += sum(call.outcome != "fail" and _plain(call.f) in ("enqueue", "push", "offer") for call in calls)
    made: list[_Made] = []
    unseen: set[str | None] = set()  # the first drain of a key that crashed may have taken all: no need for another
    for number, call in enumerate(calls):
        drain = drains.get(id(call))
        found = _operations(call, drain, number, model, 0 if call.key in unseen else supply, source)
        if drain is not None and call.outcome == "info":
            unseen.add(call.key)
        left_out += not found
        made += found
    operations = _in_order(made, bool(drains))
    if model == "unordered-queue":
        operations, useless = _without_unseen(operations)
        left_out += useless
    first = _first_state(model, init, processes, operations, source)
    if model == "kv":
        _only_strings_grow(operations, first, source)
    return History(
        id=identity, model=model, operations=operations, init=first, left_out=left_out, reading=source.reading
    )


def _plain(f: str) -> str:
    return f.lower().replace("_", "-")


def _operations(call: Call, drain: Drain | None, number: int, model: str, supply: int, source: Source) -> list[_Made]:
    """Return what a call did: one operation, several if it is a drain, none if it restricts nothing."""
    parts: list[tuple[Function, tuple[Argument, ...], Moment, Moment | None]]
    try:
        if drain is not None:
            parts = expand(drain, number, model, supply)
        else:
            meaning = _meaning(call, model, source)
            ret = None if call.outcome != "ok" and not _observed(meaning) else call.ret
            end = None if ret is None else (ret, 0)
            parts = [] if meaning is None else [(*meaning, (call.call, call.place), end)]
    except Shape as wrong:
        place = source.at(call.row if call.ret_row < 0 else call.ret_row)
        raise BadInput(f"{place}: {call.f}: expected {wrong.expected} got {show(wrong.got)}") from None
    except KeyError:
        raise BadInput(
            f"{source.at(call.row)}: the model {model} has no {show(call.f)}; expected one of"
            f" {', '.join(FUNCTIONS[model])}"
            + (f" (the models {' and '.join(QUEUES)} know drains)" if _plain(call.f) == DRAIN else "")
        ) from None
    return [
        _Made(
            Operation(
                process=call.process,
                f=f,
                arguments=arguments,
                call=begin[0],
                ret=None if end is None else end[0],
                key=call.key,
                rows=(call.row, call.ret_row),
            ),
            begin,
            end,
        )
        for f, arguments, begin, end in parts
    ]


def _observed(meaning: tuple[Function, tuple[Argument, ...]] | None) -> bool:
    """Return whether this is what a call that failed has seen."""
    return meaning is not None and meaning[0] is Function.CAS_FAILED


def _meaning(call: Call, model: str, source: Source) -> tuple[Function, tuple[Argument, ...]] | None:
    meant = FUNCTIONS[model][_plain(call.f)]
    if call.outcome != "fail":
        return meant(call)
    if model == TOTAL_QUEUE and meant is FUNCTIONS[model]["enqueue"]:
        return meant(replace(call, outcome="info"))  # an attempt all the same
    answered = isinstance(call.result, list) and not call.why
    if source.failed_cas_observed and answered and meant is FUNCTIONS["cas-register"]["cas"]:
        return FUNCTIONS["cas-register"]["cas-failed"](replace(call, outcome="ok"))
    return None


def _in_order(made: list[_Made], renumber: bool) -> list[Operation]:
    """Return the operations in the order of their calls. Where one event stands for several operations, moments are
    numbered again, so that no two are equal."""
    made.sort(key=lambda one: one.call)
    if not renumber:
        return [one.operation for one in made]
    moments = sorted([(one.call, 0) for one in made] + [(one.ret, 1) for one in made if one.ret is not None])
    number = {moment: place for place, moment in enumerate(moments)}
    return [
        replace(one.operation, call=number[one.call, 0], ret=None if one.ret is None else number[one.ret, 1])
        for one in made
    ]


def _without_unseen(operations: list[Operation]) -> tuple[list[Operation], int]:
    """Without crashed dequeues where nothing ever saw the queue empty, and how many these are: only there it matters
    that some element is gone."""
    emptied = {
        one.key
        for one in operations
        if one.f is Function.DRAINED or (one.f is Function.DEQUEUE and one.arguments[0] == NIL)
    }
    kept = [
        one for one in operations if one.key in emptied or one.f is not Function.DEQUEUE or one.arguments != (None,)
    ]
    return kept, len(operations) - len(kept)


def _pair(
    events: Iterable[Event | None], source: Source, drains: bool
) -> tuple[list[Call], dict[int, Drain], dict[str, int], int]:
    """Return all calls in order, which of them are drains (by identity), the processes as dense numbers, and how many
    events were no client's."""
    pairs = _Pairs(source, drains)
    others = 0
    for position, event in enumerate(events):
        if event is None:
            others += 1
        elif event.type == "invoke":
            pairs.invoked(event, position)
        else:
            pairs.completed(event, position)
    return pairs.calls, pairs.drains, pairs.processes, others


class _Pairs:
    """Which completion belongs to which invocation."""

    def __init__(self, source: Source, drains: bool) -> None:
        self._source = source
        self._knows_drains = drains
        self.calls: list[Call] = []
        self.drains: dict[int, Drain] = {}
        self.processes: dict[str, int] = {}
        self._pending: dict[int | str, Call] = {}
        self._draining: dict[int | str, Drain] = {}

    def invoked(self, event: Event, position: int) -> None:
        at, process = self._source.at, event.process
        drain = self._draining.get(process)
        busy = self._pending.get(process)
        if busy is None and drain is not None and _plain(event.f) == DRAIN:
            drain.since, drain.row = position, event.row
            return
        if busy is None and drain is not None and _plain(event.f) not in _DEQUEUES:
            busy = drain.call
        if busy is not None:
            raise BadInput(
                f"{at(event.row)}: process {process} invokes {event.f} before its {busy.f} of {at(busy.row)} has ended;"
                " a process does one call at a time"
            )
        name = str(process)
        number = self.processes.setdefault(name, len(self.processes))
        call = Call(name, number, event.f, event.value, event.key, position, event.row)
        call.nil_observed = self._source.nil_observed
        self.calls.append(call)
        if self._knows_drains and _plain(event.f) == DRAIN:
            self._draining[process] = self.drains[id(call)] = Drain(call, position, event.row)
        else:
            self._pending[process] = call

    def completed(self, event: Event, position: int) -> None:
        at, process = self._source.at, event.process
        drain = self._draining.get(process)
        ended = self._pending.pop(process, None)
        if ended is not None and drain is not None and _plain(event.f) == DRAIN:
            ended, drain.emptied = None, False  # the dequeue in it never ended
        if ended is None and drain is not None:
            if _plain(event.f) in _DEQUEUES and event.type == "ok":
                self.calls.append(drain.next_call(event.value, position, event.row))
                return
            ended = drain.call
            del self._draining[process]
            drain = None
        if ended is None:
            raise BadInput(
                f"{at(event.row)}: process {process} ends {event.f} ({event.type}), which it has not invoked;"
                " expected an invoke first"
            )
        if event.f != ended.f or (event.key is not None and event.key != ended.key):
            raise BadInput(
                f"{at(event.row)}: process {process} ends {_named(event.f, event.key)}, but"
                f" {_named(ended.f, ended.key)} is what it invoked in {at(ended.row)}"
            )
        ended.outcome, ended.result, ended.why = event.type, event.value, event.why
        ended.ret, ended.ret_row = position, event.row
        if drain is not None:
            drain.moved(position, event.row, event.type == "fail" and event.why in EMPTY)


def _all_or_none_have_keys(calls: Sequence[Call], source: Source) -> None:
    without = next((call for call in calls if call.key is None), None)
    keyed = next((call for call in calls if call.key is not None), None)
    if without is not None and keyed is not None:
        raise BadInput(
            f"{source.at(without.row)}: only some calls have a key: {without.f} has none, {keyed.f} of"
            f" {source.at(keyed.row)} has {keyed.key}; expected one with each call, or with none"
        )


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
    """Check that appends are to strings only: it is unknown what appending to a number means."""
    if not any(one.f == Function.APPEND for one in operations):
        return
    written = [(one.arguments[0], one.rows[0]) for one in operations if one.f == Function.WRITE]
    for value, row in [*((value, 0) for value in first), *written]:
        if not (isinstance(value, str) and (value == "null" or value[0] == '"')):
            raise BadInput(f"{source.at(row)}: where there are appends, expected strings only, got {value}")


def with_keys(events: list[Event | None], source: Source) -> tuple[list[Event | None], bool]:
    """Jepsen's independent histories have [key, value] for each value; make the keys keys, if that is what this is, and
    say whether it is.

    It is when every invocation has such a pair, and of the calls that observe (one at least) the rest is nil, and that
    of a compare-and-set again a pair. Raises :class:`BadInput` where only some values have keys.
    """
    invocations = [event for event in events if event is not None and event.type == "invoke"]
    observers = [event for event in invocations if event.f in _OBSERVERS]
    keyed = [event for event in observers if _is_pair(event.value) and None not in event.value[:1]]
    keyed = [event for event in keyed if event.value[1] is None]
    without = [event for event in invocations if not _is_pair(event.value)]
    without += [
        event for event in invocations if event.f == "cas" and _is_pair(event.value) and not _is_pair(event.value[1])
    ]
    if (
        any(event.key is not None for event in invocations)
        or not keyed
        or (len(keyed) < len(observers) and not without)
    ):
        return events, False
    if without:
        raise _some_keys(keyed[0], without[0], source)
    calls: dict[int | str, Event] = {}
    split: list[Event | None] = []
    for event in events:
        if event is None:
            split.append(None)
            continue
        if event.type == "invoke":
            calls[event.process] = event
        call, value = calls.get(event.process), None
        key = None if call is None else text(call.value[0])
        if _is_pair(event.value) and text(event.value[0]) == key:
            value = event.value[1]
        elif call is not None and event.type == "ok" and event.value is not None:
            raise _some_keys(call, event, source)
        split.append(event._replace(key=key, value=value))
    return split, True


def _some_keys(keyed: Event, without: Event, source: Source) -> BadInput:
    return BadInput(
        f"{source.at(without.row)}: only some values have keys: {keyed.f} of {source.at(keyed.row)} has the key"
        f" {show(keyed.value[0])} ({show(keyed.value)}), this {without.f} has {show(without.value)}; expected"
        " [key, value] as each value of calls and results, or as none"
    )


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and not isinstance(value, Set) and len(value) == 2
