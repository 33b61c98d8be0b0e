"""Reads what nodes that were processes have traced: segments, and the lines of which no segment was made yet. Lines are
typed, or JSON of which most differs in numbers only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from chaos import guarded
from chaos.errors import BadInput, DamagedHistory, Overtaken
from chaos.history import manifest, stored
from chaos.history.columns import COLUMNS
from chaos.history.directory import SEGMENTS, sealed_segments, trace_files
from chaos.history.json_lines import JsonLines
from chaos.history.manifest import Sealed
from chaos.history.trace_segments import LARGEST_SEGMENT, Place, segment_blocks, segment_end
from chaos.history.typed_lines import TypedLines, is_typed

#: No more is read of a trace file that nobody has sealed.
LARGEST_TRACE = 1 << 30
#: About so many bytes of lines are taken apart together.
BLOCK = 1 << 22
#: No line is longer; those of ours take some hundred bytes.
LONGEST_LINE = 1 << 26

#: Where the first line begins.
_START = np.zeros(1, np.int64)


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
        rows = JsonLines.read(block)
        return rows.table(), len(end), rows.bad
    found = typed.read(text, begin[short], end[short], np.flatnonzero(short))
    long = np.flatnonzero(~short)
    if not len(long):
        return found.table, len(end), found.bad
    rows = JsonLines.read(text[np.repeat(~short, end - begin + 1)].tobytes())
    at = np.concatenate([found.at, long[rows.good]])
    table = pa.concat_tables([found.table, rows.table()]).unify_dictionaries().combine_chunks()
    bad = sorted([*found.bad, *long[rows.bad].tolist()])
    return table.take(pa.array(np.argsort(at))), len(end), bad
