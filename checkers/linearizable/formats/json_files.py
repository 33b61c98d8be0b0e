"""Histories as JSON: one history a line, which is our own; operations in an array or one a line, as elle-cli takes
them; and Porcupine's operations, which have the times of call and return."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from pathlib import Path
from typing import IO, Any

from chaos.errors import BadInput
from checkers.linearizable.formats import guessing
from checkers.linearizable.formats.operation_mapping import FUNCTIONS, show, text
from checkers.linearizable.formats.pairing import NEMESIS, TYPES, Event, Source, history, with_keys
from checkers.linearizable.history import History
from checkers.linearizable.models import JUDGED_AS, MODELS

_LONGEST_SHOWN = 40
#: No history is longer, however it was packed.
LARGEST_TEXT = 1 << 30
PIECE_BYTES = 1 << 20
#: So many lines of one file are reported that hold no history.
MOST_PROBLEMS = 100
#: What gets the error of a line that holds no history.
OnProblem = Callable[[BadInput], None]


def number(text: str) -> int | float:
    """In JSON, 1.0 and 1 are one number. One that is larger than any would equal all others of that kind."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:_LONGEST_SHOWN]} is larger than any number here")
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def no_number(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


_SPACE = re.compile(r"\s*")
DECODER = json.JSONDecoder(parse_float=number, parse_constant=no_number)


def whole(path: Path, stream: IO[bytes]) -> bytes:
    """Return all of a file that is one history. Raises :class:`BadInput` for one that nobody should try to hold: a few
    bytes may have been packed out of any number."""
    pieces, size = [], 0
    while piece := stream.read(PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size > LARGEST_TEXT:
            raise BadInput(f"{path} holds more than {LARGEST_TEXT:,} bytes, which is all that is read of one history")
    return b"".join(pieces)


def nothing(path: Path, format: str, guessed: bool, model: str) -> History:
    """Return the history of a file without any event."""
    reading = guessing.reading(format, guessed, model)
    return History(id=path.name, model=model or MODELS[0], operations=(), reading=reading)


# One history a line.


def histories(
    path: Path, stream: IO[bytes], guessed: bool, model: str, init: Any, on_problem: OnProblem | None
) -> Iterator[History]:
    """Yield those of a file with one on each line, as they are read. A line that holds none is reported to
    ``on_problem``, and the others are read; without it, and after too many of them, that ends the reading."""
    empty, problems = True, 0
    for line, content in enumerate(_lines(path, stream), 1):
        place = f"{path}:{line}"
        try:
            words = content.decode("utf-8-sig" if line == 1 else "utf-8").strip()
            found = _read_line(place, words, model, init, line, guessed) if words else None
        except (BadInput, UnicodeDecodeError) as error:
            if on_problem is None:
                raise
            empty, problems = False, problems + 1
            if problems > MOST_PROBLEMS:
                raise BadInput(f"{place}: more than {MOST_PROBLEMS} lines hold no history; no more are read") from error
            on_problem(error if isinstance(error, BadInput) else BadInput(f"{place}: expected text in UTF-8"))
            continue
        if found is not None:
            empty = False
            yield found
    if empty:
        yield nothing(path, "jsonl", guessed, model)


def _lines(path: Path, stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file, each of which must fit into memory: a few bytes may have been packed out of any
    number."""
    while line := stream.readline(LARGEST_TEXT + 1):
        if len(line) > LARGEST_TEXT:
            raise BadInput(f"{path}: a line has more than {LARGEST_TEXT:,} bytes, which is all that is read")
        yield line


def _read_line(place: str, words: str, model: str, init: Any, line: int, guessed: bool) -> History:
    try:
        found = DECODER.decode(words)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{place}: expected one history a line, as JSON, got {words[:60]!r} ({_why(error)})") from error
    try:
        return _history(place, found, model, init, line, guessed)
    except RecursionError:
        raise BadInput(f"{place}: a value is nested too deeply") from None


def _why(error: Exception) -> str:
    """Say what is wrong with a text that is to be JSON."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    is_syntax = isinstance(error, json.JSONDecodeError)
    return str(error) if is_syntax or "digits" not in str(error) else "a number has more digits than are read"


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
    """Return the history of a file with operations in an array, or one a line (json), or with Porcupine's
    (porcupine-json)."""
    found = list(_objects(path, whole(path, stream).decode("utf-8-sig")))
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
    recorded = list(events(found, source))
    _in_order_of_time(found, source)
    if model not in ("multi-register", "fenced-lock"):
        recorded, keyed = with_keys(recorded, source)
        if keyed:
            conventions = (*reading.conventions, guessing.KEYS_IN_VALUES)
            source = source._replace(reading=replace(reading, conventions=conventions))
    return history(path.name, model, recorded, init, source)


def _in_order_of_time(ops: Iterable[tuple[int, Any]], source: Source) -> None:
    """Raise :class:`BadInput` where an index, or a time in nanoseconds, says that the order is another."""
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
    """Yield the objects of one array, or of one after the other, with their places."""
    position = _past_space(content, 0)
    row = 0
    while position < len(content):
        try:
            found, position = DECODER.raw_decode(content, position)
        except (ValueError, RecursionError) as error:
            at = getattr(error, "pos", position)
            line = content.count("\n", 0, at) + 1
            is_cut = not content[at:].strip() or "Unterminated" in str(error)
            cut = "; the text is cut off" if is_cut else ""
            raise BadInput(
                f"{path}:{line}: expected operations as JSON, in one array or one after the other, got"
                f" {content[at:].strip()[:60]!r} ({_why(error)}{cut})"
            ) from error
        for each in found if isinstance(found, list) else [found]:
            yield row, each
            row += 1
        position = _past_space(content, position)


def _past_space(content: str, position: int) -> int:
    found = _SPACE.match(content, position)
    return position if found is None else found.end()


# Porcupine's operations.

#: What Porcupine's own models call their functions: by model, the numbers.
_NUMBERED = {
    "kv": ("get", "put", "append"),
    "register": ("write", "read"),  # op: false puts, true gets
    "cas-register": ("read", "write", "cas"),
}
_OPERATION = 'an operation with "Call", "Input", "Output" and "Return"'


def _porcupine(operations: Iterable[tuple[int, Any]], model: str, source: Source) -> Iterator[Event]:
    """Yield the events of operations, in the order of their times; at equal times calls come first, so that operations
    which touch are concurrent, as for Porcupine. Clients of which two calls overlap become several processes."""
    timed: list[tuple[float, int, int, Event]] = []
    clients: dict[str, _Lanes] = {}
    read = [(_span(op, row, source), row, op) for row, op in operations]
    for (call, ret), row, op in sorted(read, key=lambda one: one[0][0]):
        client = str(op.get("clientid", 0))
        lane = clients.setdefault(client, _Lanes()).take(call, call if ret is None else ret)
        process = client if lane == 0 else f"{client}/{lane}"
        invoked, completed = _events(op, row, process, model, source, crashed=ret is None)
        timed.append((call, 0, row, invoked))
        if completed is not None:
            timed.append((call if ret is None else ret, 1, row, completed))
    timed.sort(key=lambda one: one[:3])
    yield from (event for _, _, _, event in timed)


class _Lanes:
    """The processes that one client stands for."""

    def __init__(self) -> None:
        self._busy: list[tuple[float, int]] = []
        self._free: list[int] = []
        self._count = 0

    def take(self, begin: float, end: float) -> int:
        """Take the first one that is free at ``begin``, from then to ``end``; calls come as they began."""
        while self._busy and self._busy[0][0] < begin:
            heappush(self._free, heappop(self._busy)[1])
        if not self._free:
            self._free.append(self._count)
            self._count += 1
        lane = heappop(self._free)
        heappush(self._busy, (end, lane))
        return lane


def _span(op: Any, row: int, source: Source) -> tuple[float, float | None]:
    """Return when an operation was called, and when it returned, None for never. Its fields get lower names."""
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
    answer = {name.lower(): value for name, value in (op.get("output") or {}).items()}
    f = _function(given.get("op", given.get("f")), model, row, source)
    value = given.get("value")
    if f == "cas":
        value = [given.get("arg1"), given.get("arg2")] if "arg1" in given else value
    elif value is None:
        value = given.get("arg1")
    observes = f in ("read", "get", "dequeue", "contains", "members")
    key = None if given.get("key") is None else text(given["key"])
    invoked = Event(row, process, "invoke", f, None if observes and f != "contains" else value, key)
    if crashed or answer.get("unknown") is True:
        return invoked, Event(row, process, "info", f, None, key)
    if f == "cas" and type(answer.get("ok")) is not bool:
        raise BadInput(f'{source.at(row)}: expected "ok" (true or false) in the "Output" of a cas, got {show(answer)}')
    if f == "cas":
        return invoked, Event(row, process, "ok" if answer["ok"] else "fail", f, value, key)
    if observes and "value" not in answer and answer.get("exists") is not False:
        raise BadInput(f'{source.at(row)}: expected "value" in the "Output" of a {f}, got {show(answer)}')
    result = None if answer.get("exists") is False else answer.get("value")
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
