"""JSON texts that differ only in their numbers, parsed together: a run has millions of values, in few forms."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos.law import Form

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

#: Stands for a number in a form; JSON never holds it.
_MASK = "\1"
#: What Python reads as JSON besides; the first is put in the place of a mask.
_WORDS = ("NaN", "Infinity")
_MARGIN = 4


def parse(text: str | None) -> dict[str, Any]:
    """One value. Raises ``ValueError`` when it is no JSON; one that is no object counts as empty."""
    parsed = json.loads(text) if text else {}
    return parsed if isinstance(parsed, dict) else {}


def forms(texts: pa.Array) -> list[Form]:
    """All values, each in one :class:`chaos.law.Form`. Raises ``ValueError`` as :func:`parse` does.

    The numbers that are values of keys are masked, and what is left of a text is its form, which is parsed once. Where
    a form is not what it seems (a text within it looks like a key and its number), its texts are parsed one by one, so
    that nothing depends on how they were written.
    """
    masked = _Masked.of(texts)
    codes = masked.texts.indices.to_numpy()
    counts = np.bincount(codes, minlength=len(masked.texts.dictionary))
    ends = np.cumsum(counts)
    order = np.argsort(codes, kind="stable")
    found: list[Form] = []
    odd: list[Ints] = [order[:0]]
    for form, begin, end in zip(masked.texts.dictionary.to_pylist(), ends - counts, ends, strict=True):
        at = order[begin:end]
        together = _together(form, at, masked)
        if together is None:
            odd.append(at)
        else:
            found.append(together)
    return [*found, *_one_by_one(np.sort(np.concatenate(odd)), texts)]


@dataclass(frozen=True, slots=True)
class _Masked:
    """``texts`` with a mask for each of their ``numbers``; the numbers of a text begin at ``first``, as many as
    ``count``."""

    texts: pa.DictionaryArray
    numbers: Ints
    first: Ints
    count: Ints

    @classmethod
    def of(cls, texts: pa.Array) -> _Masked:
        texts = pa.array(texts.fill_null(""), pa.large_string())
        bounds = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
        data = np.zeros(bounds[-1] - bounds[0] + 2 * _MARGIN, np.uint8)
        if len(data) > 2 * _MARGIN:
            data[_MARGIN:-_MARGIN] = np.frombuffer(texts.buffers()[2], np.uint8)[bounds[0] : bounds[-1]]
        bounds = bounds - bounds[0] + _MARGIN
        begin, end = _numbers(data)
        numbers = _whole(data, begin, end)
        first = np.searchsorted(begin, bounds)
        shorter = np.append(0, np.cumsum(end - begin - 1))[first]
        kept = np.ones(len(data), np.bool_)
        kept[:_MARGIN] = False
        for place, longer in _places(end - begin):
            kept[begin[longer] + place] = place == 0
        data[begin] = ord(_MASK)
        left, text = bounds - _MARGIN - shorter, data[kept]
        masked = pa.LargeStringArray.from_buffers(len(texts), pa.py_buffer(left), pa.py_buffer(text))
        return cls(masked.dictionary_encode(), numbers, first[:-1], np.diff(first))


def _numbers(data: Bytes) -> tuple[Ints, Ints]:
    """Where each whole number begins and ends that is the value of a key and fits into 64 bits."""
    digit = np.zeros(len(data) + 1, np.bool_)
    np.less(data - ord("0"), 10, out=digit[:-1])
    edges = np.flatnonzero(digit[1:] != digit[:-1]) + 1
    begin, end = edges[::2], edges[1::2]
    leading, width = data[begin], end - begin
    negative = data[begin - 1] == ord("-")
    before = begin - 1 - negative
    before -= data[before] == ord(" ")
    known = (data[before] == ord(":")) & (data[before - 1] == ord('"')) & np.isin(data[end], _bytes(",} \r\n"))
    known &= (width <= 18) | ((width == 19) & (leading < ord("9")))
    known &= (width == 1) | (leading != ord("0"))
    return (begin - negative)[known], end[known]


def _bytes(text: str) -> Bytes:
    return np.frombuffer(text.encode(), np.uint8)


def _whole(data: Bytes, begin: Ints, end: Ints) -> Ints:
    """The numbers that stand there."""
    negative = data[begin] == ord("-")
    begin = begin + negative
    found = np.zeros(len(begin), np.int64)
    for place, longer in _places(end - begin):
        found[longer] = found[longer] * 10 + (data[begin[longer] + place] - ord("0"))
    return np.where(negative, -found, found)


def _places(width: Ints) -> Iterator[tuple[int, Ints]]:
    """From the first place on: which numbers are as wide as that."""
    for place in range(int(width.max(initial=0))):
        yield place, np.flatnonzero(width > place)


def _together(form: str, at: Ints, masked: _Masked) -> Form | None:
    """The texts at these places as one form; None if they must be parsed one by one."""
    places = form.count(_MASK)
    if any(word in form for word in _WORDS) or (masked.count[at] != places).any():
        return None
    columns = iter([masked.numbers[masked.first[at] + place] for place in range(places)])
    try:
        value = json.loads(form.replace(_MASK, _WORDS[0]), parse_constant=lambda _: next(columns, None)) if form else {}
    except (ValueError, RecursionError):
        return None
    if next(columns, None) is not None:  # what was masked is no number, but stands within a text
        return None
    return Form(value if isinstance(value, dict) else {}, at)


def _one_by_one(at: Ints, texts: pa.Array) -> Iterator[Form]:
    for place, text in zip(at.tolist(), texts.take(pa.array(at)).to_pylist(), strict=True):
        yield Form(parse(text), np.array([place], dtype=np.int64))
