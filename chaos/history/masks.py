"""Texts of JSON with their numbers taken out: what is left is equal in many of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

#: Stands for a number; JSON never holds it.
MASK = b"\1"
#: What Python reads as JSON besides; the first may be put in the place of a mask.
WORDS = (b"NaN", b"Infinity")
_MARGIN = 4


@dataclass(frozen=True, slots=True)
class Masked:
    """Texts, as a dictionary array of bytes, with a mask for each whole number that is the value of a key, fits into 64
    bits, and is written as Python writes it. A text within a text of JSON may look like a key and its number too.

    The ``numbers`` of a text begin at ``first``, as many as ``count``. All before a number are ``widths`` bytes wide
    together.
    """

    texts: pa.DictionaryArray
    numbers: Ints
    first: Ints
    count: Ints
    widths: Ints

    @classmethod
    def of(cls, text: Bytes, bounds: Ints) -> Masked:
        """Of the texts that stand one behind the other between these bounds, the first of which is 0."""
        data = np.zeros(len(text) + 2 * _MARGIN, np.uint8)
        data[_MARGIN : _MARGIN + len(text)] = text
        begin, end = _places(data)
        numbers = _whole(data, begin, end)
        first = np.searchsorted(begin, bounds + _MARGIN)
        widths = np.append(0, np.cumsum(end - begin))
        kept = np.ones(len(data), np.bool_)
        kept[:_MARGIN] = kept[-_MARGIN:] = False
        for place, wide in _digits(end - begin):
            kept[begin[wide] + place] = place == 0
        data[begin] = MASK[0]
        left = bounds - widths[first] + first
        buffers = [None, pa.py_buffer(left), pa.py_buffer(data[kept])]
        masked = pa.Array.from_buffers(pa.large_binary(), len(bounds) - 1, buffers)
        return cls(masked.dictionary_encode(), numbers, first[:-1], np.diff(first), widths)

    def groups(self) -> Iterator[tuple[bytes, Ints]]:
        """Each text that occurs, in the order of first occurrence, and its places, ascending."""
        codes = self.texts.indices.to_numpy()
        counts = np.bincount(codes, minlength=len(self.texts.dictionary))
        ends = np.cumsum(counts)
        order = np.argsort(codes, kind="stable")
        for text, begin, end in zip(self.texts.dictionary.to_pylist(), ends - counts, ends, strict=True):
            yield text, order[begin:end]

    def columns(self, text: bytes, at: Ints) -> list[Ints] | None:
        """Return the numbers of this text at these places, an array for each mask; None if what looks like a mask is
        none."""
        masks = text.count(MASK)
        if any(word in text for word in WORDS) or (self.count[at] != masks).any():
            return None
        return [self.numbers[self.first[at] + mask] for mask in range(masks)]


def _places(data: Bytes) -> tuple[Ints, Ints]:
    """Where the numbers begin and end."""
    digit = np.zeros(len(data) + 1, np.bool_)
    np.less(data - ord("0"), 10, out=digit[:-1])
    edges = np.flatnonzero(digit[1:] != digit[:-1]) + 1
    begin, end = edges[::2], edges[1::2]
    leading, width = data[begin], end - begin
    negative = data[begin - 1] == ord("-")
    before = begin - 1 - negative
    before -= data[before] == ord(" ")
    known = (data[before] == ord(":")) & (data[before - 1] == ord('"'))
    known &= np.isin(data[end], np.frombuffer(b",} \r\n", np.uint8))
    small = (leading < ord("9")) | (data[begin + 1] < ord("2"))  # 2^63 is 9.22 * 10^18
    known &= (width <= 18) | ((width == 19) & small)
    known &= (leading != ord("0")) | ((width == 1) & ~negative)
    return (begin - negative)[known], end[known]


def _whole(data: Bytes, begin: Ints, end: Ints) -> Ints:
    """Return the numbers that stand there."""
    negative = data[begin] == ord("-")
    begin = begin + negative
    found = np.zeros(len(begin), np.int64)
    for place, wide in _digits(end - begin):
        found[wide] = found[wide] * 10 + (data[begin[wide] + place] - ord("0"))
    return np.where(negative, -found, found)


def _digits(width: Ints) -> Iterator[tuple[int, Ints]]:
    """From the first digit on: which numbers are as wide as that."""
    wide = np.arange(len(width))
    for place in range(int(width.max(initial=0))):
        wide = wide[width[wide] > place]
        yield place, wide
