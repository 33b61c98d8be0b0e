"""A run as pieces that are read apart, in any process: the segments of its stream and of its traces, as they stand, or
as they were made of rows that can't be read so."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from chaos import guarded
from chaos.errors import ChaosError, DamagedHistory
from chaos.history import manifest, segments, stored, uris
from chaos.history.bounded.messages import MOST_BATCH, extent
from chaos.history.columns import COLUMNS
from chaos.history.directory import SEGMENTS, trace_files
from chaos.history.manifest import Sealed, Sum
from chaos.history.stream import MOST_ROWS, SCHEMA, STREAM
from chaos.history.trace_segments import LARGEST_SEGMENT, segment_blocks, segment_rows

#: A run of so many rows is large: to part them takes less time than several processes save.
LARGE_ROWS = 250_000


class Readable(Protocol):
    """What a large run is judged from, one after the other, in any process."""

    @property
    def first_index(self) -> int:
        """What no row has a lower number than."""

    @property
    def rows(self) -> int:
        """How many rows there are, at most."""

    @property
    def is_of_stream(self) -> bool:
        """Whether it is one of the segments of which the digest of the run is made."""

    def read(self, columns: Collection[str] = COLUMNS) -> pa.Table:
        """Return its rows with these columns, in the order of their numbers. Raises
        :class:`chaos.errors.DamagedHistory`."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a file, with the numbers from ``first_index`` on. ``place``: its path, which is absolute since workers
    have another working directory, or the URI of a copy; ``sum``: of the bytes in which they stand."""

    place: str
    first_index: int
    rows: int
    sum: Sum

    @property
    def is_of_stream(self) -> bool:
        return False

    def read(self, columns: Collection[str] = COLUMNS) -> pa.Table:
        """Return its rows with these columns. Raises :class:`chaos.errors.DamagedHistory` for what is not as it was
        written, in any way: who reads all rows in their order says it better."""
        try:
            table = self._table(columns)
        except (DamagedHistory, MemoryError):
            raise
        except (ChaosError, pa.ArrowException, ValueError, OSError) as error:
            raise DamagedHistory(f"{uris.without_secrets(self.place)}: {uris.sentence(error, self.place)}") from error
        if table.num_rows != self.rows:
            shown = uris.without_secrets(self.place)
            raise DamagedHistory(f"{shown} has {table.num_rows:,} rows, expected {self.rows:,}")
        return table.select([name for name in COLUMNS if name in columns])

    def _table(self, columns: Collection[str]) -> pa.Table:
        """Of a file that was made of rows: nothing but this process and its workers knew of it."""
        places = _places(columns)
        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=places)
        with pa.ipc.open_stream(pa.BufferReader(self._summed(0)), options=options) as reader:
            return reader.read_all().unify_dictionaries().combine_chunks()

    def _summed(self, offset: int) -> bytes:
        """Return the bytes of the rows. Raises ``ValueError`` where they are not those that were written."""
        data = self._bytes(offset, self.sum.length)
        if manifest.sum_of(data) != self.sum:
            raise ValueError(f"the segment at {offset:,} is not what was written")
        return data

    def _bytes(self, offset: int, most: int) -> bytes:
        if uris.is_uri(self.place):
            files, path = uris.resolve(self.place)
            with files.open_input_file(path) as copy:
                copy.seek(offset)
                found: bytes = copy.read(min(most, copy.size() - offset))
                return found
        with guarded.opened(Path(self.place), guarded.LARGEST_STREAM) as file:
            file.seek(offset)
            return file.read(min(most, os.fstat(file.fileno()).st_size))


@dataclass(frozen=True, slots=True)
class StreamPiece(Piece):
    """A segment of the stream: the bytes from ``offset`` on of what is at its place. It ends as soon as it has
    ``least_rows``, or with the stream."""

    offset: int
    least_rows: int

    @property
    def is_of_stream(self) -> bool:
        return True

    def _table(self, columns: Collection[str]) -> pa.Table:
        data = self._summed(self.offset)
        if extent(data).size > MOST_BATCH:
            raise ValueError(f"the segment at {self.offset:,} is too large")
        places = _places(columns)
        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=places)
        with pa.ipc.open_stream(pa.BufferReader(data), options=options) as reader:
            if reader.schema != (wanted := pa.schema([SCHEMA.field(place) for place in places])):
                raise ValueError(f"the segment at {self.offset:,} has other columns than a history")
            batches = [*reader]
        for batch in batches:
            batch.validate(full=True)
            if any(column.null_count for column in batch.columns):
                raise ValueError(f"a row of the segment at {self.offset:,} lacks something")
        table = pa.Table.from_batches(batches, wanted).unify_dictionaries().combine_chunks()
        self._check_numbers(table)
        return table

    def _check_numbers(self, table: pa.Table) -> None:
        """Rows are numbered without a gap, and the segment is one of those of which the digest is made."""
        index = table["index"].to_numpy()
        if not np.array_equal(index, np.arange(self.first_index, self.first_index + len(index))):
            raise ValueError(f"the rows of the segment at {self.offset:,} are numbered otherwise")
        if segments.Segments(self.least_rows).starts(table["op"].to_numpy()):
            raise ValueError(f"the segment at {self.offset:,} ends elsewhere")


@dataclass(frozen=True, slots=True)
class TracePiece(Piece):
    """A segment of a node's trace."""

    def _table(self, columns: Collection[str]) -> pa.Table:
        damage: list[str] = []
        if self.sum.length > LARGEST_SEGMENT:
            raise ValueError("it is too large")
        data = self._summed(0)
        blocks = [*segment_blocks(data, self.place, self.first_index, damage, columns)]
        if damage:
            raise ValueError(damage[0])
        empty = SCHEMA.empty_table().select([name for name in COLUMNS if name in columns])
        return pa.concat_tables([empty, *blocks]).unify_dictionaries().combine_chunks()


def _places(columns: Collection[str]) -> list[int]:
    return [place for place, name in enumerate(COLUMNS) if name in columns or name in ("index", "op")]


@dataclass(frozen=True, eq=False, slots=True)
class Joined:
    """Pieces that follow one another as one."""

    pieces: tuple[Readable, ...]

    @property
    def first_index(self) -> int:
        return self.pieces[0].first_index

    @property
    def rows(self) -> int:
        return rows_of(self.pieces)

    @property
    def is_of_stream(self) -> bool:
        return False

    def read(self, columns: Collection[str] = COLUMNS) -> pa.Table:
        """As :meth:`Piece.read`."""
        return pa.concat_tables([one.read(columns) for one in self.pieces]).unify_dictionaries().combine_chunks()


@dataclass(frozen=True, eq=False, slots=True)
class Held:
    """Rows that are held already."""

    table: pa.Table

    @property
    def first_index(self) -> int:
        return int(self.table["index"][0].as_py()) if self.table.num_rows else 0

    @property
    def rows(self) -> int:
        rows: int = self.table.num_rows
        return rows

    @property
    def is_of_stream(self) -> bool:
        return False

    def read(self, columns: Collection[str] = COLUMNS) -> pa.Table:
        """As :meth:`Piece.read`."""
        return self.table.select([name for name in COLUMNS if name in columns])


def rows_of(pieces: Sequence[Readable]) -> int:
    """Return how many rows pieces have together."""
    return sum(piece.rows for piece in pieces)


def pieces(run: Path, sealed: Sealed) -> tuple[Piece, ...]:
    """Return all rows of a run, in the order of their numbers; none where they can't be read apart: where the run was
    not sealed, has traces that are lines, is of an earlier format, or is not as its manifest says. Raises
    :class:`chaos.errors.BadInput` for what is no regular file."""
    of_stream = _of_stream(run, sealed)
    traces = trace_files(run, sealed)
    if sealed.damage or not of_stream or not all(name.endswith(SEGMENTS) and name in sealed.files for name in traces):
        return ()
    found, first_index = [*of_stream], of_stream[-1].first_index + of_stream[-1].rows
    for name in traces:
        place = stored.place_of(sealed, name) or str(guarded.below(run.absolute(), name))
        rows = segment_rows(run, name)
        found.append(TracePiece(place, first_index, rows, sealed.files[name][-1]))
        first_index += found[-1].rows
    return tuple(found) if first_index <= MOST_ROWS else ()


def _of_stream(run: Path, sealed: Sealed) -> tuple[Piece, ...]:
    whole = sealed.segments
    begins, ends = [one.offset for one in whole], [one.offset + one.sum.length for one in whole]
    if not whole or begins != [0, *ends[:-1]] or ends[-1] != sealed.stream_bytes:
        return ()
    if any(one.rows < segments.SEGMENT_ROWS for one in whole[:-1]):  # the digest is of other ones
        return ()
    if not guarded.is_there(run / STREAM) or (run / STREAM).lstat().st_size != ends[-1]:
        return ()
    firsts = np.cumsum([0, *(one.rows for one in whole)]).tolist()
    places = [stored.place_of(sealed, STREAM, one.offset) for one in whole]
    here = str((run / STREAM).absolute())
    return tuple(
        StreamPiece(place or here, first, one.rows, one.sum, 0 if place else one.offset, segments.SEGMENT_ROWS)
        for one, first, place in zip(whole, firsts, places, strict=False)
    )
