"""Reads the stream of a run's recorded rows, some batches at a time: only what its manifest vouches for."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from chaos import guarded
from chaos.errors import BadInput, DamagedHistory
from chaos.history import manifest, stored
from chaos.history.beginnings import Beginnings
from chaos.history.bounded.messages import MOST_BATCH, extent
from chaos.history.columns import COLUMNS, GIVEN, INTEGERS, VALUE, WORDS
from chaos.history.manifest import Batch, Sealed, Sum

STREAM = "history.arrows"
_WORD = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [pa.field(name, pa.int64()) for name in INTEGERS]
    + [pa.field(name, _WORD) for name in WORDS]
    + [pa.field(VALUE, pa.string())]
)
_FORMER = pa.schema([SCHEMA.field(name) for name in GIVEN])
#: Batches are small: handing them to threads would take longer than decoding them.
_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)
#: Batches are handed on once they have so many rows together, or take so many bytes.
BLOCK_ROWS, BLOCK_BYTES = 1 << 17, 256 << 20
#: No history has more rows than this.
MOST_ROWS = 1 << 32
#: What a number takes; the number of a text takes less.
_WIDTH = 8


def stream_blocks(directory: Path, sealed: Sealed, damage: list[str], most: int | None = None) -> Iterator[pa.Table]:
    """Yield the recorded rows of a run, up to its first bad batch; ``damage`` gets a sentence for each damage met.

    Raises ``FileNotFoundError`` when there is no stream, :class:`DamagedHistory` when nothing can be read, also after
    some blocks, and :class:`chaos.errors.BadInput` when there is no regular file of a size to read, or what it holds
    would be too large once it is decoded.
    """
    with guarded.opened(directory / STREAM, most or manifest.largest([sealed.stream_bytes])) as file:
        if not sealed.batches:
            raise DamagedHistory(f"{directory / manifest.FILE} seals no batch: nothing vouches for {STREAM}")
        sound = _Sound(file, sealed, damage)
        if not sound.next_segment():
            raise DamagedHistory("; ".join(damage) or f"{directory / STREAM} is empty")
        rows, beginnings, is_more = 0, Beginnings(), True
        while is_more:
            try:
                for block in _segment(sound, directory / STREAM, beginnings):
                    rows += block.num_rows
                    if rows > MOST_ROWS:
                        raise BadInput(f"{directory / STREAM} has more than {MOST_ROWS:,} rows; no more are read")
                    yield block
            except MemoryError:
                raise
            except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # names of columns are any bytes
                raise DamagedHistory(f"{directory / STREAM} is no Arrow stream: {error}") from error
            is_more = sound.next_segment()
        if rows != sound.rows:
            damage.append(f"{STREAM}: {rows} rows where {manifest.FILE} promises {sound.rows}")


def _segment(sound: _Sound, path: Path, beginnings: Beginnings) -> Iterator[pa.Table]:
    """Yield the rows of the segment that is read now, with all columns."""
    with pa.ipc.open_stream(pa.PythonFile(sound, "r"), options=_OPTIONS) as reader:
        if reader.schema not in (SCHEMA, _FORMER):
            raise DamagedHistory(f"{path} has other columns than a history: {_columns(reader)}")
        for block in _blocks(reader):
            yield block if reader.schema == SCHEMA else beginnings.repeat(block).cast(SCHEMA)


def _columns(reader: pa.RecordBatchStreamReader) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in reader.schema)[:200]


def _blocks(reader: pa.RecordBatchStreamReader) -> Iterator[pa.Table]:
    """Yield at least one block."""
    batches: list[pa.RecordBatch] = []
    rows = size = count = 0
    for batch in reader:
        batch.validate(full=True)  # else an offset beyond its buffer would be followed
        batches.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= BLOCK_ROWS or size >= BLOCK_BYTES:
            yield _block(batches, reader.schema)
            batches, rows, size, count = [], 0, 0, count + 1
    if rows or not count:
        yield _block(batches, reader.schema)


def _block(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches, schema).unify_dictionaries().combine_chunks()


class _Sound:
    """A file of the bytes of one segment after the other that a manifest vouches for; the last one ends before the
    first batch that isn't what was sealed. ``rows``: how many rows the batches promise that were read. The first batch
    that would become too large once it is decoded is refused (:class:`BadInput`).
    """

    closed = False

    def __init__(self, file: BinaryIO, sealed: Sealed, damage: list[str]) -> None:
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        self._batches = sealed.batches
        self._damage = damage
        self._number = self._segment_end = 0
        self._segments, self._segment = iter(sealed.segments), Batch(0, Sum(0, 0), 0)
        self._end = 0
        self._left = memoryview(b"")
        self._sealed = sealed
        self._elsewhere: bytes | None = None
        self.rows = 0

    def next_segment(self) -> bool:
        """Go on to the next segment; return whether there are bytes of one. What was not read of the one before is
        looked at: an end mark ends its rows, not what was sealed."""
        while self._fill():
            self._left = memoryview(b"")
        self._segment = Batch(self._end, Sum(0, 0), 0)
        later = range(self._number + 1, len(self._batches))
        self._segment_end = next((number for number in later if not self._batches[number].rows), len(self._batches))
        return self._fetch() and self._fill()

    def _fetch(self) -> bool:
        """Fetch the segment that is read now, if it stands elsewhere; return whether it can be read."""
        sums = [one.sum for one in self._sealed.segments if one.offset == self._end]
        try:
            self._elsewhere = stored.fetch(self._sealed, STREAM, self._end, sums[-1]) if sums else None
        except DamagedHistory as error:
            self._damage.append(f"{STREAM}: {error}; it and all later rows are left out")
            self._number = len(self._batches)
            return False
        return True

    def _bytes(self, batch: Batch) -> bytes:
        length = batch.sum.length
        if self._elsewhere is None:
            return self._file.read(length)
        begin = batch.offset - self._segment.offset
        self._file.seek(length, os.SEEK_CUR)
        return self._elsewhere[begin : begin + length]

    def _fill(self) -> bool:
        """Return whether there are bytes to be read of this segment."""
        while not self._left and self._number < self._segment_end:
            batch = self._batches[self._number]
            data = self._bytes(batch) if self._begins(batch) else b""
            if problem := self._problem(batch, data):
                self._damage.append(f"{STREAM}: batch {self._number} {problem}; it and all later rows are left out")
                self._number = len(self._batches)
                return False
            self._left = memoryview(data)
            self._number += 1
            self._end += batch.sum.length
            self.rows += batch.rows
            offset, checksum, rows = self._segment
            self._segment = Batch(offset, checksum.followed_by(data), rows + batch.rows)
            if self._number == self._segment_end and next(self._segments, self._segment) != self._segment:
                self._damage.append(f"{STREAM}: the segment that ends with batch {self._number - 1} is another one")
            if self._number == len(self._batches) and self._size > self._end:
                self._damage.append(
                    f"{STREAM}: {self._size - self._end} bytes at the end are not vouched for; they are left out"
                )
        return bool(self._left)

    def _begins(self, batch: Batch) -> bool:
        return batch.offset == self._end and 0 <= batch.sum.length <= self._size - self._end

    def _problem(self, batch: Batch, data: bytes) -> str:
        """Return what is wrong with a batch, which should begin where the last one ended; "" if nothing."""
        length = batch.sum.length
        if batch.offset != self._end or length < 0:
            return f"begins at {batch.offset}, expected {self._end}"
        if len(data) < length:
            return f"is cut off ({self._size - self._end} of {length} bytes)"
        if zlib.crc32(data) != batch.sum.crc:
            return "has a wrong checksum"
        return self._undecodable(data)

    def _undecodable(self, data: bytes) -> str:
        """Return why a batch isn't decoded; "" if it may be."""
        try:
            found = extent(data)
        except ValueError as error:
            return f"is no batch of rows: {error}"
        size = max(found.size, found.rows * _WIDTH * len(COLUMNS))
        if size > MOST_BATCH:
            raise BadInput(f"{STREAM}: batch {self._number} becomes {size:,} bytes; at most {MOST_BATCH:,} are decoded")
        return ""

    def read(self, most: int = -1) -> bytes:
        parts: list[bytes | memoryview] = []
        while most != 0 and self._fill():
            part = self._left if most < 0 else self._left[:most]
            self._left = self._left[len(part) :]
            most = most - len(part) if most > 0 else most
            parts.append(part)
        return b"".join(parts)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def flush(self) -> None: ...

    def close(self) -> None: ...
