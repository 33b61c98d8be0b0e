"""A sealed run as pieces that are read apart, in any process: the segments of its stream, and those of its traces."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from chaos import guarded
from chaos.errors import ChaosError, DamagedHistory
from chaos.history import manifest, segments
from chaos.history.bounded.messages import MOST_BATCH, extent
from chaos.history.columns import COLUMNS
from chaos.history.directory import SEGMENTS, trace_files
from chaos.history.manifest import Sealed, Sum
from chaos.history.stream import MOST_ROWS, SCHEMA, STREAM
from chaos.history.trace_segments import segment_blocks, segment_rows


@dataclass(frozen=True, slots=True)
class Piece:
    """The rows of one segment, with the numbers from ``first_index`` on. ``name``: of its file, in the directory of the
    ``run``. Of the stream it is the bytes from ``offset`` on that have this ``sum``, and ends as soon as it has
    ``least_rows``, or with the stream; of a trace it is the file."""

    run: Path
    name: str
    first_index: int
    rows: int
    offset: int = 0
    sum: Sum | None = None
    least_rows: int = 0

    @property
    def is_of_stream(self) -> bool:
        return self.name == STREAM

    def read(self, columns: Collection[str] = COLUMNS) -> pa.Table:
        """Return its rows with these columns. Raises :class:`chaos.errors.DamagedHistory` for what is not as it was
        sealed, in any way: who reads all rows in their order says it better."""
        try:
            table = self._of_stream(columns) if self.is_of_stream else self._of_trace(columns)
        except DamagedHistory:
            raise
        except (ChaosError, pa.ArrowException, ValueError, OSError) as error:
            raise DamagedHistory(f"{self.run / self.name}: {error}") from error
        if table.num_rows != self.rows:
            raise DamagedHistory(f"{self.run / self.name} has {table.num_rows:,} rows, expected {self.rows:,}")
        return table.select([name for name in COLUMNS if name in columns])

    def _of_stream(self, columns: Collection[str]) -> pa.Table:
        assert self.sum is not None
        with guarded.opened(self.run / self.name, manifest.largest([self.offset + self.sum.length])) as file:
            file.seek(self.offset)
            data = file.read(self.sum.length)
        if manifest.sum_of(data) != self.sum:
            raise ValueError(f"the segment at {self.offset:,} is not what was written")
        if extent(data).size > MOST_BATCH:
            raise ValueError(f"the segment at {self.offset:,} is too large")
        places = [place for place, name in enumerate(COLUMNS) if name in columns or name in ("index", "op")]
        wanted = pa.schema([SCHEMA.field(place) for place in places])
        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=places)
        with pa.ipc.open_stream(pa.BufferReader(data), options=options) as reader:
            if reader.schema != wanted:
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

    def _of_trace(self, columns: Collection[str]) -> pa.Table:
        damage: list[str] = []
        blocks = [*segment_blocks(self.run, self.name, self.first_index, damage)]
        if damage:
            raise ValueError(damage[0])
        table = pa.concat_tables([SCHEMA.empty_table(), *blocks])
        return table.select([name for name in COLUMNS if name in columns]).unify_dictionaries().combine_chunks()


def pieces(run: Path, sealed: Sealed) -> tuple[Piece, ...]:
    """Return all rows of a run, in the order of their numbers; none where they can't be read apart: where the run was
    not sealed, has traces that are lines, is of an earlier format, or is not as its manifest says. Raises
    :class:`chaos.errors.BadInput` for what is no regular file."""
    run = run.absolute()  # workers have another working directory
    of_stream = _of_stream(run, sealed)
    traces = trace_files(run)
    if sealed.damage or not of_stream or not all(name.endswith(SEGMENTS) and name in sealed.files for name in traces):
        return ()
    found, first_index = [*of_stream], of_stream[-1].first_index + of_stream[-1].rows
    for name in traces:
        found.append(Piece(run, name, first_index, segment_rows(run, name)))
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
    return tuple(
        Piece(run, STREAM, first, one.rows, one.offset, one.sum, segments.SEGMENT_ROWS)
        for one, first in zip(whole, firsts, strict=False)
    )
