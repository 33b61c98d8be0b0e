"""Parquet shards of a run's rows: which rows stand together is a plan that whoever reads them makes."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chaos.errors import MachineError
from chaos.history.columns import COLUMNS, INTEGERS, VALUE, WORDS
from chaos.history.directory import SHARDS
from chaos.history.manifest import Manifest

#: The only shard of a small run, and the rows of a large one that no part of the plan wants.
WHOLE = "all-0"
REST = "rest-0"
#: A run with fewer rows is one shard.
SINGLE_SHARD_ROWS = 100_000
#: No shard of a larger run has more rows of its own than this, if its keys can be parted at all.
SHARD_ROWS = 2_000_000
#: How a shard is written.
FORM: Mapping[str, Any] = {
    "compression": "zstd",
    "use_dictionary": [*WORDS, VALUE],
    "column_encoding": dict.fromkeys(INTEGERS, "DELTA_BINARY_PACKED"),
    "store_schema": True,
    "write_page_checksum": True,
}
#: Columns by which rows are chosen and told apart.
_ALWAYS = ("index", "kind", "f", "queue")
#: More shards of one part than this help nobody: some key has more rows than a shard should have.
MOST_SHARDS = 1 << 12

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The rows of one kind with one of these ``f``, or all of that kind; ``queueless``: only those without a queue."""

    kind: str
    f: tuple[str, ...] = ()
    queueless: bool = False


@dataclass(frozen=True, slots=True)
class Sieve:
    """Chooses rows that each shard holds: ``keep`` is given all ``rows``, with these ``columns``, and returns the
    ``index`` of those that are kept."""

    rows: tuple[Chosen, ...]
    columns: tuple[str, ...]
    keep: Callable[[pa.Table], Ints]


@dataclass(frozen=True, slots=True)
class Part:
    """Shards ``NAME-0``, ``NAME-1``, … of which each holds all the ``own`` rows of some keys, of ``everywhere`` all
    rows, and all that the ``sieves`` keep. ``key``: the column ``queue`` or ``node``, or ``group`` for
    ``value.group``; ``run`` is one shard for all. Rows without a key stand together."""

    name: str
    key: str
    own: tuple[Chosen, ...] = ()
    everywhere: tuple[Chosen, ...] = ()
    sieves: tuple[Sieve, ...] = ()


def write(run: Path, table: pa.Table, plan: Sequence[Part], folder: str = SHARDS, *, sealed: bool = True) -> list[Path]:
    """Write the shards into a folder of the run, in place of older ones; returns their paths. All together hold every
    row, in ``index`` order. ``sealed``: the run's manifest vouches for those that stand in for the history.
    Raises :class:`chaos.errors.MachineError` when they can't be written."""

    def fill(fresh: Path) -> None:
        for name, part in parts(table, plan):
            write_one(part, fresh / f"{name}.parquet")

    return replace(run, fill, folder, sealed=sealed)


def replace(run: Path, fill: Callable[[Path], None], folder: str, *, sealed: bool) -> list[Path]:
    """Put the shards that ``fill`` writes into an empty folder in the place of older ones, as :func:`write` does."""
    fresh = run / f"{folder}.new"
    try:
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        fill(fresh)
        older = {path.name for path in paths(run, folder)}
        shutil.rmtree(run / folder, ignore_errors=True)
        fresh.rename(run / folder)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise MachineError(f"cannot write the shards in {run}: {error.strerror or error}") from error
    made = paths(run, folder)
    if folder == SHARDS:
        new = {path.name for path in made} if sealed else set()
        with Manifest(run) as manifest:
            for name in sorted(older - new):
                manifest.gone(f"{folder}/{name}")
            manifest.seal_files(f"{folder}/{name}" for name in sorted(new))
    return made


def write_one(table: pa.Table, path: Path) -> None:
    """Write one shard: the rows of a history, in ``index`` order. Raises ``OSError``."""
    pq.write_table(table, path, row_group_size=SHARD_ROWS, **FORM)


def paths(run: Path, folder: str = SHARDS) -> list[Path]:
    return sorted((run / folder).glob("*.parquet"))


def parts(table: pa.Table, plan: Sequence[Part], most: int | None = None) -> Iterator[tuple[str, pa.Table]]:
    """(name, rows) of each shard: one for a small run, else those of the plan and what it left over. ``most``: part the
    rows of a small run too, with so many of its own in a shard at most."""
    if table.num_rows < SINGLE_SHARD_ROWS and most is None:
        yield WHOLE, table
        return
    chooser = Chooser(table, kept(plan, lambda columns: [table.select(columns)]))
    wanted = np.zeros(table.num_rows, dtype=np.bool_)
    for part in plan:
        own, everywhere, key = chooser.of(part)
        wanted |= own | everywhere
        keys, sizes = np.unique(key[own], return_counts=True)
        count = buckets(keys, sizes, SHARD_ROWS if most is None else most)
        for bucket in filled(keys, count):
            chosen = (own & (key % count == bucket)) | everywhere
            yield f"{part.name}-{bucket}", table.filter(pa.array(chosen))
    if not wanted.all():
        yield REST, table.filter(pa.array(~wanted))


def kept(plan: Sequence[Part], blocks: Callable[[list[str]], Iterable[pa.Table]]) -> dict[Sieve, Ints]:
    """What each sieve of a plan keeps, ascending. ``blocks``: gives all rows, with these columns, some at a time."""
    found = {}
    for sieve in dict.fromkeys(sieve for part in plan for sieve in part.sieves):
        tables = []
        for block in blocks([name for name in COLUMNS if name in {*sieve.columns, *_ALWAYS}]):
            tables.append(block.filter(pa.array(Chooser(block).any_of(sieve.rows))))
        if tables:
            found[sieve] = np.unique(sieve.keep(pa.concat_tables(tables).unify_dictionaries()))
    return found


def buckets(keys: Ints, rows: Ints, most: int) -> int:
    """How many shards it takes for these different keys, of so many rows each, until none has too many rows, or each
    key stands alone."""
    count = 1
    while count < min(len(keys), MOST_SHARDS) and int(np.bincount(keys % count, rows).max(initial=0)) > most:
        count *= 2
    return count


def filled(keys: Ints, count: int) -> list[int]:
    """The shards that have rows of their own, or the first one where none has: what stands in every shard is examined
    once at least."""
    found: list[int] = np.unique(keys % count).tolist()
    return found or [0]


class Chooser:
    """Finds rows of a table by kind and ``f``, and their keys."""

    def __init__(self, table: pa.Table, kept: Mapping[Sieve, Ints] | None = None) -> None:
        self._table = table
        self._kept = kept or {}
        self._kind, self._kinds = _codes(table, "kind")
        self._f, self._fs = _codes(table, "f")

    def of(self, part: Part) -> tuple[Flags, Flags, Ints]:
        """Which rows are a part's own, which it needs everywhere, and the key of each row."""
        everywhere = self.any_of(part.everywhere)
        for sieve in part.sieves:
            if len(wanted := self._kept.get(sieve, ())):
                everywhere |= np.isin(self._table["index"].to_numpy(), wanted)
        return self.any_of(part.own) & ~everywhere, everywhere, self.keys(part.key)

    def any_of(self, chosen: Sequence[Chosen]) -> Flags:
        found = np.zeros(self._table.num_rows, dtype=np.bool_)
        for one in chosen:
            mask = self._kind == _code(self._kinds, one.kind)
            if one.f:
                mask &= np.isin(self._f, [_code(self._fs, f) for f in one.f])
            if one.queueless:
                mask &= self.keys("queue") < 0
            found |= mask
        return found

    def keys(self, key: str) -> Ints:
        """A number for each row that rows of one key share, also in another process."""
        if key == "queue":
            return np.asarray(self._table["queue"].to_numpy(), dtype=np.int64)
        if key == "run":
            return np.zeros(self._table.num_rows, dtype=np.int64)
        codes, texts = _codes(self._table, "node") if key == "node" else _groups(self._table)
        numbers = np.array([*(zlib.crc32(text.encode()) for text in texts), 0], dtype=np.int64)
        return numbers[codes]


def _code(texts: Sequence[str], text: str) -> int:
    return texts.index(text) if text in texts else -2


def _codes(table: pa.Table, column: str) -> tuple[npt.NDArray[Any], list[str]]:
    array = table.select([column]).unify_dictionaries().combine_chunks()[column]
    chunk = array.chunk(0) if array.num_chunks else pa.array([], pa.string()).dictionary_encode()
    return pc.fill_null(chunk.indices, -1).to_numpy(zero_copy_only=False), chunk.dictionary.to_pylist()


def _groups(table: pa.Table) -> tuple[npt.NDArray[Any], list[str]]:
    """``value.group`` of each row as a code, -1 where there is none."""
    texts = table[VALUE].cast(pa.string()).combine_chunks()
    found = pc.struct_field(pc.extract_regex(texts, r'"group":\s*"(?P<found>[^"\\]*)"'), "found")
    encoded = (found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found).dictionary_encode()
    return pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False), encoded.dictionary.to_pylist()
