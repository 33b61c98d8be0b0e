"""The pages of a Parquet file: what each becomes once it is decompressed, by its own header.

A header is a structure in Thrift's compact protocol (``PageHeader`` in ``parquet.thrift``); only its sizes, its kind
and its encoding matter here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

#: As many pages are looked at of one file; ours hold some 20,000 values each.
MOST_PAGES = 1 << 18
#: A header with its statistics; ours take some fifty bytes.
LONGEST_HEADER = 1 << 16
#: Headers nest two deep.
_DEEPEST = 8
_DATA, _DATA_V2 = 5, 8
#: In these, texts take no more than they do in the page, or are held once (dictionaries).
PLAIN_TEXTS = frozenset({0, 2, 3, 6, 8})


@dataclass(frozen=True, slots=True)
class Page:
    """``size``: in bytes, decompressed. ``encoding``: by its number in Parquet's format; -1 where there is none."""

    size: int
    encoding: int


def pages(handle: int, begin: int, length: int) -> Iterator[Page]:
    """Yield the pages in this part of an open file. Raises ``ValueError`` where something else stands."""
    at, end = begin, begin + length
    while at < end:
        header, taken = _header(os.pread(handle, min(LONGEST_HEADER, end - at), at))
        size, packed = header.get(2), header.get(3)
        if not isinstance(size, int) or not isinstance(packed, int) or size < 0 or packed < 0:
            raise ValueError("a page does not say how long it is")
        yield Page(size, _encoding(header))
        at += taken + packed


def _encoding(header: Mapping[int, Any]) -> int:
    for kind, field in ((_DATA, 2), (_DATA_V2, 4)):
        if isinstance(of_data := header.get(kind), dict):
            return int(of_data.get(field, -1))
    return -1


def _header(data: bytes) -> tuple[dict[int, Any], int]:
    reader = _Compact(data)
    try:
        return reader.structure(_DEEPEST), reader.at
    except IndexError:
        raise ValueError("the header of a page is cut off") from None


class _Compact:
    """Reads values in Thrift's compact protocol; texts and lists are only passed over. Raises ``IndexError`` at the
    end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def structure(self, depth: int) -> dict[int, Any]:
        if not depth:
            raise ValueError("the header of a page is nested too deeply")
        found: dict[int, Any] = {}
        field = 0
        while (first := self._byte()) != 0:
            field = field + (first >> 4) if first >> 4 else self._zigzag()
            found[field] = self._value(first & 15, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        match kind:
            case 1 | 2:
                return kind == 1
            case 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._zigzag()
            case 7:
                self._pass(8)
            case 8:
                self._pass(self._varint())
            case 9 | 10:
                self._list(depth)
            case 12:
                return self.structure(depth - 1)
            case _:
                raise ValueError(f"a page's header holds a value of the kind {kind}")
        return None

    def _list(self, depth: int) -> None:
        first = self._byte()
        count = self._varint() if first >> 4 == 15 else first >> 4
        for _ in range(min(count, len(self._data))):
            self._value(3 if first & 15 in (1, 2) else first & 15, depth - 1)

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _pass(self, count: int) -> None:
        self.at += count
        if self.at > len(self._data):
            raise IndexError

    def _varint(self) -> int:
        found = shift = 0
        while True:
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7
            if shift > 63:
                raise ValueError("a page's header holds a number that is too large")

    def _zigzag(self) -> int:
        found = self._varint()
        return (found >> 1) ^ -(found & 1)
