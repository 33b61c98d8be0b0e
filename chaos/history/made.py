"""The rows of a run that can't be read apart as they stand: held as long as they are few, else written once more, as
pieces that can."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa

from chaos import guarded
from chaos.errors import MachineError
from chaos.history import pieces, segments
from chaos.history.manifest import sum_of
from chaos.history.pieces import Piece
from chaos.history.stream import SCHEMA

#: A piece ends when its rows take so many bytes, however few they are; and so much is held of a run.
PIECE_BYTES, MOST_HELD = 1 << 26, 1 << 28
_WRITTEN = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
#: How the folder is called.
_PREFIX = "pieces-"


class Made:
    """Takes blocks of rows (of :data:`chaos.history.stream.SCHEMA`), in their order. No piece ends within an operation.

    Use it as a context manager: what it writes stands in a folder of its own below ``parent``, which is gone at the
    end. Raises :class:`chaos.errors.MachineError` when the disk is full."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self._folder: Path | None = None
        self._held: list[pa.Table] = []
        self._size = 0
        self._pieces: list[Piece] = []
        self.num_rows = 0
        #: Whether the rows are numbered from 0 on, without a gap.
        self.in_order = True

    def __enter__(self) -> Made:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.forget()

    def forget(self) -> None:
        """Hold nothing any more."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder, self._held, self._size, self._pieces = None, [], 0, []
        self.num_rows, self.in_order = 0, True

    def add(self, block: pa.Table) -> None:
        index = block["index"].to_numpy()
        dense = np.arange(self.num_rows, self.num_rows + len(index))
        self.in_order = self.in_order and bool(np.array_equal(index, dense))
        self.num_rows += len(index)
        self._held.append(block)
        self._size += block.nbytes
        if self._folder is None and self.num_rows < pieces.LARGE_ROWS and self._size < MOST_HELD:
            return
        if sum(one.num_rows for one in self._held) >= segments.SEGMENT_ROWS or self._size >= PIECE_BYTES:
            self._cut()

    def start_over(self, table: pa.Table) -> None:
        """Hold these rows, and none besides."""
        self.forget()
        for begin in range(0, table.num_rows, segments.SEGMENT_ROWS):
            self.add(table.slice(begin, segments.SEGMENT_ROWS))
        self.in_order = True

    @property
    def table(self) -> pa.Table | None:
        """All rows, if they are few. The beginnings of operations that their ends repeat are among them."""
        if self._folder is not None or self.num_rows >= pieces.LARGE_ROWS:
            return None
        self._held = [pa.concat_tables([SCHEMA.empty_table(), *self._held]).unify_dictionaries().combine_chunks()]
        return self._held[0]

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All rows. No block may be added any more."""
        if self._held:
            self._write(pa.concat_tables(self._held))
            self._held, self._size = [], 0
        return tuple(self._pieces)

    def _cut(self) -> None:
        """Write what is held, without the last operation: there may be more of it."""
        table = pa.concat_tables(self._held)
        op = table["op"].to_numpy()
        ends = np.flatnonzero((op[1:] != op[:-1]) | (op[1:] < 0))
        if not len(ends):
            return
        end = int(ends[-1]) + 1
        self._write(table.slice(0, end))
        self._held = [table.slice(end).combine_chunks()]
        self._size = self._held[0].nbytes

    def _write(self, rows: pa.Table) -> None:
        with self._written():
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self._parent.absolute()))
            place = self._folder / f"{len(self._pieces):04}.arrows"
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, SCHEMA, options=_WRITTEN) as writer:
                writer.write_table(rows.unify_dictionaries().combine_chunks())
            data = sink.getvalue()
            with guarded.created(place) as file:
                file.write(data)
        first_index = rows["index"][0].as_py() if rows.num_rows else 0
        self._pieces.append(Piece(str(place), first_index, rows.num_rows, sum_of(memoryview(data))))

    @contextmanager
    def _written(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise MachineError(f"cannot write the rows in {self._parent}: {error.strerror or error}") from error
