"""Histories as bytes for the checker in Java; its ``Packed.java`` defines the form and reads it."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Sequence

from chaos.errors import BadInput
from checkers.linearizable.history import NIL, Argument, Function, History

MAGIC = b"SPLH"
FORMAT = 1
#: Nobody knows; no number of a history can have this value.
UNKNOWN = -(2**63)
LARGEST = 2**63 - 1
CRASHED = -1
NO_KEY = -1

#: Of these models some functions hold a collection without order, which Java wants in the order of its value ids:
#: model → function → how many arguments stand before the collection.
_UNORDERED = {
    "set": {Function.READ: 0},
    "replica-info": {Function.READ: 1, Function.WRITE: 1, Function.CAS: 2, Function.CAS_FAILED: 2},
}
_UNORDERED_INIT = {"set": 0, "replica-info": 1}
#: array("i") and array("q") are what we need on every machine that Python 3.11 runs on; little-endian ones, too.
_I32, _I64 = "i", "q"


def pack(histories: Sequence[History]) -> bytes:
    """Return all histories as one batch. Raises :class:`chaos.errors.BadInput` for a number beyond 64 bits."""
    parts = [MAGIC, struct.pack("<ii", FORMAT, len(histories))]
    for history in histories:
        body = _history(history)
        parts += (struct.pack("<i", len(body)), body)
    return b"".join(parts)


class _Table:
    """Numbers for texts, in the order in which they come."""

    __slots__ = ("number",)

    def __init__(self, *first: str) -> None:
        self.number: dict[str, int] = {text: place for place, text in enumerate(first)}

    def of(self, text: str) -> int:
        return self.number.setdefault(text, len(self.number))

    def packed(self) -> bytes:
        return struct.pack("<i", len(self.number)) + b"".join(map(_text, self.number))


def _history(history: History) -> bytes:
    values, keys, processes = _Table(NIL), _Table(), _Table()
    unordered = _UNORDERED.get(history.model, {})
    init = [_argument(argument, values, history) for argument in history.init]
    init = _sorted_from(init, _UNORDERED_INIT.get(history.model, len(init)))
    process, key, call, ret = array(_I32), array(_I32), array(_I32), array(_I32)
    function = bytearray()
    start, arguments = array(_I32, [0]), array(_I64)
    number_of, append = values.number, arguments.append
    for operation in history.operations:
        process.append(processes.of(operation.process))
        key.append(NO_KEY if operation.key is None else keys.of(operation.key))
        function.append(operation.f)
        call.append(operation.call)
        ret.append(CRASHED if operation.ret is None else operation.ret)
        if operation.f in unordered:
            numbers = [_argument(argument, values, history) for argument in operation.arguments]
            arguments.extend(_sorted_from(numbers, unordered[operation.f]))
        else:
            for argument in operation.arguments:
                known = number_of.get(argument) if type(argument) is str else None
                append(_argument(argument, values, history) if known is None else known)
        start.append(len(arguments))
    count = len(call)
    return b"".join(
        (
            _text(str(history.id)),
            _text(history.model),
            struct.pack(f"<i{len(init)}q", len(init), *init),
            values.packed(),
            keys.packed(),
            struct.pack("<i", count),
            _column(process),
            _column(key),
            bytes(function),
            _column(call),
            _column(ret),
            _column(start),
            struct.pack("<i", len(arguments)),
            _column(arguments),
        )
    )


def _argument(argument: Argument, values: _Table, history: History) -> int:
    if argument is None:
        return UNKNOWN
    if isinstance(argument, str):
        return values.of(argument)
    if not UNKNOWN < argument <= LARGEST:
        raise BadInput(f"history {history.id}: the number {argument} is beyond 64 bits; use numbers within ±2^63")
    return argument


def _sorted_from(numbers: list[int], first: int) -> list[int]:
    return [*numbers[:first], *sorted(numbers[first:])]


def _text(text: str) -> bytes:
    content = text.encode("utf-8", "backslashreplace")
    return struct.pack("<i", len(content)) + content


def _column(numbers: array[int]) -> bytes:
    if _NATIVE_IS_LITTLE:
        return numbers.tobytes()
    swapped = array(numbers.typecode, numbers)
    swapped.byteswap()
    return swapped.tobytes()


_NATIVE_IS_LITTLE = struct.pack("=h", 1) == struct.pack("<h", 1)


def batches(histories: Iterable[History], most: int, most_operations: int) -> Iterable[list[History]]:
    """Histories in groups: at most ``most`` of them and, but for a single one, at most so many operations."""
    group: list[History] = []
    operations = 0
    for history in histories:
        size = len(history.operations)
        if group and (len(group) >= most or operations + size > most_operations):
            yield group
            group, operations = [], 0
        group.append(history)
        operations += size
    if group:
        yield group
