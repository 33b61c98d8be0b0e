"""The lines of OpenChaos's history: fields between tabs, no header (``io.openchaos.recorder`` of
openmessaging/openchaos at d129a32).

A request has 7 fields: client, operation, ``REQUEST``, value, sharding key, time, extra information. A response has
10: client, operation, ``RESPONSE``, result, value, sharding key, time, latency, extra information, end-to-end latency.
A fault has 4: ``fault``, name, ``start`` or ``end``, time. Times are Unix times in ms, latencies in ms; ``null`` stands
for what there is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chaos import guarded
from chaos.errors import BadInput

#: The operations of each model: what puts something in, and what brings it out.
QUEUE, KV = "queue", "kv"
MODELS = {"enqueue": QUEUE, "dequeue": QUEUE, "put": KV, "getAll": KV}
PUTS = ("enqueue", "put")
SUCCESS, FAILURE, UNKNOWN = "SUCCESS", "FAILURE", "UNKNOWN"
RESULTS = (SUCCESS, FAILURE, UNKNOWN)
NULL = "null"
FAULT, REQUEST, RESPONSE = "fault", "REQUEST", "RESPONSE"
FIELDS = {FAULT: 4, REQUEST: 7, RESPONSE: 10}
#: Times after the year 2200 are none; in ns they would not fit into 64 bits for ever.
LATEST_MS = 7_258_118_400_000
NUMBER = re.compile(r"-?[0-9]{1,18}")
#: What an item is called that OpenChaos has made, and a sharding key.
ITEM, KEY = re.compile(r"0|[1-9][0-9]{0,17}"), re.compile(r"[A-Za-z0-9_.:-]{1,100}")
#: So much of a word is shown in an error, and so many bytes a line has at most: getAll brings all values in one.
SHOWN, LONGEST = 60, 1 << 28


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line stands; it has the words of an error about it."""

    file: Path
    number: int

    def wrong(self, text: str) -> BadInput:
        return BadInput(f"{self.file}, line {self.number}: {text}")


@dataclass(frozen=True, slots=True)
class Fault:
    at: Place
    name: str
    starts: bool
    time_ms: int


@dataclass(frozen=True, slots=True)
class Request:
    at: Place
    client: int
    op: str
    value: str
    key: str
    time_ms: int


@dataclass(frozen=True, slots=True)
class Response:
    """``extra`` and ``end_to_end_ms`` are what the tool's own checkers read besides."""

    at: Place
    client: int
    op: str
    result: str
    value: str
    key: str
    time_ms: int
    latency_ms: int
    extra: str
    end_to_end_ms: int


Line = Fault | Request | Response


def lines(file: Path) -> Iterator[Line]:
    """Yield all lines. Raises :class:`BadInput` for one that is none, and for a file that can't be read or has none."""
    number = 0
    try:
        with guarded.opened(file, guarded.LARGEST_STREAM, links=True) as opened:
            while data := opened.readline(LONGEST + 1):
                number += 1
                yield _line(Place(file, number), data)
    except OSError as error:
        raise BadInput(f"{file} can't be read: {error.strerror or error}") from error
    if not number:
        raise BadInput(f"{file}: expected a history of OpenChaos, but the file is empty")


def _line(at: Place, data: bytes) -> Line:
    if len(data) > LONGEST:
        raise at.wrong(f"expected at most {LONGEST:,} bytes, got more")
    if not data.endswith(b"\n"):
        raise at.wrong("expected the end of the line: the file was cut off within it")
    try:
        return _parsed(at, data.decode().removesuffix("\n").removesuffix("\r"))
    except UnicodeDecodeError:
        raise at.wrong("expected text in UTF-8") from None


def _parsed(at: Place, text: str) -> Line:
    fields = text.split("\t")
    kind = FAULT if fields[0] == FAULT else fields[2] if len(fields) > 2 else ""
    if kind not in FIELDS:
        raise at.wrong(
            f"expected `{FAULT}` in the first of the fields between tabs, or {REQUEST} or {RESPONSE} in the third, got"
            f" {text[:SHOWN]!r}"
        )
    if len(fields) != FIELDS[kind]:
        raise at.wrong(
            f"expected {FIELDS[kind]} fields between tabs, as a {kind.lower()} has them, got {len(fields)} (a tab or"
            " the end of a line within one breaks OpenChaos's format)"
        )
    if kind == FAULT:
        return _fault(at, *fields[1:])
    return _request(at, *fields) if kind == REQUEST else _response(at, *fields)


def _fault(at: Place, name: str, word: str, time: str) -> Fault:
    if word not in ("start", "end"):
        raise at.wrong(f"expected start or end in field 3, got {word[:SHOWN]!r}")
    if not name:
        raise at.wrong("expected the name of a fault in field 2, got nothing")
    return Fault(at, name, word == "start", _time(at, 4, time))


def _request(at: Place, client: str, op: str, _: str, value: str, key: str, time: str, extra: str) -> Request:
    del extra
    if op in PUTS and not ITEM.fullmatch(value):
        raise at.wrong(f"expected a whole number in field 4, as OpenChaos makes values, got {value[:SHOWN]!r}")
    if op in PUTS and not KEY.fullmatch(key):
        raise at.wrong(f"expected a sharding key (letters, digits, _.:-) in field 5, got {key[:SHOWN]!r}")
    return Request(at, _client(at, client), _op(at, op), value, key, _time(at, 6, time))


def _response(
    at: Place, client: str, op: str, _: str, result: str, value: str, key: str, time: str, *rest: str
) -> Response:
    latency, extra, end_to_end = rest
    if result not in RESULTS:
        raise at.wrong(f"expected one of the results {', '.join(RESULTS)} in field 4, got {result[:SHOWN]!r}")
    return Response(
        at,
        _client(at, client),
        _op(at, op),
        result,
        value,
        key,
        _time(at, 7, time),
        _number(at, 8, latency),
        extra,
        _number(at, 10, end_to_end),
    )


def _op(at: Place, word: str) -> str:
    if word not in MODELS:
        raise at.wrong(f"expected one of the operations {', '.join(MODELS)} in field 2, got {word[:SHOWN]!r}")
    return word


def _client(at: Place, text: str) -> int:
    number = _number(at, 1, text)
    if number < 0:
        raise at.wrong(f"expected the number of a client in field 1, got {text!r}")
    return number


def _time(at: Place, field: int, text: str) -> int:
    number = _number(at, field, text)
    if not 0 <= number <= LATEST_MS:
        raise at.wrong(f"expected a Unix time in ms in field {field}, got {text!r}")
    return number


def _number(at: Place, field: int, text: str) -> int:
    if not NUMBER.fullmatch(text):
        raise at.wrong(f"expected a whole number in field {field}, got {text[:SHOWN]!r}")
    return int(text)
