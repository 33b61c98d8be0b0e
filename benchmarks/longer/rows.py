"""Rows of the stream: those of a recorded run as templates, written with other numbers."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.longer.moving import HASHED, Ints, Moves, Value
from chaos.history.beginnings import Beginnings
from chaos.history.columns import GIVEN, INTEGERS, VALUE, WORDS
from chaos.history.manifest import Batch, Manifest, Sum
from chaos.history.segments import Segments
from chaos.history.stream import SCHEMA, STREAM

#: So many rows are sealed together.
BATCH_ROWS = 5_000
#: Changes the value of a row: its ``f``, its queue, the value.
Change = Callable[[str, int, Value], Value]

_to_json = json.JSONEncoder(separators=(",", ":")).encode


class Stream:
    """Writes the rows of a run, and seals them."""

    closed = False

    def __init__(self, run: Path) -> None:
        self.rows = self._offset = 0
        self._file, self._manifest = (run / STREAM).open("xb"), Manifest(run)
        self._sum = self._whole = Sum(0, 0)
        self._beginnings, self._segments = Beginnings(), Segments()
        self._begin_segment()

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._file.write(view)
        self._sum, self._whole = (
            Sum(one.length + view.nbytes, zlib.crc32(view, one.crc)) for one in (self._sum, self._whole)
        )
        return view.nbytes

    def flush(self) -> None: ...

    def writable(self) -> bool:
        return True

    def add(self, table: pa.Table) -> None:
        self.add_whole(self._beginnings.repeat(table.select(GIVEN)).cast(SCHEMA))

    def add_whole(self, table: pa.Table) -> None:
        """Add rows of which ends repeat their beginnings already."""
        begin = 0
        for end in self._segments.starts(table["op"].to_numpy()):
            self._add(table.slice(begin, end - begin))
            self._end_segment()
            self._begin_segment()
            begin = end
        self._add(table.slice(begin))

    def close(self) -> None:
        self._end_segment()
        self._file.close()
        self._manifest.close()

    def _add(self, table: pa.Table) -> None:
        for begin in range(0, table.num_rows, BATCH_ROWS):
            (batch,) = table.slice(begin, BATCH_ROWS).unify_dictionaries().combine_chunks().to_batches()
            self._writer.write_batch(batch)
            self._seal(batch.num_rows)

    def _begin_segment(self) -> None:
        self._begin, self._first, self._whole = self._offset, self.rows, Sum(0, 0)
        self._writer = pa.ipc.new_stream(self, SCHEMA, options=pa.ipc.IpcWriteOptions(compression="lz4"))
        self._writer.write_batch(pa.RecordBatch.from_pylist([], schema=SCHEMA))
        self._seal(0)

    def _end_segment(self) -> None:
        self._manifest.segment(Batch(self._begin, self._whole, self.rows - self._first))

    def _seal(self, rows: int) -> None:
        self._manifest.batch(Batch(self._offset, self._sum, rows))
        self._offset, self._sum = self._offset + self._sum.length, Sum(0, 0)
        self.rows += rows


class Template:
    """Some rows of a run, in order. An end whose beginning is not among them is an end of none."""

    def __init__(self, table: pa.Table) -> None:
        self._words = [table[name].combine_chunks() for name in WORDS]
        self.numbers: dict[str, Ints] = {name: table[name].to_numpy() for name in INTEGERS}
        self.f = table["f"].to_pylist()
        self._texts = table[VALUE].to_pylist()
        self._values = [json.loads(text) if text else None for text in self._texts]
        self._hashed = np.isin(self.f, HASHED)
        index, op = self.numbers["index"], self.numbers["op"]
        place = np.minimum(np.searchsorted(index, op), max(0, len(index) - 1))
        self._of = np.where((op >= 0) & (index[place] == op), place, -1) if len(index) else op
        self._ends: list[int] | None = None

    def __len__(self) -> int:
        return len(self.f)

    def ends_of(self, rows: list[int]) -> None:
        """From now on these are ends of operations that began at those rows of the stream."""
        self._ends = rows

    def written(self, stream: Stream, moves: Moves, copy: int, more_ns: int = 0, change: Change | None = None) -> None:
        begin = stream.rows
        columns = {**self.numbers, **moves.columns(self.numbers, self._hashed, copy)}
        columns["index"] = begin + np.arange(len(self))
        columns["op"] = np.where(self._of >= 0, begin + self._of, -1)
        if self._ends is not None:
            columns["op"] = np.array(self._ends, dtype=np.int64)
        columns["time_ns"] = columns["time_ns"] + more_ns
        arrays = [pa.array(columns[name], pa.int64()) for name in INTEGERS]
        texts = self._moved(moves, copy, change) if copy or change else self._texts
        stream.add(pa.Table.from_arrays([*arrays, *self._words, pa.array(texts, pa.string())], schema=SCHEMA))

    def _moved(self, moves: Moves, copy: int, change: Change | None) -> list[str]:
        queues, texts = self.numbers["queue"].tolist(), [*self._texts]
        for at, value in enumerate(self._values):
            f = self.f[at]
            if value is not None and (change is not None or any(moves.is_moved(f, name) for name in value)):
                found = moves.value(f, value, queues[at], copy)
                texts[at] = _to_json(found if change is None else change(f, queues[at], found))
        return texts
