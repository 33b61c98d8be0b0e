"""Reads the lines of a trace file that are JSON objects, of which most differ in numbers only, many together;
:mod:`chaos.history.typed_lines` reads the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chaos.history.columns import COLUMNS, INTEGERS, VALUE, WORDS, Kind
from chaos.history.masks import MASK, Ints, Masked
from chaos.history.masks import WORDS as MASK_WORDS
from chaos.history.typed_lines import NO_ROW
from chaos.history.values import to_json

#: Fewer lines than this that are alike are parsed one by one.
FEW = 3
#: What a node says of itself; ``index`` and ``kind`` are no word of its own.
_NUMBERS, _TEXTS = INTEGERS[1:], WORDS[1:]


@dataclass(frozen=True, slots=True)
class _Alike:
    """What lines have in common that differ in numbers only. ``numbers``: column → the place of its mask, or a number.
    ``value``: the text of the last masks of the line, with these masks; it stands before the line's last brace."""

    numbers: dict[str, tuple[bool, int]]
    texts: dict[str, str]
    value: bytes


class _Mask(float):
    """A mask in a line that was parsed, by its place."""

    place: int


class JsonLines:
    """The rows of some lines. ``good``: which lines are rows; ``bad``: those that should be, ascending."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        text = np.frombuffer(data, np.uint8)
        self._bounds = np.append(0, np.flatnonzero(text == ord("\n")) + 1)
        count = len(self._bounds) - 1
        self._masked = Masked.of(text, self._bounds)
        self._numbers = {name: np.full(count, -1, np.int64) for name in _NUMBERS}
        self._texts: dict[str, dict[str, int]] = {name: {} for name in _TEXTS}
        self._codes = {name: np.zeros(count, np.int32) for name in _TEXTS}
        self._length = np.zeros(count, np.int64)
        self._values: dict[int, str] = {}
        self.good = np.zeros(count, np.bool_)
        self.bad: list[int] = []

    @classmethod
    def read(cls, data: bytes) -> JsonLines:
        """Return the rows of these lines, each of which has its end."""
        rows = cls(data)
        single: list[Ints] = [rows._bounds[:0]]
        for form, at in rows._masked.groups():
            columns = rows._masked.columns(form, at) if len(at) >= FEW else None
            alike = None if columns is None else _alike(form, len(columns))
            if columns is not None and alike is not None:
                rows._take(alike, at, columns)
            elif form != b"\n":
                single.append(at)
        for line in np.sort(np.concatenate(single)).tolist():
            rows._take_one(line)
        return rows

    def table(self) -> pa.Table:
        """Return the rows, not numbered yet."""
        arrays = [pa.array(np.full(int(self.good.sum()), -1, np.int64))]
        arrays += [pa.array(column[self.good]) for column in self._numbers.values()]
        arrays.append(pa.repeat(str(Kind.TRACE), len(arrays[0])).dictionary_encode())
        for name, codes in self._codes.items():
            words = pa.array([*self._texts[name]], pa.string())
            arrays.append(words.take(pa.array(codes[self.good])).dictionary_encode())
        arrays.append(self._value_column().filter(pa.array(self.good)))
        return pa.Table.from_arrays(arrays, names=list(COLUMNS))

    def _take(self, alike: _Alike, at: Ints, columns: list[Ints]) -> None:
        """Lines that are alike."""
        for name, (is_mask, number) in alike.numbers.items():
            self._numbers[name][at] = columns[number] if is_mask else number
        self._name(alike.texts, at)
        masks, last = alike.value.count(MASK), self._masked.first[at] + len(columns)
        width = self._masked.widths[last] - self._masked.widths[last - masks]
        self._length[at] = len(alike.value) - masks + width
        self.good[at] = True

    def _take_one(self, line: int) -> None:
        try:
            row = json.loads(self._data[self._bounds[line] : self._bounds[line + 1] - 1])
            value = _value(row.get(VALUE) or "")
            numbers = {name: _number(row.get(name, -1)) for name in _NUMBERS}
            texts = {name: str(row.get(name, "")) for name in _TEXTS}
        except NO_ROW:
            self.bad.append(line)
            return
        for name, number in numbers.items():
            self._numbers[name][line] = number
        self._name(texts, line)
        self._values[line] = value
        self.good[line] = True

    def _name(self, texts: dict[str, str], at: Ints | int) -> None:
        for name, text in texts.items():
            known = self._texts[name]
            self._codes[name][at] = known.setdefault(text, len(known))

    def _value_column(self) -> pa.Array:
        """Return the values as they stand in lines that are alike, with those of other lines between them."""
        inside = np.zeros(len(self._data) + 1, np.int8)
        ends = self._bounds[1:] - 2
        has = self._length > 0
        inside[ends[has] - self._length[has]] = 1
        inside[ends[has]] = -1
        text = np.frombuffer(self._data, np.uint8)[np.cumsum(inside[:-1], dtype=np.int8) == 1]
        bounds = np.append(0, np.cumsum(self._length)).astype(np.int32)
        values = pa.StringArray.from_buffers(len(self.good), pa.py_buffer(bounds), pa.py_buffer(text))
        if not self._values:
            return values
        single = np.zeros(len(self.good), np.bool_)
        single[list(self._values)] = True
        return pc.replace_with_mask(values, pa.array(single), pa.array([*self._values.values()], pa.string()))


def _alike(form: bytes, masks: int) -> _Alike | None:
    """Lines of this form, with so many masks; None if they must be parsed one by one, for any reason."""
    made: list[_Mask] = []

    def mask(_: str) -> _Mask:
        made.append(_Mask("nan"))
        made[-1].place = len(made) - 1
        return made[-1]

    try:
        row = json.loads(form.replace(MASK, MASK_WORDS[0]), parse_constant=mask)
        numbers = {name: _masked_number(row.get(name, -1)) for name in _NUMBERS}
        value = row.get(VALUE) or ""
        encoded = to_json(value).encode().replace(MASK_WORDS[0], MASK) if value else b""
    except NO_ROW:
        return None
    texts = {name: row.get(name, "") for name in _TEXTS}
    if len(made) != masks or not all(isinstance(text, str) for text in texts.values()):
        return None
    if encoded and not (
        isinstance(value, dict)
        and [*row][-1] == VALUE
        and form.endswith(b'"value":' + encoded + b"}\n")
        and list(_masks(value)) == made[masks - encoded.count(MASK) :]
    ):
        return None
    return _Alike(numbers, texts, encoded)


def _masked_number(given: Any) -> tuple[bool, int]:
    """Return whether it is the place of a mask, and that or the number itself."""
    return (True, given.place) if isinstance(given, _Mask) else (False, _number(given))


def _masks(value: object) -> Iterator[_Mask]:
    """All masks in a value, in their order."""
    if isinstance(value, _Mask):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _masks(one)


def _number(given: Any) -> int:
    number = int(given)
    if not -(2**63) <= number < 2**63:
        raise ValueError("a number doesn't fit into 64 bits")
    return number


def _value(given: object) -> str:
    """Return what a node has written with a row, as JSON; it may have come as such."""
    if isinstance(given, str):
        if given and not isinstance(json.loads(given), dict):
            raise ValueError("it is not an object")
        return given
    return to_json(given)
