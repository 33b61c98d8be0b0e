"""Reads the typed lines of a trace file, many together; :mod:`chaos.history.trace_lines` says what they are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chaos.history.columns import COLUMNS, INTEGERS, WORDS, Kind
from chaos.history.masks import Ints
from chaos.history.trace_lines import HEADER, LARGEST_FORM, Form
from chaos.history.values import to_json

Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

_TAB, _END = ord("\t"), ord("\n")
#: No form has a number of more digits.
_FORM_DIGITS = len(str(LARGEST_FORM - 1))
#: What the keys of the lines of one form, which are read together, may take.
MOST_KEYS = 1 << 28
#: What a line that is no row may raise.
NO_ROW = (ValueError, TypeError, AttributeError, OverflowError, RecursionError)


def is_typed(text: Bytes, begin: Ints) -> Flags:
    """Which of the lines that begin there are headers or typed."""
    first = text[begin]
    return (first == HEADER[0]) | ((first >= ord("0")) & (first <= ord("9")))


@dataclass(frozen=True, slots=True)
class Typed:
    """The rows of typed lines, not numbered yet, and the line of each; ``bad``: lines that are no row and no header."""

    table: pa.Table
    at: Ints
    bad: list[int]


class TypedLines:
    """Reads one file: its headers hold until another one has their number. ``headers``: those that hold where it begins
    to be read."""

    def __init__(self, headers: Iterable[str] = ()) -> None:
        self._forms: list[Form] = []
        self._known = np.full(LARGEST_FORM + 1, -1, np.int64)
        for header in headers:
            self._begins(header.encode())

    @property
    def headers(self) -> tuple[str, ...]:
        """Those that hold now."""
        return tuple(self._forms[at].header for at in self._known[self._known >= 0].tolist())

    def read(self, text: Bytes, begin: Ints, end: Ints, line: Ints) -> Typed:
        """Of the lines between ``begin`` and ``end`` (where each one's newline stands), which have these numbers."""
        is_header = text[begin] == HEADER[0]
        form = np.full(len(begin), -1, np.int64)
        number = _form_numbers(text, begin, end)
        after = 0
        for at in np.flatnonzero(is_header).tolist():
            form[after:at] = self._known[number[after:at]]
            after = at + 1
            is_header[at] = self._begins(text[begin[at] : end[at]].tobytes())
        form[after:] = self._known[number[after:]]
        rows = _Rows(self._forms, _Pieces(text, begin, end), form)
        return Typed(rows.table(), line[rows.good], line[~rows.good & ~is_header].tolist())

    def _begins(self, header: bytes) -> bool:
        """Take a header; False if it is none."""
        try:
            form = Form.parse(header)
            for number in form.common.values():
                if isinstance(number, int):
                    _within(number)
        except NO_ROW:
            return False
        self._known[form.number] = len(self._forms)
        self._forms.append(form)
        return True


def _form_numbers(text: Bytes, begin: Ints, end: Ints) -> Ints:
    """Return what stands before the first tab of each line, -1 where it is not a number that a form may have."""
    number, is_none = np.zeros(len(begin), np.int64), np.zeros(len(begin), np.bool_)
    still = np.ones(len(begin), np.bool_)
    for place in range(_FORM_DIGITS + 1):
        here = text[np.minimum(begin + place, end)].astype(np.int64)
        still &= (here != _TAB) & (here != _END)
        digit = (here >= ord("0")) & (here <= ord("9"))
        is_none |= still & (~digit | ((number == 0) & (place > 0)))
        number[still] = number[still] * 10 + (here[still] - ord("0"))
    return np.where(is_none | still, -1, number)


class _Pieces:
    """What stands between the tabs of some lines, as one array of texts. ``first``: the place of each line's first
    piece; ``count``: how many it has."""

    def __init__(self, text: Bytes, begin: Ints, end: Ints) -> None:
        is_mark = (text == _TAB) | (text == _END)
        marks = np.flatnonzero(is_mark)
        self.first = np.searchsorted(marks, begin)
        self.count = np.searchsorted(marks, end) - self.first + 1
        bounds = np.append(0, marks - np.arange(len(marks))).astype(np.int32)
        self.is_ascii = bool((text < 128).all())
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(text[~is_mark])]
        self._texts = pa.Array.from_buffers(pa.binary(), len(marks), buffers)

    def of(self, lines: Ints, first: int, last: int) -> pa.Array:
        """Return these pieces of these lines, line by line."""
        return self._texts.take(pa.array((self.first[lines][:, np.newaxis] + np.arange(first, last)).ravel()))

    def of_line(self, line: int) -> list[bytes]:
        found: list[bytes] = self._texts.slice(self.first[line], self.count[line]).to_pylist()
        return found


class _Rows:
    """The rows of some lines of these forms (-1: of none). ``good``: which lines are rows."""

    def __init__(self, forms: Sequence[Form], pieces: _Pieces, form: Ints) -> None:
        self._forms, self._form, self._pieces = forms, form, pieces
        count = np.array([1 + len(one.columns) + len(one.keys) for one in forms] + [-1], np.int64)
        self.good = pieces.count == count[form]
        self._leave_out_bombs()
        self._used = np.unique(form[self.good]).tolist()
        self._numbers = {name: np.full(len(form), -1, np.int64) for name in INTEGERS}
        self._lines: list[Ints] = []
        self._values: list[pa.Array] = []
        for columns in sorted({forms[used].columns for used in self._used}):
            same = [used for used in self._used if forms[used].columns == columns]
            self._take(columns, same, np.flatnonzero(np.isin(form, same) & self.good))

    def _leave_out_bombs(self) -> None:
        """Each row has all keys of its form, which stand in the file once: lines of a few bytes, of a form with keys of
        megabytes, are no rows."""
        sizes = np.array([sum(map(len, one.keys)) for one in self._forms] + [0], np.int64)
        lines = np.bincount(self._form[self.good] + 1, minlength=len(sizes))
        large = np.flatnonzero(sizes * np.roll(lines, -1) > MOST_KEYS)
        self.good &= ~np.isin(self._form, large)

    def table(self) -> pa.Table:
        form = self._form[self.good]
        for at in self._used:
            for name in self._numbers.keys() & self._forms[at].common.keys():
                self._numbers[name][self._form == at] = self._forms[at].common[name]
        arrays = [pa.array(self._numbers[name][self.good]) for name in INTEGERS]
        place = np.zeros(len(self._forms) + 1, np.int32)
        for name in WORDS:
            texts: dict[str, int] = {}
            for at in self._used:
                text = str(Kind.TRACE) if name == "kind" else self._forms[at].common.get(name, "")
                place[at] = texts.setdefault(text, len(texts))
            arrays.append(pa.DictionaryArray.from_arrays(pa.array(place[form]), pa.array([*texts], pa.string())))
        return pa.Table.from_arrays([*arrays, self._value_column()], names=list(COLUMNS))

    def _take(self, columns: tuple[str, ...], forms: Sequence[int], lines: Ints) -> None:
        """Lines whose forms have these columns."""
        numbers = _whole(self._pieces.of(lines, 1, 1 + len(columns))) if self._pieces.is_ascii else None
        if numbers is None:
            self._one_by_one(lines)
            return
        for place, name in enumerate(columns):
            self._numbers[name][lines] = numbers[place :: len(columns)]
        for at in forms:
            self._take_values(self._forms[at], lines[self._form[lines] == at])

    def _take_values(self, form: Form, lines: Ints) -> None:
        parts: list[pa.Array | pa.Scalar] = []
        for place, key in enumerate(form.keys):
            first = 1 + len(form.columns) + place
            piece = _json(self._pieces.of(lines, first, first + 1))
            if piece is None:
                self._one_by_one(lines)
                return
            parts += [pa.scalar(("," if place else "{") + to_json(key) + ":"), piece]
        self._lines.append(lines)
        joined = (
            pc.binary_join_element_wise(*parts, pa.scalar("}"), pa.scalar("")) if parts else pa.repeat("", len(lines))
        )
        self._values.append(joined)

    def _one_by_one(self, lines: Ints) -> None:
        """Lines of which at least one is odd."""
        values = []
        for line in lines.tolist():
            form = self._forms[self._form[line]]
            try:
                row = form.row(self._pieces.of_line(line)[1:])
                numbers = {name: _within(row[name]) for name in form.columns}
                values.append(to_json(row["value"]) if row["value"] else "")
            except NO_ROW:
                self.good[line] = False
                values.append("")
                continue
            for name, number in numbers.items():
                self._numbers[name][line] = number
        self._lines.append(lines)
        self._values.append(pa.array(values, pa.string()))

    def _value_column(self) -> pa.Array:
        if not self._values:
            return pa.array([], pa.string())
        lines = np.concatenate(self._lines)
        order = np.argsort(lines)
        return pa.concat_arrays(self._values).take(pa.array(order[self.good[lines[order]]]))


def _whole(texts: pa.Array) -> Ints | None:
    """Return the whole numbers that these texts are; None if one of them is none, is written in another way than Python
    writes it, or doesn't fit into 64 bits."""
    texts = texts.view(pa.string())
    try:
        numbers = pc.cast(texts, pa.int64())
    except pa.ArrowInvalid:
        return None
    return np.asarray(numbers.to_numpy(zero_copy_only=False)) if pc.cast(numbers, pa.string()).equals(texts) else None


def _json(texts: pa.Array) -> pa.Array | None:
    """Return these pieces of JSON as a history writes them; None if one of them is none."""
    if _whole(texts) is not None:
        return texts.view(pa.string())
    encoded = texts.view(pa.string()).dictionary_encode()
    try:
        made = [to_json(json.loads(text)) for text in encoded.dictionary.to_pylist()]
    except NO_ROW:
        return None
    return pa.array(made, pa.string()).take(encoded.indices)


def _within(number: Any) -> int:
    if not -(2**63) <= number < 2**63:
        raise ValueError("it doesn't fit into 64 bits")
    return int(number)
