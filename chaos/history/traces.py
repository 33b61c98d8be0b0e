"""Reads what nodes that were processes have traced: segments, and the lines of which no segment was made yet. Lines are
typed, or JSON of which most differs in numbers only."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chaos import guarded
from chaos.errors import BadInput, DamagedHistory, Overtaken
from chaos.history import manifest, stored
from chaos.history.columns import COLUMNS, INTEGERS, VALUE, WORDS, Kind
from chaos.history.directory import SEGMENTS, sealed_segments, trace_files
from chaos.history.manifest import Sealed
from chaos.history.masks import MASK, Ints, Masked
from chaos.history.masks import WORDS as MASK_WORDS
from chaos.history.trace_segments import LARGEST_SEGMENT, Place, segment_blocks, segment_end
from chaos.history.typed_lines import NO_ROW, TypedLines, is_typed
from chaos.history.values import to_json

#: No more is read of a trace file that nobody has sealed.
LARGEST_TRACE = 1 << 30
#: About so many bytes of lines are taken apart together.
BLOCK = 1 << 22
#: No line is longer; those of ours take some hundred bytes.
LONGEST_LINE = 1 << 26
#: Fewer lines than this that are alike are parsed one by one.
FEW = 3

#: Where the first line begins.
_START = np.zeros(1, np.int64)
#: What a node says of itself; ``index`` and ``kind`` are no word of its own.
_NUMBERS, _TEXTS = INTEGERS[1:], WORDS[1:]


def read_traces(directory: Path, first_index: int, sealed: Sealed) -> tuple[list[pa.Table], list[str]]:
    """All blocks of :func:`trace_blocks`, and the damage."""
    damage: list[str] = []
    return list(trace_blocks(directory, first_index, sealed, damage)), damage


def trace_blocks(directory: Path, first_index: int, sealed: Sealed, damage: list[str]) -> Iterator[pa.Table]:
    """Yield the traces of processes, indexed from ``first_index`` on, some rows at a time. ``damage`` gets a sentence
    for each line that is no row, and for each segment that is none."""
    for name in trace_files(directory, sealed):
        if name.endswith(SEGMENTS):
            blocks = segment_blocks(_segment(directory, name, sealed, damage), name, first_index, damage)
        else:
            blocks = _rest_of_lines(directory, name, sealed, damage, first_index)
        for block in blocks:
            first_index += block.num_rows
            yield block


def _segment(directory: Path, name: str, sealed: Sealed, damage: list[str]) -> bytes:
    """Return the bytes of a segment, wherever it stands; nothing where it can't be read there."""
    try:
        data = stored.fetch(sealed, name, 0, sealed.files[name][-1]) if name in sealed.files else None
    except DamagedHistory as error:
        damage.append(str(error))
        return b""
    return guarded.read(guarded.below(directory, name), LARGEST_SEGMENT) if data is None else data


def _rest_of_lines(
    directory: Path, name: str, sealed: Sealed, damage: list[str], first_index: int
) -> Iterator[pa.Table]:
    """Yield the rows of the lines of one trace that stand in no segment. Of a file that was sealed no more is read than
    what was sealed."""
    begin = lines_begin(directory, name, sealed)
    if begin is None or (directory / name).lstat().st_size < begin.offset:
        damage.append(f"{name}: which of its lines stand in no segment is unknown; they are left out")
        return
    known = sealed.files.get(name)
    end = known[-1].length if known else begin.offset + LARGEST_TRACE
    guarded.vetted(guarded.below(directory, name), manifest.largest([end]) if known else end)

    def is_overtaken() -> bool:
        return sealed_segments(manifest.read(directory), name) != sealed_segments(sealed, name)

    for table, _ in line_blocks(directory, name, begin, end, damage, is_overtaken=is_overtaken):
        numbers = pa.array(np.arange(first_index, first_index + table.num_rows))
        first_index += table.num_rows
        yield table.set_column(0, COLUMNS[0], numbers)


def lines_begin(directory: Path, name: str, sealed: Sealed) -> Place | None:
    """Return where the lines of a trace begin that stand in no segment; None where its last segment doesn't say so.
    Raises :class:`chaos.errors.BadInput` where that is no regular file."""
    segments = sealed_segments(sealed, name)
    return segment_end(directory, segments[-1]) if segments else Place()


def line_blocks(
    directory: Path,
    name: str,
    begin: Place,
    end: int,
    damage: list[str],
    *,
    ended: bool = True,
    is_overtaken: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[pa.Table, Place]]:
    """Yield the rows of the lines of one trace between a place and the byte ``end``, not numbered yet, some at a time,
    and where these lines end. A torn last line is how a kill looks, no damage; it is left alone unless the lines have
    ``ended``. ``is_overtaken``: whether lines have become a segment since the place was read (:class:`Overtaken` then,
    once a hole shows it)."""
    with guarded.opened(guarded.below(directory, name), guarded.LARGEST_STREAM) as file:
        file.seek(begin.offset)
        offset, number, typed = begin.offset, begin.lines + 1, TypedLines(begin.headers)
        for block, whole in _blocks(file, end - offset, is_overtaken):
            if not (whole or ended):
                return
            offset += len(block) if whole else len(block) - 1
            if not whole and is_typed(np.frombuffer(block, np.uint8), _START).any():
                continue  # it is unknown how long its last number was
            table, lines, bad = _read(block, typed)
            if whole:
                damage += [f"{name}:{number + line} is no trace row; it is left out" for line in bad]
            number += lines
            yield table, Place(offset, number - 1, typed.headers)


def _blocks(file: BinaryIO, most: int, is_overtaken: Callable[[], bool]) -> Iterator[tuple[bytes, bool]]:
    """Yield the lines among the next ``most`` bytes, many at a time, each with its end; and what follows the last end,
    which isn't whole."""
    while block := file.read(min(BLOCK, most)):
        if b"\0" in block and is_overtaken():
            raise Overtaken(f"{file.name} is being turned into segments, so that it can't be read now: try again")
        most -= len(block)
        if not block.endswith(b"\n"):
            rest = file.readline(min(LONGEST_LINE, most))
            if len(rest) == LONGEST_LINE < most:
                raise BadInput(f"{file.name} has a line of more than {LONGEST_LINE:,} bytes, which is all that is read")
            most -= len(rest)
            block += rest
        end = block.rfind(b"\n") + 1
        if end:
            yield block[:end], True
        if end < len(block):
            yield block[end:] + b"\n", False


def _read(block: bytes, typed: TypedLines) -> tuple[pa.Table, int, list[int]]:
    """Return the rows of some lines of a file, how many lines that are, and which of them should be rows and are
    none."""
    text = np.frombuffer(block, np.uint8)
    end = np.flatnonzero(text == ord("\n"))
    begin = np.append(0, end[:-1] + 1)
    short = is_typed(text, begin)
    if not short.any():
        rows = _Rows.read(block)
        return rows.table(), len(end), rows.bad
    found = typed.read(text, begin[short], end[short], np.flatnonzero(short))
    long = np.flatnonzero(~short)
    if not len(long):
        return found.table, len(end), found.bad
    rows = _Rows.read(text[np.repeat(~short, end - begin + 1)].tobytes())
    at = np.concatenate([found.at, long[rows.good]])
    table = pa.concat_tables([found.table, rows.table()]).unify_dictionaries().combine_chunks()
    bad = sorted([*found.bad, *long[rows.bad].tolist()])
    return table.take(pa.array(np.argsort(at))), len(end), bad


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


class _Rows:
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
    def read(cls, data: bytes) -> _Rows:
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
            raise ValueError("it is no object")
        return given
    return to_json(given)
