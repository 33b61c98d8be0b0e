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
from chaos.history import ranges
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
    ``value.group``; ``offset`` for ranges of a queue's offsets (:mod:`chaos.history.ranges`); ``run`` is one shard for
    all. Rows without a key stand together. ``split``: what takes its place where a key has more rows than a shard
    should have; together they want the same rows."""

    name: str
    key: str
    own: tuple[Chosen, ...] = ()
    everywhere: tuple[Chosen, ...] = ()
    sieves: tuple[Sieve, ...] = ()
    split: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Buckets:
    """In which shard of a part the rows of each key stand. ``keys`` ascend."""

    keys: Ints
    number: Ints

    @classmethod
    def of(cls, part: Part, keys: Ints, rows: Ints, most: int) -> Buckets:
        """For these different keys, which ascend, of so many rows each: as few shards as it takes until none has too
        many, or each key stands alone. Ranges that follow one another share shards."""
        if part.key == "offset":
            return cls(keys, (np.cumsum(rows) - rows) // most)
        count = 1
        while count < min(len(keys), MOST_SHARDS) and int(np.bincount(keys % count, rows).max(initial=0)) > most:
            count *= 2
        return cls(keys, keys % count)

    @property
    def filled(self) -> list[int]:
        """The shards that have rows of their own, or the first one where none has: what stands in every shard is
        examined once at least."""
        found: list[int] = np.unique(self.number).tolist()
        return found or [0]

    def stand_in(self, key: Ints, bucket: int) -> Flags:
        """Which rows of these keys stand in a shard; those of other keys may be in any."""
        if not len(self.keys):
            return np.zeros(len(key), dtype=np.bool_)
        return self.number[np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)] == bucket


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


def parts(
    table: pa.Table, plan: Sequence[Part], most: int | None = None, offsets: int | None = None
) -> Iterator[tuple[str, pa.Table]]:
    """(name, rows) of each shard: one for a small run, else those of the plan and what it left over. ``most``: part the
    rows of a small run too, with so many of its own in a shard at most; ``offsets`` of a queue stay together."""
    if table.num_rows < SINGLE_SHARD_ROWS and most is None:
        yield WHOLE, table
        return
    most = SHARD_ROWS if most is None else most
    chooser = Chooser(table, kept(plan, lambda columns: [table.select(columns)]), ranges.Places(offsets))
    wanted = np.zeros(table.num_rows, dtype=np.bool_)
    for part in plan:
        chosen = chooser.of(part)
        wanted |= chosen[0] | chosen[1]
        yield from _parts_of(part, chosen, table, chooser, most)
    if not wanted.all():
        yield REST, table.filter(pa.array(~wanted))


def _parts_of(
    part: Part, chosen: tuple[Flags, Flags, Ints], table: pa.Table, chooser: Chooser, most: int
) -> Iterator[tuple[str, pa.Table]]:
    own, everywhere, key = chosen
    keys, sizes = np.unique(key[own], return_counts=True)
    if is_split(part, sizes, most):
        for one in part.split:
            yield from _parts_of(one, chooser.of(one), table, chooser, most)
        return
    buckets = Buckets.of(part, keys, sizes, most)
    for bucket in buckets.filled:
        yield f"{part.name}-{bucket}", table.filter(pa.array((own & buckets.stand_in(key, bucket)) | everywhere))


def is_split(part: Part, rows: Ints, most: int) -> bool:
    """Whether others take the place of a part whose keys have so many rows."""
    return bool(part.split) and int(rows.max(initial=0)) > most


def kept(plan: Sequence[Part], blocks: Callable[[list[str]], Iterable[pa.Table]]) -> dict[Sieve, Ints]:
    """What each sieve of a plan keeps, ascending. ``blocks``: gives all rows, with these columns, some at a time."""
    found = {}
    every = (one for part in plan for one in (part, *part.split))
    for sieve in dict.fromkeys(sieve for part in every for sieve in part.sieves):
        tables = []
        for block in blocks([name for name in COLUMNS if name in {*sieve.columns, *_ALWAYS}]):
            tables.append(block.filter(pa.array(Chooser(block).any_of(sieve.rows))))
        if tables:
            found[sieve] = np.unique(sieve.keep(pa.concat_tables(tables).unify_dictionaries()))
    return found


class Chooser:
    """Finds rows of a table by kind and ``f``, and their keys. Where the table is one of several, the ``places`` are
    those of all of them."""

    def __init__(
        self, table: pa.Table, kept: Mapping[Sieve, Ints] | None = None, places: ranges.Places | None = None
    ) -> None:
        self._table = table
        self._kept = kept or {}
        self._places = places or ranges.Places()
        self._ranges: Ints | None = None
        self._kind, self._kinds = coded(table, "kind")
        self._f, self._fs = coded(table, "f")

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
        if key == "offset":
            if self._ranges is None:
                self._ranges = self._places.of(self._table)
            return self._ranges
        codes, texts = coded(self._table, "node") if key == "node" else _groups(self._table)
        numbers = np.array([*(zlib.crc32(text.encode()) for text in texts), 0], dtype=np.int64)
        return numbers[codes]


def _code(texts: Sequence[str], text: str) -> int:
    return texts.index(text) if text in texts else -2


def coded(table: pa.Table, column: str) -> tuple[npt.NDArray[Any], list[str]]:
    """Each row's word in this column as a number, -1 for none, and the words that the numbers stand for."""
    array = table.select([column]).unify_dictionaries().combine_chunks()[column]
    chunk = array.chunk(0) if array.num_chunks else pa.array([], pa.string()).dictionary_encode()
    return pc.fill_null(chunk.indices, -1).to_numpy(zero_copy_only=False), chunk.dictionary.to_pylist()


def _groups(table: pa.Table) -> tuple[npt.NDArray[Any], list[str]]:
    """``value.group`` of each row as a code, -1 where there is none."""
    texts = table[VALUE].cast(pa.string()).combine_chunks()
    found = pc.struct_field(pc.extract_regex(texts, r'"group":\s*"(?P<found>[^"\\]*)"'), "found")
    encoded = (found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found).dictionary_encode()
    return pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False), encoded.dictionary.to_pylist()
