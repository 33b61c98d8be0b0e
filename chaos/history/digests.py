"""The digest of a run: the same for two runs that saw the same. ``docs/history.md`` defines it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chaos.history.columns import COLUMNS, INTEGERS, Kind
from chaos.history.spool import Spool

#: The kinds of rows that the digest of a run covers: what was asked, answered, observed and injected.
DIGESTED = (Kind.OP, Kind.POLL, Kind.FINAL, Kind.FAULT)

#: How many bits are set in each byte.
_ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.int64)


def digest(table: pa.Table) -> str:
    """SHA-256 over the operation, observation and fault rows: the same for two runs that saw the same.

    Covers, column by column, all but ``index`` of the rows whose kind is in :data:`DIGESTED`; ``op`` counts as the
    number of the row among these rows, so that trace rows don't matter. Integers are little-endian 64 bit; a column of
    texts is its lengths in bytes as such integers, then its UTF-8.
    """
    chosen = _chosen(table)
    rank = pc.index_in(chosen["op"], chosen["index"].combine_chunks()).fill_null(-1).cast(pa.int64())
    sha = hashlib.sha256()
    for name in COLUMNS[1:]:
        column = rank if name == "op" else chosen[name]
        for part in [_numbers(column)] if name in INTEGERS else _lengths_and_texts(column):
            sha.update(part)
    return sha.hexdigest()


def digest_of(rows: Spool) -> str:
    """:func:`digest` of rows that are numbered from 0 on, in order. Of many rows, only one column of a block is in
    memory at a time, and a few bits a row."""
    table = rows.whole()
    if table is not None:
        return digest(table)
    sha = hashlib.sha256()
    ranks = _Ranks(rows)
    for name in COLUMNS[1:]:
        if name in INTEGERS:
            for column in _column(rows, ranks, name):
                sha.update(ranks.of(column) if name == "op" else _numbers(column))
        else:
            for place in (0, 1):  # all lengths stand before all texts
                for column in _column(rows, ranks, name):
                    sha.update(_lengths_and_texts(column)[place])
    return sha.hexdigest()


def _column(rows: Spool, ranks: _Ranks, name: str) -> Iterator[pa.ChunkedArray]:
    begin = 0
    for block in rows.blocks({name}):
        end = begin + block.num_rows
        yield block[name].filter(pa.array(ranks.chosen(begin, end)))
        begin = end


class _Ranks:
    """The number of each digested row among those rows, by its index: a bit for each row of the run, and how many there
    are before each eight of them."""

    def __init__(self, rows: Spool) -> None:
        self._rows = rows.num_rows
        self._bits = np.packbits(np.concatenate([_mask(block).to_numpy() for block in rows.blocks({"kind"})]))
        self._before = np.cumsum(_ONES[self._bits], dtype=np.int64) - _ONES[self._bits]

    def chosen(self, begin: int, end: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which of the rows between these two are digested."""
        bits = np.unpackbits(self._bits[begin >> 3 : (end + 7) >> 3])
        return bits[begin & 7 : (begin & 7) + end - begin].astype(np.bool_)

    def of(self, column: pa.ChunkedArray) -> bytes:
        """Of the rows with these indices; -1 where there is none."""
        at = column.to_numpy()
        known = (at >= 0) & (at < self._rows)
        at = np.where(known, at, 0)
        bits, place = self._bits[at >> 3], (at & 7).astype(np.uint8)
        rank = self._before[at >> 3] + _ONES[bits & ~(np.uint8(255) >> place)]
        return np.where(known & ((bits >> (7 - place)) & 1 == 1), rank, -1).astype("<i8").tobytes()


def _mask(table: pa.Table) -> pa.ChunkedArray:
    return pc.is_in(table["kind"].cast(pa.string()), pa.array([str(kind) for kind in DIGESTED]))


def _chosen(table: pa.Table) -> pa.Table:
    return table.filter(_mask(table))


def _numbers(column: pa.ChunkedArray) -> bytes:
    return column.to_numpy().astype("<i8").tobytes()


def _lengths_and_texts(column: pa.ChunkedArray) -> tuple[bytes, Any]:
    texts = column.cast(pa.large_string()).combine_chunks()
    if not len(texts):
        return b"", b""
    bounds = np.frombuffer(texts.buffers()[1], "<i8")[texts.offset : texts.offset + len(texts) + 1]
    data = texts.buffers()[2]
    return np.diff(bounds).astype("<i8").tobytes(), b"" if data is None else data[int(bounds[0]) : int(bounds[-1])]
