"""Segments of manifests in columns, where a segment that many versions name stands once.

A version of a long run names tens of thousands of segments, all but one of them as the version before it. So what a
version names is kept as spans of its queue's segments, and read as if it were a list of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, overload

import numpy as np

from checkers._facts.arrays import Flags, Ints

#: What every segment names; one that names anything else, or other than whole numbers, is kept as it was reported.
NUMBERS = ("base", "count", "bytes", "hash", "epoch")
_FIELDS = frozenset(("key", *NUMBERS))
_numbers = itemgetter(*NUMBERS)
#: What stands for the numbers of a segment that is kept as it was reported.
_NONE = (-1,) * len(NUMBERS)
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
#: Ends of segments are compared as they are only where they can't be too large for that.
_SAFE = 1 << 61

#: Where the segments of a version stand: beginning, end, beginning, end…, in the order of the version.
Spans = tuple[int, ...]


class Segments:
    """All segments that the manifests of one queue named, in the order in which they came up."""

    def __init__(self) -> None:
        self._keys: list[str] = []
        self._numbers = array("q")  # all of a segment's, then those of the next one
        self._odd: dict[int, Any] = {}
        self._ended: tuple[Ints, Ints] | None = None

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, segment: Any) -> None:
        is_odd = not _is_plain(segment)
        if is_odd:
            self._odd[len(self._keys)] = segment
        self._keys.append("" if is_odd else segment["key"])
        self._numbers.extend(_NONE if is_odd else _numbers(segment))
        self._ended = None

    def _columns(self) -> tuple[Ints, ...]:
        return tuple(np.frombuffer(self._numbers, dtype=np.int64).reshape(-1, len(NUMBERS)).T)

    def raw(self, at: int) -> Any:
        """Return a segment as the manifest named it."""
        if at in self._odd:
            return self._odd[at]
        numbers = self._numbers[at * len(NUMBERS) : (at + 1) * len(NUMBERS)]
        return {"key": self._keys[at], **dict(zip(NUMBERS, numbers, strict=True))}

    def one(self, at: int) -> Mapping[str, Any]:
        """Return a segment; nothing of what is none."""
        segment = self.raw(at)
        return segment if isinstance(segment, Mapping) else {}

    def key(self, at: int) -> Any:
        """Return what a segment says of its object's name; None where it does not."""
        return self.one(at).get("key") if at in self._odd else self._keys[at]

    def names(self, begin: int, end: int) -> Iterable[Any]:
        """Return the same of several."""
        return (self.key(at) for at in range(begin, end)) if self._odd else self._keys[begin:end]

    def place(self, segment: Any, spans: Spans) -> int:
        """Return how many of these segments stand before one that was named so; -1 if it isn't among them."""
        if not _is_plain(segment):
            return -1
        (base, *_), passed = self._columns(), 0
        for begin, end in pairs(spans):
            for at in np.flatnonzero(base[begin:end] == segment["base"]).tolist():
                if self.raw(begin + at) == segment:
                    return passed + int(at)
            passed += end - begin
        return -1

    def follow(self, spans: Sequence[Spans], start: Ints, end: Ints) -> Flags:
        """Return of which of some versions the segments surely follow one another from ``start`` to ``end``."""
        breaks, until = self._ends()
        pieces = np.array([*chain.from_iterable(spans)], dtype=np.int64).reshape(-1, 2)
        many = np.array([len(one) // 2 for one in spans], dtype=np.int64)
        of, first, last = np.repeat(np.arange(len(spans)), many), pieces[:, 0], pieces[:, 1] - 1
        begins = (np.cumsum(many) - many)[many > 0]
        expected = np.roll(until[last], 1).astype(start.dtype)
        expected[begins] = start[many > 0]
        reached = start.copy()
        reached[many > 0] = until[last[begins + many[many > 0] - 1]]
        base, *_ = self._columns()
        found = reached == end
        found[of[(breaks[last] != breaks[first]) | (until[first] < 0) | (base[first] != expected)]] = False
        return found

    def _ends(self) -> tuple[Ints, Ints]:
        """Return how many segments up to each one do not begin where the one before ends; and where each one ends, -1
        where it does not say so."""
        if self._ended is None:
            base, count, *_ = self._columns()
            has_end = (base >= 0) & (base < _SAFE) & (count >= 0) & (count < _SAFE)
            has_end[np.array([*self._odd], dtype=np.int64)] = False
            until = np.where(has_end, base + np.where(has_end, count, 0), -1)
            is_break = ~has_end
            is_break[1:] |= ~has_end[:-1] | (base[1:] != until[:-1])
            self._ended = np.cumsum(is_break), until
        return self._ended


def _is_plain(segment: Any) -> bool:
    if not isinstance(segment, dict) or segment.keys() != _FIELDS or type(segment["key"]) is not str:
        return False
    numbers = _numbers(segment)
    return {*map(type, numbers)} == {int} and min(numbers) >= _LEAST and max(numbers) <= _MOST


class Named(Sequence[Mapping[str, Any]]):
    """The segments that a version names."""

    __slots__ = ("_segments", "spans")

    def __init__(self, segments: Segments, spans: Spans) -> None:
        self._segments, self.spans = segments, spans

    def __len__(self) -> int:
        return size(self.spans)

    @overload
    def __getitem__(self, at: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Mapping[str, Any]]: ...
    def __getitem__(self, at: int | slice) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
        if isinstance(at, slice):
            begin, end, step = at.indices(len(self))
            if step == 1:
                return Named(self._segments, part(self.spans, begin, max(0, end - begin)))
            return [self[place] for place in range(begin, end, step)]
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        return self._segments.one(part(self.spans, at % len(self), 1)[0])

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return (self._segments.one(at) for at in places(self.spans))

    def names(self) -> Iterator[Any]:
        """Return what each says of its object's name; None where it does not."""
        return (key for begin, end in pairs(self.spans) for key in self._segments.names(begin, end))

    def raw(self) -> list[Any]:
        """Return the segments as they were named, whatever they are."""
        return [self._segments.raw(at) for at in places(self.spans)]


def name_of(segment: Mapping[str, Any]) -> str:
    """Return the name of a segment's object."""
    return str(segment.get("key", ""))


# Spans


def pairs(spans: Spans) -> Iterator[tuple[int, int]]:
    return zip(spans[::2], spans[1::2], strict=True)


def places(spans: Spans) -> Iterator[int]:
    return (at for begin, end in pairs(spans) for at in range(begin, end))


def size(spans: Spans) -> int:
    return sum(spans[1::2]) - sum(spans[::2])


def part(spans: Spans, first: int, many: int) -> Spans:
    """So many of them, from the one at this place on."""
    found: list[int] = []
    for begin, end in pairs(spans):
        low, high = begin + max(0, first), min(end, begin + first + many)
        if low < high:
            found += (low, high)
        first -= end - begin
    return tuple(found)


def extended(spans: Spans, begin: int, end: int) -> Spans:
    """With those from ``begin`` to ``end`` behind them."""
    if begin == end:
        return spans
    if spans and spans[-1] == begin:
        return (*spans[:-1], end)
    return (*spans, begin, end)


def without(spans: Spans, others: Spans) -> Iterable[int]:
    """Return those that are not among others."""
    if len(spans) == len(others) == 2 and others[0] <= spans[0]:  # mostly nothing but the end differs
        return range(max(spans[0], min(spans[1], others[1])), spans[1])
    return _without(spans, others)


def _without(spans: Spans, others: Spans) -> Iterator[int]:
    for begin, end in pairs(spans):
        cuts = sorted((max(begin, low), min(end, high)) for low, high in pairs(others) if low < end and begin < high)
        for low, high in cuts:
            yield from range(begin, low)
            begin = max(begin, high)
        yield from range(begin, end)
