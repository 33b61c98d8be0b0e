"""Writes the rows of a run as they happen.

``docs/history.md`` defines the format. What was flushed survives a kill of this process: batches are plain writes, and
each is sealed by a line of the run's manifest that is written after it.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from chaos.errors import MachineError
from chaos.history.columns import COLUMNS, INTEGERS, VALUE, WORDS, Kind
from chaos.history.manifest import Batch, Manifest, Sum
from chaos.history.stream import SCHEMA as SCHEMA
from chaos.history.stream import STREAM as STREAM
from chaos.history.values import to_json

#: When the next row comes, a batch is written that has this many rows, or whose oldest row is this old.
BATCH_ROWS = 500
BATCH_NS = 100_000_000

#: What a trace row says of what it doesn't mention; and its columns between the time and the value.
_EMPTY_TRACE: Mapping[str, Any] = {
    **dict.fromkeys(INTEGERS, -1), **dict.fromkeys(WORDS, ""), VALUE: None, "kind": Kind.TRACE
}  # fmt: skip
_OP = COLUMNS.index("op")
_between = itemgetter(*COLUMNS[2:-1])


class _Tee:
    """The file that pyarrow writes its stream to; adds up length and CRC of what passes."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.length = 0
        self.crc = 0

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._file.write(view)
        self.length += view.nbytes
        self.crc = zlib.crc32(view, self.crc)
        return view.nbytes

    def flush(self) -> None: ...

    def writable(self) -> bool:
        return True

    def take(self) -> Sum:
        taken = Sum(self.length, self.crc)
        self.length = self.crc = 0
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
        self._oldest_ns = 0
        self._next = 0
        self._offset = 0
        self._closed = False
        self._directory = directory
        self._error: MachineError | None = None
        try:
            self._file = (directory / STREAM).open("xb", buffering=0)
            self._manifest = Manifest(directory)
            self._tee = _Tee(self._file)
            self._writer = pa.ipc.new_stream(self._tee, SCHEMA, options=pa.ipc.IpcWriteOptions(compression="lz4"))
            self._writer.write_batch(pa.RecordBatch.from_pylist([], schema=SCHEMA))  # brings the schema with it
            self._seal(0)
        except OSError as error:
            raise _machine_error(directory, error) from error

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
        """Take one row and return its index. Raises :class:`MachineError` when the disk is full: rows that were
        flushed before stay readable, and no further batch is written."""
        return self._take(
            (self._next, time_ns if time_ns >= 0 else self._now_ns(), op, incarnation, step, epoch, queue, offset,
             position, message, hash, kind, type, f, process, node, to_json(value) if value else "")
        )  # fmt: skip

    def record_trace(self, row: Mapping[str, Any]) -> int:
        """Take one trace row as a deployment hands it out; its keys are column names. Most rows of a simulated run
        come this way."""
        whole = {**_EMPTY_TRACE, **row}
        value, time_ns = whole[VALUE], whole["time_ns"]
        if time_ns < 0:
            time_ns = self._now_ns()
        return self._take((self._next, time_ns, *_between(whole), to_json(value) if value else ""))

    def _take(self, row: tuple[Any, ...]) -> int:
        index, time_ns = row[0], row[1]
        self._next = index + 1
        rows = self._rows
        is_due = len(rows) >= self._batch_rows or (
            self._batch_ns is not None and time_ns - self._oldest_ns >= self._batch_ns
        )
        if is_due and rows and not _are_one(rows[-1], row):
            self.flush()
            rows = self._rows
        if not rows:
            self._oldest_ns = time_ns
        rows.append(row)
        return index

    def flush(self) -> None:
        """Hand all rows so far to the operating system. Raises :class:`MachineError` like :meth:`record`."""
        if self._error is not None:
            raise self._error
        if not self._rows or self._closed:
            return
        rows, self._rows = self._rows, []
        try:
            self._writer.write_batch(_batch(rows))
            self._seal(len(rows))
        except OSError as error:
            self._error = _machine_error(self._directory, error)
            raise self._error from error
        except MachineError as error:
            self._error = error
            raise

    def _seal(self, rows: int) -> None:
        if not os.fstat(self._file.fileno()).st_nlink:  # nobody would ever find what goes on being written
            raise MachineError(f"{self._directory / STREAM} was deleted while the run went on, so the run ends here")
        checksum = self._tee.take()
        self._manifest.batch(Batch(self._offset, checksum, rows))
        self._offset += checksum.length

    def close(self) -> None:
        """Flush and close; idempotent, and silent about an error that was raised before. The stream gets no end mark:
        its length stands in the side file."""
        if self._closed:
            return
        try:
            if self._error is None:
                self.flush()
        finally:
            self._closed = True
            self._file.close()
            self._manifest.close()


def _are_one(row: tuple[Any, ...], following: tuple[Any, ...]) -> bool:
    """Return whether both are of one operation. Such rows stand in one batch: an answer whose messages went with the
    process that recorded them would read as an empty answer."""
    return bool(row[_OP] == following[_OP] >= 0)


def _machine_error(directory: Path, error: OSError) -> MachineError:
    return MachineError(
        f"cannot write the history in {directory}: {error.strerror or error}; what was recorded before is kept"
        " (free some space, or choose another folder with --out)"
    )


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True))
    words_end = len(INTEGERS) + len(WORDS)
    arrays = [pa.array(column, pa.int64()) for column in columns[: len(INTEGERS)]]
    arrays += [pa.array(column, pa.string()).dictionary_encode() for column in columns[len(INTEGERS) : words_end]]
    arrays.append(pa.array(columns[words_end], pa.string()))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
