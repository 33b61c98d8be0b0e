"""Histories as JSON: one history a line, which is our own; operations in an array or one a line, as elle-cli takes
them; and Porcupine's operations, which have the times of call and return."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from chaos.errors import BadInput
from checkers.linearizable.formats import guessing
from checkers.linearizable.formats.operation_mapping import FUNCTIONS, show, text
from checkers.linearizable.formats.pairing import NEMESIS, TYPES, Event, Source, history, with_keys
from checkers.linearizable.history import History
from checkers.linearizable.models import JUDGED_AS, MODELS


def number(text: str) -> int | float:
    """In JSON, 1.0 and 1 are one number."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def no_number(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


DECODER = json.JSONDecoder(parse_float=number, parse_constant=no_number)


def nothing(path: Path, format: str, guessed: bool, model: str) -> History:
    """The history of a file without any event."""
    reading = guessing.reading(format, guessed, model)
    return History(id=path.name, model=model or MODELS[0], operations=(), reading=reading)


# One history a line.


def histories(path: Path, stream: IO[bytes], guessed: bool, model: str, init: Any) -> Iterator[History]:
    """Those of a file with one on each line, as they are read."""
    empty = True
    for line, content in enumerate(stream, 1):
        words = content.decode("utf-8-sig" if line == 1 else "utf-8").strip()
        if not words:
            continue
        empty = False
        place = f"{path}:{line}"
        try:
            found = DECODER.decode(words)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{place}: expected one history a line, as JSON, got {words[:60]!r} ({error})") from error
        yield _history(place, found, model, init, line, guessed)
    if empty:
        yield nothing(path, "jsonl", guessed, model)


def _history(place: str, found: Any, model: str, init: Any, line: int, guessed: bool) -> History:
    if not isinstance(found, dict) or not isinstance(found.get("ops"), list):
        one_operation = isinstance(found, dict) and "type" in found
        raise BadInput(
            f'{place}: expected an object with "id", "model" and "ops" (a list of events), got {show(found)}'
            + ("; one operation a line is --format json" if one_operation else "")
        )
    named = found.get("model") or model
    if not named or not isinstance(named, str):
        raise BadInput(f'{place}: expected a model ({", ".join(JUDGED_AS)}): as "model" in the object, or with --model')
    if named not in JUDGED_AS:
        raise BadInput(f"{place}: expected a model ({', '.join(JUDGED_AS)}), got {show(named)}")
    identity = found.get("id", line)
    if isinstance(identity, bool) or not isinstance(identity, str | int):
        raise BadInput(f'{place}: expected a string as "id", got {show(identity)}')
    reading = guessing.reading("jsonl", guessed, named)
    source = Source(lambda row: f"{place}, op {row}" if row >= 0 else place, reading=reading)
    first = found.get("init")
    return history(identity, named, events(enumerate(found["ops"]), source), init if first is None else first, source)


def events(ops: Iterable[tuple[int, Any]], source: Source) -> Iterator[Event | None]:
    """Events from objects and their rows."""
    for row, op in ops:
        if not isinstance(op, dict):
            raise BadInput(f'{source.at(row)}: expected an object with "process", "type", "f", "value", got {show(op)}')
        process, type_, f, key = op.get("process"), op.get("type"), op.get("f"), op.get("key")
        if process == NEMESIS:
            yield None
            continue
        if type(process) is not int and type(process) is not str:
            raise BadInput(f'{source.at(row)}: expected a number or a name as "process", got {show(process)}')
        if type_ not in TYPES:
            raise BadInput(f'{source.at(row)}: expected "type" to be one of {", ".join(TYPES)}, got {show(type_)}')
        if type(f) is not str:
            raise BadInput(f'{source.at(row)}: expected the name of a function as "f", got {show(f)}')
        value = op.get("value")
        why = op.get("error", value if isinstance(value, str) else None) if type_ == "fail" else None
        yield Event(row, process, type_, f, value, None if key is None else text(key), "" if why is None else str(why))


# One history a file.


def one(path: Path, stream: IO[bytes], format: str, guessed: bool, model: str, init: Any) -> History:
    """The history of a file with operations in an array, or one a line (json), or with Porcupine's (porcupine-json)."""
    found = list(_objects(path, stream.read().decode("utf-8-sig")))
    if not found:
        return nothing(path, format, guessed, model)
    if not model:
        raise BadInput(f"{path}: say with --model what this is a history of: {', '.join(JUDGED_AS)}")
    reading = guessing.reading(format, guessed, model)
    if format == "porcupine-json":
        source = Source(lambda row: f"{path}: operation {row}", True, True, reading)
        happened = list(_porcupine(found, model, source))
        init = "" if model == "kv" and init is None else init
        return history(path.name, model, happened, init, source)
    source = Source(lambda row: f"{path}: operation {row}" if row >= 0 else str(path), reading=reading)
    told = list(events(found, source))
    _in_order_of_time(found, source)
    if model not in ("multi-register", "fenced-lock"):
        told, keyed = with_keys(told, source)
        if keyed:
            conventions = (*reading.conventions, guessing.KEYS_IN_VALUES)
            source = source._replace(reading=replace(reading, conventions=conventions))
    return history(path.name, model, told, init, source)


def _in_order_of_time(ops: Iterable[tuple[int, Any]], source: Source) -> None:
    """Raises :class:`BadInput` where an index, or a time in nanoseconds, says that the order is another."""
    for name in ("index", "t_ns"):
        last: Any = None
        for row, op in ops:
            moment = op.get(name)
            if type(moment) is not int:
                break
            if last is not None and moment < last:
                raise BadInput(
                    f'{source.at(row)}: expected operations in the order of time, got "{name}" {moment} after {last};'
                    " sort them first"
                )
            last = moment


def _objects(path: Path, content: str) -> Iterator[tuple[int, Any]]:
    """The objects of one array, or of one after the other, with their places."""
    position = _past_space(content, 0)
    row = 0
    while position < len(content):
        try:
            found, position = DECODER.raw_decode(content, position)
        except (ValueError, RecursionError) as error:
            at = getattr(error, "pos", position)
            line = content.count("\n", 0, at) + 1
            whole = content[at:].strip() and "Unterminated" not in str(error)
            cut = "" if whole else "; the text is cut off"
            raise BadInput(
                f"{path}:{line}: expected operations as JSON, in one array or one after the other, got"
                f" {content[at:].strip()[:60]!r} ({error}{cut})"
            ) from error
        for each in found if isinstance(found, list) else [found]:
            yield row, each
            row += 1
        position = _past_space(content, position)


def _past_space(content: str, position: int) -> int:
    while position < len(content) and content[position].isspace():
        position += 1
    return position


# Porcupine's operations.

#: What Porcupine's own models call their functions: by model, the numbers.
_NUMBERED = {
    "kv": ("get", "put", "append"),
    "register": ("write", "read"),  # op: false puts, true gets
    "cas-register": ("read", "write", "cas"),
}
_OPERATION = 'an operation with "Call", "Input", "Output" and "Return"'


def _porcupine(operations: Iterable[tuple[int, Any]], model: str, source: Source) -> Iterator[Event]:
    """The events of operations, in the order of their times; at equal times calls come first, so that operations which
    touch are concurrent, as for Porcupine. Clients of which two calls overlap become several processes."""
    timed: list[tuple[float, int, int, Event]] = []
    ends: dict[str, list[float]] = {}  # by client: until when each of its processes is busy
    read = [(_span(op, row, source), row, op) for row, op in operations]
    for (call, ret), row, op in sorted(read, key=lambda one: one[0][0]):
        client = str(op.get("clientid", 0))
        busy = ends.setdefault(client, [])
        lane = next((place for place, end in enumerate(busy) if end < call), len(busy))
        busy[lane : lane + 1] = [call if ret is None else ret]
        process = client if lane == 0 else f"{client}/{lane}"
        invoked, completed = _events(op, row, process, model, source, crashed=ret is None)
        timed.append((call, 0, row, invoked))
        if completed is not None:
            timed.append((call if ret is None else ret, 1, row, completed))
    timed.sort(key=lambda one: one[:3])
    yield from (event for _, _, _, event in timed)


def _span(op: Any, row: int, source: Source) -> tuple[float, float | None]:
    """When an operation was called, and when it returned, None for never. Its fields get lower names."""
    if not isinstance(op, dict):
        raise BadInput(f"{source.at(row)}: expected {_OPERATION}, got {show(op)}")
    shown = show(op)
    for name in list(op):
        op[name.lower()] = op.pop(name)
    call: Any = op.get("call")
    ret: Any = op.get("return")
    if type(call) not in (int, float) or (ret is not None and type(ret) not in (int, float)):
        raise BadInput(f'{source.at(row)}: expected {_OPERATION}, with times as "Call" and "Return", got {shown}')
    if ret is not None and ret < call:
        raise BadInput(f'{source.at(row)}: expected a "Return" that is not before its "Call", got {shown}')
    if not isinstance(op.get("input"), dict) or not isinstance(op.get("output") or {}, dict):
        raise BadInput(f'{source.at(row)}: expected objects as "Input" and "Output", got {shown}')
    return call, ret


def _events(
    op: Mapping[str, Any], row: int, process: str, model: str, source: Source, *, crashed: bool
) -> tuple[Event, Event]:
    given = {name.lower(): value for name, value in op["input"].items()}
    told = {name.lower(): value for name, value in (op.get("output") or {}).items()}
    f = _function(given.get("op", given.get("f")), model, row, source)
    value = given.get("value")
    if f == "cas":
        value = [given.get("arg1"), given.get("arg2")] if "arg1" in given else value
    elif value is None:
        value = given.get("arg1")
    observes = f in ("read", "get", "dequeue", "contains", "members")
    key = None if given.get("key") is None else text(given["key"])
    invoked = Event(row, process, "invoke", f, None if observes and f != "contains" else value, key)
    if crashed or told.get("unknown") is True:
        return invoked, Event(row, process, "info", f, None, key)
    if f == "cas" and type(told.get("ok")) is not bool:
        raise BadInput(f'{source.at(row)}: expected "ok" (true or false) in the "Output" of a cas, got {show(told)}')
    if f == "cas":
        return invoked, Event(row, process, "ok" if told["ok"] else "fail", f, value, key)
    if observes and "value" not in told and told.get("exists") is not False:
        raise BadInput(f'{source.at(row)}: expected "value" in the "Output" of a {f}, got {show(told)}')
    result = None if told.get("exists") is False else told.get("value")
    return invoked, Event(row, process, "ok", f, result, key)


def _function(op: Any, model: str, row: int, source: Source) -> str:
    numbered = _NUMBERED.get(model, ())
    if isinstance(op, str):
        return op
    if type(op) is bool and model == "register":
        return numbered[op]
    if type(op) is int and 0 <= op < len(numbered) and model != "register":
        return numbered[op]
    numbers = ", ".join(f"{place} {name}" for place, name in enumerate(numbered))
    by_number = {"": "", "register": " or false (write), true (read)"}.get(model, f" or a number ({numbers})")
    raise BadInput(
        f'{source.at(row)}: expected "op" in "Input" with one of {", ".join(FUNCTIONS[model])}'
        f"{by_number if numbered else ''}, got {show(op)}"
    )
