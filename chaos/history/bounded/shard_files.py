"""Shards that nobody here has just written: measured before they are decoded, and counted while they are."""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chaos import guarded
from chaos.errors import BadInput, DamagedHistory
from chaos.history.bounded import pages
from chaos.history.bounded.messages import Extent
from chaos.history.columns import BESIDE, COLUMNS, INTEGERS, REPEATED, VALUE, WORDS
from chaos.history.stream import SCHEMA

#: What the rows of shards may take in memory where all of them have to be held: some fifteen million rows.
MOST_HELD = 2 << 30
#: Rows of a shard that are decoded together, and what these may take.
BATCH_ROWS, MOST_BATCH = 1 << 16, 1 << 30
#: What a page may take; ours take a mebibyte, unless one value is larger.
MOST_PAGE = 256 << 20
#: The description at the end of a file; ours take some kilobytes.
LARGEST_FOOTER = 64 << 20
#: What a number takes; the number of a text takes less.
WIDTH = 8
_MAGIC = b"PAR1"
#: Columns by how they may be stored. What is not a text has eight bytes.
_NUMBERS, _TEXTS = ("INT32", "INT64", "BOOLEAN"), ("BYTE_ARRAY",)


def measured(path: Path) -> Extent:
    """Return the rows of a shard, and what its pages take once they are decompressed, and its rows as columns, with
    each text once. Raises :class:`BadInput` for what is no regular file, or is larger than anything that is read,
    :class:`DamagedHistory` for what is no shard."""
    with guarded.opened(path, guarded.LARGEST_STREAM) as file:
        try:
            return _measured(path, file.fileno())
        except MemoryError:
            raise
        except (pa.ArrowException, ValueError, OSError) as error:
            raise DamagedHistory(f"{path} is no shard of a history: {error}") from error


def _measured(path: Path, handle: int) -> Extent:
    whole = os.fstat(handle).st_size
    tail = os.pread(handle, 8, max(0, whole - 8))
    if whole < 12 or tail[4:] != _MAGIC:
        raise ValueError("it does not end as a Parquet file does")
    (footer,) = struct.unpack("<I", tail[:4])
    if footer > min(LARGEST_FOOTER, whole):
        raise ValueError(f"its footer has {footer:,} bytes; at most {LARGEST_FOOTER:,} are read")
    metadata = pq.read_metadata(path)
    _check_columns(metadata)
    rows = size = count = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.num_rows < 0:
            raise ValueError("a number of rows is negative")
        rows += group.num_rows
        for place in range(metadata.num_columns):
            column = group.column(place)
            is_text = column.physical_type in _TEXTS
            for page in pages.pages(handle, _begin(column), column.total_compressed_size):
                count += 1
                size += page.size
                _check_page(path, page, count, is_text=is_text)
    if rows != metadata.num_rows:
        raise ValueError(f"it has {rows} rows, and says that they are {metadata.num_rows}")
    return Extent(rows, size + rows * WIDTH * metadata.num_columns)


def _check_page(path: Path, page: pages.Page, count: int, *, is_text: bool) -> None:
    if page.size > MOST_PAGE:
        raise BadInput(f"{path} has a page that becomes {page.size:,} bytes; at most {MOST_PAGE:,} are read")
    if count > pages.MOST_PAGES:
        raise BadInput(f"{path} has more than {pages.MOST_PAGES:,} pages, which is all that are read")
    if is_text and page.encoding not in (-1, *pages.PLAIN_TEXTS):
        raise ValueError(f"its texts are stored in the encoding {page.encoding}, which nobody here writes")


def _check_columns(metadata: pq.FileMetaData) -> None:
    for place in range(metadata.num_columns):
        column = metadata.schema.column(place)
        stored = _NUMBERS if column.path in (*INTEGERS, BESIDE) else _TEXTS
        if column.path not in (*COLUMNS, BESIDE) or column.physical_type not in stored or column.max_repetition_level:
            raise ValueError(f"it has a column {column.path!r} ({column.physical_type}), which no history has")


def _begin(column: pq.ColumnChunkMetaData) -> int:
    """Where the pages of a column begin, as the decoder takes it."""
    begin, dictionary = int(column.data_page_offset), column.dictionary_page_offset
    return min(begin, int(dictionary)) if column.has_dictionary_page and dictionary else begin


class Budget:
    """What may still be held of decoded rows. ``what``: whose they are."""

    def __init__(self, what: Path, most: int = MOST_HELD) -> None:
        self._what = what
        self._most = self._left = most

    def take(self, size: int) -> None:
        """Take so many bytes. Raises :class:`BadInput` when nothing is left."""
        self._left -= size
        if self._left < 0:
            raise BadInput(
                f"{self._what}: its rows take more than {self._most:,} bytes when they are decoded, and no more is held"
                " of shards without the history that they were made of"
            )


def repeats(path: Path) -> bool:
    """Return whether the rows of a measured shard repeat what began them, as those of formats 1 and 2 don't."""
    return set(REPEATED) <= set(pq.read_metadata(path).schema.names)


def batches(path: Path, columns: Collection[str] = COLUMNS, budget: Budget | None = None) -> Iterator[pa.Table]:
    """Yield the rows of a measured shard with these columns, as a history has them, some at a time; what they take is
    taken from the budget before it is. Raises what pyarrow does for what is no shard, ``KeyError`` for a column that it
    lacks."""
    schema = pa.schema([SCHEMA.field(name) for name in COLUMNS if name in columns])
    file = pq.ParquetFile(path, read_dictionary=[*WORDS, VALUE], page_checksum_verification=True)
    with file:
        if missing := set(schema.names) - set(file.schema_arrow.names):
            raise KeyError(f"it has no column {', '.join(sorted(missing))}")
        for batch in file.iter_batches(BATCH_ROWS, columns=schema.names, use_threads=False):
            batch.validate(full=True)
            size = _plain_size(batch)
            (budget or Budget(path, MOST_BATCH)).take(size)
            table = pa.Table.from_batches([batch]).select(schema.names)
            yield pa.table([_filled(name, table[name]) for name in schema.names], schema.names).cast(schema)


def _filled(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column with what stands for nothing in a history, where a stranger's row has none. Raises ``ValueError``
    for a row without a number."""
    if not column.null_count:
        return column
    if name == "index":
        raise ValueError("a row has no number")
    if name in INTEGERS:
        return pc.fill_null(column, -1)
    texts = pc.fill_null(column.cast(pa.string()), "")
    return texts.dictionary_encode() if name in WORDS else texts


def _plain_size(batch: pa.RecordBatch) -> int:
    """Return what a batch takes as a history's columns, in which each row has its own ``value``."""
    size = batch.num_rows * WIDTH * batch.num_columns
    if VALUE not in batch.schema.names or not batch.num_rows:
        return size
    values = batch[VALUE]
    if not pa.types.is_dictionary(values.type):
        return size + int(values.nbytes)
    lengths = pc.binary_length(values.dictionary).cast(pa.int64())
    return size + int(pc.sum(lengths.take(values.indices)).as_py() or 0)
