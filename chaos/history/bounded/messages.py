"""Arrow IPC messages: how many rows they hold, and how many bytes these are once they are decompressed.

Messages are FlatBuffers (``Message.fbs`` in Arrow's format); of a record batch, the length of each buffer stands in the
header, or, if it is compressed, in the buffer's first eight bytes, to which the decoder holds itself.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

#: No batch of rows takes more once it is decoded. Ours have a few hundred rows, some kilobytes.
MOST_BATCH = 1 << 30

_MARK = 0xFFFF_FFFF
_DICTIONARY, _ROWS = 2, 3


@dataclass(frozen=True, slots=True)
class Extent:
    """``size``: in bytes, decoded."""

    rows: int
    size: int


def extent(data: bytes) -> Extent:
    """Of some whole messages; what follows an end mark is not decoded. Raises ``ValueError`` for what is none."""
    rows = size = at = 0
    try:
        while at < len(data):
            (length,) = struct.unpack_from("<I", data, at)
            at += 4
            if length == _MARK:
                (length,) = struct.unpack_from("<I", data, at)
                at += 4
            if not length:
                break
            message = _Table.root(memoryview(data)[at : at + length])
            at += length
            body = memoryview(data)[at : at + message.number(3, "<q")]
            at += message.number(3, "<q")
            if at > len(data):
                raise ValueError("a message is cut off")
            kind = message.number(1, "<B")
            if kind == _ROWS:
                batch = message.table(2)
                rows += batch.number(0, "<q")
                size += _size(batch, body)
            elif kind == _DICTIONARY:
                size += _size(message.table(2).table(1), body)
    except struct.error as error:
        raise ValueError(f"it is no Arrow message: {error}") from error
    return Extent(rows, size)


def _size(batch: _Table, body: memoryview) -> int:
    is_compressed = batch.has(3)
    size = 0
    for offset, length in batch.pairs(2):
        if offset < 0 or not 0 <= length <= len(body) - offset:
            raise ValueError("a buffer lies outside of its message")
        if is_compressed and length:
            (unpacked,) = struct.unpack_from("<q", body, offset)
            length = unpacked if unpacked >= 0 else length
        size += length
    return size


class _Table:
    """A table of a FlatBuffer, whose fields are known by their numbers."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data = data
        self._at = at
        self._fields = at - self._read("<i", at)
        self._end = self._fields + self._read("<H", self._fields)

    @classmethod
    def root(cls, data: memoryview) -> _Table:
        if len(data) < 4:
            raise ValueError("a message is cut off")
        (at,) = struct.unpack_from("<I", data)
        return cls(data, at)

    def has(self, field: int) -> bool:
        return self._place(field) > 0

    def number(self, field: int, form: str) -> int:
        """Return a number; 0, which is the default, where there is none. Raises ``ValueError`` for one below that."""
        place = self._place(field)
        found = self._read(form, place) if place else 0
        if found < 0:
            raise ValueError("a length is negative")
        return found

    def table(self, field: int) -> _Table:
        place = self._there(field)
        return _Table(self._data, place + self._read("<I", place))

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """Return a vector of structures of two numbers each."""
        if not self.has(field):
            return []
        place = self._there(field)
        begin = place + self._read("<I", place)
        count = self._read("<I", begin)
        if count > (len(self._data) - begin) // 16:
            raise ValueError("a list is cut off")
        return list(struct.iter_unpack("<qq", self._data[begin + 4 : begin + 4 + 16 * count]))

    def _there(self, field: int) -> int:
        place = self._place(field)
        if not place:
            raise ValueError(f"a message lacks its field {field}")
        return place

    def _place(self, field: int) -> int:
        entry = self._fields + 4 + 2 * field
        offset = self._read("<H", entry) if entry + 2 <= self._end else 0
        return self._at + offset if offset else 0

    def _read(self, form: str, at: int) -> int:
        if at < 0:
            raise ValueError("a message points before its beginning")
        (found,) = struct.unpack_from(form, self._data, at)
        return int(found)
