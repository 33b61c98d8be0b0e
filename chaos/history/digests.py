"""The digest of a run: the same for two runs that saw the same. ``docs/history.md`` defines it."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa

from chaos.history.columns import COLUMNS, INTEGERS, Kind
from chaos.history.parted.words import among
from chaos.history.segments import Segments

#: The kinds of rows that the digest of a run covers: what was asked, answered, observed and injected.
DIGESTED = (Kind.OP, Kind.POLL, Kind.FINAL, Kind.FAULT)
#: The columns that it covers: not the numbers of rows, so that trace rows don't matter. Which operation an end belongs
#: to follows from its process, which has one at a time, and from what the end repeats.
_COVERED = tuple(name for name in COLUMNS if name not in ("index", "op"))


class Digest:
    """Takes the rows of a run, some at a time, in ``index`` order, in whatever pieces."""

    def __init__(self) -> None:
        self._segments = Segments()
        self._leaf = _Leaf()
        self._tree = hashlib.sha256()

    def add(self, rows: pa.Table) -> None:
        begin = 0
        for end in self._segments.starts(rows["op"].to_numpy()):
            self._leaf.add(rows.slice(begin, end - begin))
            self._tree.update(self._leaf.digest())
            self._leaf, begin = _Leaf(), end
        self._leaf.add(rows.slice(begin))

    def hexdigest(self) -> str:
        """Return the digest of the rows so far: SHA-256 over that of each segment which has rows that count."""
        tree = self._tree.copy()
        tree.update(self._leaf.digest())
        return tree.hexdigest()


def segment_digest(rows: pa.Table) -> bytes:
    """Return what the rows of one segment bring to the digest of their run."""
    leaf = _Leaf()
    leaf.add(rows)
    return leaf.digest()


def digest(table: pa.Table) -> str:
    """Return the digest of all rows of a run."""
    whole = Digest()
    whole.add(table)
    return whole.hexdigest()


class _Leaf:
    """The digest of one segment: SHA-256 over that of each column. Integers are little-endian 64 bit; a column of texts
    has two, of its lengths in bytes as such integers, and of its UTF-8."""

    def __init__(self) -> None:
        self._columns = {name: [hashlib.sha256() for _ in range(1 + (name not in INTEGERS))] for name in _COVERED}
        self._is_empty = True

    def add(self, rows: pa.Table) -> None:
        counts = among(rows, "kind", DIGESTED)
        chosen = rows if counts.all() else rows.filter(pa.array(counts))
        if not chosen.num_rows:
            return
        self._is_empty = False
        for name, hashes in self._columns.items():
            found = [_numbers(chosen[name])] if name in INTEGERS else _lengths_and_texts(chosen[name])
            for hash, part in zip(hashes, found, strict=True):
                hash.update(part)

    def digest(self) -> bytes:
        """Return the digest; nothing, where no row counts."""
        every = b"".join(hash.digest() for hashes in self._columns.values() for hash in hashes)
        return b"" if self._is_empty else hashlib.sha256(every).digest()


def _numbers(column: pa.ChunkedArray) -> bytes:
    return column.to_numpy().astype("<i8").tobytes()


def _lengths_and_texts(column: pa.ChunkedArray) -> tuple[bytes, Any]:
    texts = column.cast(pa.large_string()).combine_chunks()
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.chunk(0)
    bounds = np.frombuffer(texts.buffers()[1], "<i8")[texts.offset : texts.offset + len(texts) + 1]
    data = texts.buffers()[2]
    return np.diff(bounds).astype("<i8").tobytes(), b"" if data is None else data[int(bounds[0]) : int(bounds[-1])]
