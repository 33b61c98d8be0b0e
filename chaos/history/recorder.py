"""Writes the rows of a run as they happen, and reads them back as far as they are sound.

``docs/history.md`` defines the format. What was flushed survives a kill of this process: batches are plain writes, and
each is sealed by a line of the run's manifest that is written after it.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from chaos import guarded
from chaos.errors import DamagedHistory, MachineError
from chaos.history import manifest
from chaos.history.columns import COLUMNS, INTEGERS, VALUE, WORDS, Kind
from chaos.history.digests import digest as digest
from chaos.history.directory import SHARDS, refuse_newer, shard_files
from chaos.history.manifest import Batch, Manifest, Sealed, Sum
from chaos.history.stream import SCHEMA as SCHEMA
from chaos.history.stream import STREAM as STREAM
from chaos.history.stream import stream_blocks
from chaos.history.traces import trace_blocks
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


def read_rows(
    directory: Path, sealed: Sealed | None = None, keep: Callable[[pa.Table], Any] | None = None
) -> tuple[pa.Table, list[str]]:
    """All sound rows of a run in ``index`` order, and one sentence for each damage met. ``sealed``: its manifest, if
    that was read already. ``keep``: says of some rows (an array of booleans) which ones are wanted; the others are
    looked at for damage, and never held all at once.

    Reads ``history.arrows`` up to its first bad batch, then the traces of nodes that were processes; without a stream,
    the Parquet shards. Raises :class:`DamagedHistory` when nothing at all can be read, :class:`BadInput` when there is
    no regular file of a size to read, its rows would be too large once they are decoded, or a newer version has
    recorded the run.
    """
    refuse_newer(directory)
    sealed = manifest.read(directory) if sealed is None else sealed
    damage: list[str] = []
    blocks: list[pa.Table] = []
    rows, in_order = 0, True
    try:
        most = None if keep else guarded.LARGEST_ROWS
        for block in row_blocks(directory, sealed, damage, most=most):
            if keep is not None:
                numbers = np.arange(rows, rows + block.num_rows)
                in_order = in_order and bool(np.array_equal(block["index"].to_numpy(), numbers))
                rows += block.num_rows
                block = block.filter(keep(block))
            blocks.append(block)
    except FileNotFoundError:
        table, damage = _numbered(*_read_shards(directory, sealed))
        return table if keep is None else table.filter(keep(table)), damage
    if not in_order:
        table, damage = read_rows(directory, sealed)
        return table.filter(keep(table)) if keep else table, damage
    table = pa.concat_tables(blocks).unify_dictionaries().combine_chunks()
    return _numbered(table, damage) if keep is None else (table, damage)


def row_blocks(directory: Path, sealed: Sealed, damage: list[str], *, most: int | None = None) -> Iterator[pa.Table]:
    """Yield the recorded rows of a run, then the traces of nodes that were processes, some at a time: at least one
    block, as they are numbered in the stream. Raises as :func:`chaos.history.stream.stream_blocks`, also for a stream
    of more than ``most`` bytes (or, without it, of gigabytes that were not sealed)."""
    rows = 0
    for block in stream_blocks(directory, sealed, damage, most):
        rows += block.num_rows
        yield block
    yield from trace_blocks(directory, rows, sealed, damage)


def _numbered(table: pa.Table, damage: list[str]) -> tuple[pa.Table, list[str]]:
    """Rows are numbered from 0 on, without a gap: the second of one number is left out, a missing one is reported."""
    index = table["index"].to_numpy()
    if bool(np.array_equal(index, np.arange(len(index)))):
        return table, damage
    numbers, first = np.unique(index, return_index=True)
    if len(first) < len(index):
        damage = [*damage, f"{len(index) - len(first)} rows stand there more than once; the first of each is taken"]
    if not np.array_equal(first, np.arange(len(index))):
        table = table.take(pa.array(first))
    missing = int(numbers[-1]) + 1 - len(numbers) + int(numbers[0] < 0)
    if missing:
        damage = [*damage, f"{missing} rows are missing between the others"]
    return table, damage


def _read_shards(directory: Path, sealed: Sealed) -> tuple[pa.Table, list[str]]:
    from chaos.history.bounded.shard_files import Budget, batches, measured  # late: few read shards here

    paths = shard_files(directory)
    if not paths:
        raise DamagedHistory(f"{directory} holds no history: neither {STREAM} nor {SHARDS}/*.parquet")
    in_manifest = {name for name in sealed.files if name.startswith(f"{SHARDS}/")}
    names = sorted(in_manifest | {*paths})
    if problems := [problem for name in names if (problem := manifest.altered(directory, sealed, name))]:
        raise DamagedHistory("; ".join(problems))
    promised, held = Budget(directory / SHARDS), Budget(directory / SHARDS)
    for name in paths:
        promised.take(measured(directory / name).size)
    tables = [SCHEMA.empty_table()]
    for name in paths:
        try:
            tables += batches(directory / name, budget=held)
        except (pa.ArrowException, KeyError, ValueError, OSError) as error:
            raise DamagedHistory(f"{directory / name} is no shard of a history: {error}") from error
    table = pa.concat_tables(tables).unify_dictionaries().combine_chunks().sort_by("index")
    damage = [f"{STREAM} is missing; the shards that were made of it stand in for it"] if sealed.batches else []
    if len(paths) == 1:
        return table, damage
    index = table["index"].to_numpy()  # rows that every shard repeats come once
    again = index[1:] == index[:-1]
    other = again & np.any([np.diff(table[name].to_numpy()) != 0 for name in INTEGERS], axis=0)
    damage += [f"{int(other.sum())} rows stand in two shards with different contents"] if other.any() else []
    return table.filter(pa.array(np.append(True, ~again)[: table.num_rows])), damage
