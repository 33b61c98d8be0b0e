"""Writes the rows of a run as they happen.

``docs/history.md`` defines the format. What was flushed survives a kill of this process: batches are plain writes, and
each is sealed by a line of the run's manifest that is written after it. Each segment of the stream is an Arrow stream
of its own, and is sealed as a whole when it is complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa

from chaos.errors import MachineError
from chaos.history import segments
from chaos.history.columns import GIVEN, INTEGERS, REPEATED, VALUE, WORDS, Kind
from chaos.history.manifest import Batch, Manifest, Sum, sum_of
from chaos.history.segments import are_one
from chaos.history.stream import SCHEMA as SCHEMA
from chaos.history.stream import STREAM as STREAM
from chaos.history.values import to_json
from chaos.ops import DELIVERED, OpType

#: When the next row comes, a batch is written that has this many rows, or whose oldest row is this old.
BATCH_ROWS = 500
BATCH_NS = 100_000_000

#: What a trace row says of what it doesn't mention; and its columns between the time and the value.
_EMPTY_TRACE: Mapping[str, Any] = {
    **dict.fromkeys(INTEGERS, -1), **dict.fromkeys(WORDS, ""), VALUE: None, "kind": Kind.TRACE
}  # fmt: skip
_OP = GIVEN.index("op")
_between = itemgetter(*GIVEN[2:-1])
_OPERATION, _BEGINS = str(Kind.OP), str(OpType.INVOKE)
#: Batches are small: handing them to threads would take longer than compressing them.
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
#: How many columns of whole numbers a row brings itself.
_OWN_INTEGERS = len(INTEGERS) - len(REPEATED)


class _Begun(NamedTuple):
    """What the end of an operation repeats of its beginning. ``same``: its columns of
    :data:`chaos.history.ends.SAME` that it may have otherwise than its end; None where it has others besides."""

    f: str
    time_ns: int
    offset: int
    value: Mapping[str, Any] | None
    text: str
    same: tuple[Any, ...] | None


class _End(NamedTuple):
    """Where among the rows of a batch an operation ends, and what it repeats of its beginning."""

    place: int
    began_ns: int
    began_offset: int
    began_value: int


class _Tee:
    """What pyarrow writes its streams to: holds a batch until it is whole, and adds up the segment that it belongs
    to."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._parts: list[bytes] = []
        self._segment = Sum(0, 0)

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        return len(part)

    def flush(self) -> None: ...

    def writable(self) -> bool:
        return True

    def write_batch(self) -> Sum:
        """Write the batch into the file; return its sum. Raises ``OSError``."""
        data = b"".join(self._parts)
        self._parts.clear()
        self._segment = self._segment.followed_by(data)
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]
        return sum_of(data)

    def take_segment(self) -> Sum:
        taken, self._segment = self._segment, Sum(0, 0)
        return taken


class Recorder:
    """The one writer of a run's rows. Not thread-safe: rows come from one event loop.

    ``now_ns`` is the clock of rows that carry no time of their own. ``batch_ns=None`` flushes by number of rows only,
    for simulated runs: they can be repeated, so nothing is lost with the process.
    """

    def __init__(
        self,
        directory: Path,
        now_ns: Callable[[], int],
        *,
        batch_rows: int = BATCH_ROWS,
        batch_ns: int | None = BATCH_NS,
    ) -> None:
        self._now_ns = now_ns
        self._batch_rows = batch_rows
        self._batch_ns = batch_ns
        self._rows: list[tuple[Any, ...]] = []
        self._ends: list[_End] = []
        self._begun: dict[int, _Begun] = {}
        self._oldest_ns = 0
        self._next = self._offset = 0
        self._begin = self._segment_rows = self._full = 0
        self._last_op = -1
        self._closed = False
        self._directory = directory
        self._error: MachineError | None = None
        try:
            self._file = (directory / STREAM).open("xb", buffering=0)
            self._manifest = Manifest(directory)
        except OSError as error:
            raise _machine_error(directory, error) from error
        self._tee = _Tee(self._file)
        self._begin_segment()

    def __len__(self) -> int:
        return self._next

    def record(
        self,
        kind: str,
        *,
        time_ns: int = -1,
        op: int = -1,
        incarnation: int = -1,
        step: int = -1,
        epoch: int = -1,
        queue: int = -1,
        offset: int = -1,
        position: int = -1,
        message: int = -1,
        hash: int = -1,
        type: str = "",
        f: str = "",
        process: str = "",
        node: str = "",
        value: Mapping[str, Any] | None = None,
    ) -> int:
        """Take one row and return its index. The row that ends an operation gets what it repeats of its beginning.
        Raises :class:`MachineError` when the disk is full: rows that were flushed before stay readable, and no further
        batch is written."""
        if time_ns < 0:
            time_ns = self._now_ns()
        begun = None
        if kind == _OPERATION and type != _BEGINS and op >= 0 and f != DELIVERED:
            begun = self._ended(op, f)
            if begun is not None and begun.value:
                value = {**begun.value, **value} if value else begun.value
        text = to_json(value) if value else ""
        if kind == _OPERATION and type == _BEGINS:
            is_plain = op == incarnation == step == epoch == position == -1 and not node
            same = (process, queue, message, hash) if is_plain else None
            self._begun[self._next] = _Begun(f, time_ns, offset, value, text, same)
        index = self._take(
            (self._next, time_ns, op, incarnation, step, epoch, queue, offset, position, message, hash, kind, type, f,
             process, node, text)
        )  # fmt: skip
        if begun is not None:
            is_whole = begun.same == (process, queue, message, hash) and text.startswith(begun.text[:-1])
            length = len(begun.text) if is_whole else -1
            self._ends.append(_End(len(self._rows) - 1, begun.time_ns, begun.offset, length))
        return index

    def _ended(self, op: int, f: str) -> _Begun | None:
        """Return what began the operation that ends now; None where nothing did that we know."""
        begun = self._begun.get(op)
        if begun is None or begun.f != f:
            return None
        del self._begun[op]
        return begun

    def record_trace(self, row: Mapping[str, Any]) -> int:
        """Take one trace row as a deployment hands it out; its keys are column names. Most rows of a simulated run
        come this way."""
        whole = {**_EMPTY_TRACE, **row}
        value, time_ns = whole[VALUE], whole["time_ns"]
        if time_ns < 0:
            time_ns = self._now_ns()
        return self._take((self._next, time_ns, *_between(whole), to_json(value) if value else ""))

    def _take(self, row: tuple[Any, ...]) -> int:
        index, time_ns, rows = row[0], row[1], self._rows
        is_due = (
            index >= self._full
            or len(rows) >= self._batch_rows
            or (self._batch_ns is not None and time_ns - self._oldest_ns >= self._batch_ns)
        )
        if is_due and not are_one(rows[-1][_OP] if rows else self._last_op, row[_OP]):
            self.flush()
            rows = self._rows
            if index >= self._full:
                self._end_segment()
                self._begin_segment()
        if not rows:
            self._oldest_ns = time_ns
        rows.append(row)
        self._next = index + 1
        return index

    def flush(self) -> None:
        """Hand all rows so far to the operating system. Raises :class:`MachineError` like :meth:`record`."""
        if self._error is not None:
            raise self._error
        if not self._rows or self._closed:
            return
        rows, ends, self._rows, self._ends = self._rows, self._ends, [], []
        self._last_op = rows[-1][_OP]
        with self._noted():
            self._writer.write_batch(_batch(rows, ends))
            self._seal(len(rows))

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Remember what goes wrong while something is written, as :class:`MachineError`."""
        try:
            yield
        except OSError as error:
            self._error = _machine_error(self._directory, error)
            raise self._error from error
        except MachineError as error:
            self._error = error
            raise

    def _begin_segment(self) -> None:
        with self._noted():
            self._begin, self._segment_rows, self._full = self._offset, 0, self._next + segments.SEGMENT_ROWS
            self._writer = pa.ipc.new_stream(self._tee, SCHEMA, options=_OPTIONS)
            self._writer.write_batch(pa.RecordBatch.from_pylist([], schema=SCHEMA))  # brings the schema with it
            self._seal(0)

    def _end_segment(self) -> None:
        with self._noted():
            self._manifest.segment(Batch(self._begin, self._tee.take_segment(), self._segment_rows))

    def _seal(self, rows: int) -> None:
        if not os.fstat(self._file.fileno()).st_nlink:  # nobody would ever find what goes on being written
            raise MachineError(f"{self._directory / STREAM} was deleted while the run went on, so the run ends here")
        checksum = self._tee.write_batch()
        self._manifest.batch(Batch(self._offset, checksum, rows))
        self._offset += checksum.length
        self._segment_rows += rows

    def close(self) -> None:
        """Flush and close; idempotent, and silent about an error that was raised before. Segments get no end mark: the
        manifest says where they end."""
        if self._closed:
            return
        try:
            if self._error is None:
                self.flush()
                self._end_segment()
        finally:
            self._closed = True
            self._file.close()
            self._manifest.close()


def _machine_error(directory: Path, error: OSError) -> MachineError:
    return MachineError(
        f"cannot write the history in {directory}: {error.strerror or error}; what was recorded before is kept"
        " (free some space, or choose another folder with --out)"
    )


def _batch(rows: list[tuple[Any, ...]], ends: list[_End]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True))
    words_end = _OWN_INTEGERS + len(WORDS)
    arrays = [pa.array(column, pa.int64()) for column in columns[:_OWN_INTEGERS]]
    repeated = np.full((len(REPEATED), len(rows)), -1, np.int64)
    if ends:
        place, *found = (np.array(column, np.int64) for column in zip(*ends, strict=True))  # faster than of pairs
        repeated[:, place] = found
    arrays += [pa.array(column) for column in repeated]
    arrays += [pa.array(column, pa.string()).dictionary_encode() for column in columns[_OWN_INTEGERS:words_end]]
    arrays.append(pa.array(columns[words_end], pa.string()))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
