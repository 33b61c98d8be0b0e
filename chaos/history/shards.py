"""Parquet shards of a run's rows: which rows stand together is a plan that their readers make."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chaos.errors import MachineError
from chaos.history.columns import BESIDE, COLUMNS, INTEGERS, VALUE, WORDS
from chaos.history.directory import SHARDS, shard_files
from chaos.history.manifest import Manifest
from chaos.history.memory import give_back
from chaos.history.parted import numbers
from chaos.history.parted.beside import Beside, BesideRows, Summary
from chaos.history.parted.choosing import Buckets, Chooser, Flags, Ints, Part, Sieve
from chaos.history.parted.lived import Lived
from chaos.history.parted.places import Places

#: The only shard of a small run, and the rows of a large one that no part of the plan wants.
WHOLE = "all-0"
REST = "rest-0"
#: A run with fewer rows is one shard: to part them takes longer than several processes would save.
SINGLE_SHARD_ROWS = 250_000
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
    return [run / name for name in shard_files(run, folder)]


def parts(
    table: pa.Table, plan: Sequence[Part], most: int | None = None, offsets: int | None = None
) -> Iterator[tuple[str, pa.Table]]:
    """(name, rows) of each shard: one for a small run, else those of the plan and what it left over. ``most``: part the
    rows of a small run too, with so many of its own in a shard at most; ``offsets`` of a queue stay together."""
    if table.num_rows < SINGLE_SHARD_ROWS and most is None:
        yield WHOLE, table
        return
    most = SHARD_ROWS if most is None else most
    known = kept(plan, lambda columns: [table.select(columns)])
    chooser = Chooser(table, known, Places(offsets))
    plan = [*_with_split(plan, chooser, most)]
    if more := sifted(plan, *[lambda columns: [table.select(columns)]] * 2):
        chooser = Chooser(table, {**known, **more}, Places(offsets))
    left = np.ones(table.num_rows, dtype=np.bool_)
    for part in plan:
        yield from _parts_of(part, table, chooser, most)
        left &= ~chooser.stand(part)
    if left.any():
        yield REST, table.filter(pa.array(left))


def _with_split(plan: Sequence[Part], chooser: Chooser, most: int) -> Iterator[Part]:
    """Yield the parts of a plan, of which others take the place where a key has too many rows."""
    for part in plan:
        own, _, key = chooser.of(part)
        sizes = np.unique(key[own], return_counts=True)[1]
        yield from part.split if is_split(part, sizes, most) else (part,)


def _parts_of(part: Part, table: pa.Table, chooser: Chooser, most: int) -> Iterator[tuple[str, pa.Table]]:
    own, everywhere, key = chooser.of(part)
    keys, sizes = np.unique(key[own], return_counts=True)
    buckets = Buckets.of(part, keys, sizes, most)
    number = buckets.numbers(key, own)
    beside = Beside(part)
    beside.learn(table, chooser, number)
    places = beside.places(table, chooser, number)
    for bucket in buckets.filled:
        yield f"{part.name}-{bucket}", rows_of(table, (number == bucket) | everywhere, places, bucket)


def rows_of(table: pa.Table, own: Flags, beside: BesideRows | None, shard: int) -> pa.Table:
    """Return the rows of a table that stand in a shard: its own, those of every shard, and those ``beside`` it, if its
    part has such."""
    if beside is None:
        return table.take(pa.array(np.flatnonzero(own)))
    wanted = np.flatnonzero(own | beside.of(shard))
    return table.take(pa.array(wanted)).append_column(BESIDE, pa.array(~own[wanted]))


def is_split(part: Part, rows: Ints, most: int) -> bool:
    """Return whether others take the place of a part whose keys have so many rows."""
    return bool(part.split) and int(rows.max(initial=0)) > most


def kept(plan: Sequence[Part], blocks: Callable[[list[str]], Iterable[pa.Table]]) -> dict[Sieve, Ints]:
    """Return what each sieve of a plan keeps, ascending. ``blocks``: gives all rows, with these columns, some at a
    time. Where a sieve remembers and the rows of each node are in order, only what it keeps and remembers stays in
    memory."""
    found = {}
    every = (one for part in plan for one in (part, *part.split))
    for sieve in dict.fromkeys(sieve for part in every for sieve in part.sieves):
        if sieve.remember is not None:
            lived = Lived(sieve)
            lived.add_each(partial(blocks, _columns(sieve)))
            if not lived.disordered:
                found[sieve] = lived.kept()
                continue
        tables = []
        for block in blocks(_columns(sieve)):
            tables.append(block.filter(pa.array(Chooser(block).any_of(sieve.rows))))
        if tables:
            found[sieve] = numbers.distinct(sieve.keep(pa.concat_tables(tables).unify_dictionaries()))
    return found


def sifted(
    plan: Sequence[Part],
    blocks: Callable[[list[str]], Iterable[pa.Table]],
    backwards: Callable[[list[str]], Iterable[pa.Table]],
) -> dict[Sieve, Ints]:
    """Return what is kept of own rows, ascending. ``blocks``: as for :func:`kept`, with the beginnings whose ends come
    in later blocks: what a forward sieve keeps may depend on them; ``backwards``: the last ones first.
    Only what is kept of them stays in memory."""
    found = {}
    for sieve in dict.fromkeys(sieve for part in plan for sieve in part.sifted):
        if sieve.remember is not None:
            found[sieve] = _lived(sieve, partial(blocks, _columns(sieve)))
            continue
        summary, in_order = Summary(sieve), blocks if sieve.forward else backwards
        if sieve.before:
            for block in in_order(_columns(sieve)):
                summary.add(block, np.where(Chooser(block).any_of(sieve.before), 0, -1))
        for block in in_order(_columns(sieve)):
            chooser = Chooser(block)
            chosen = chooser.any_of(sieve.rows) & ~chooser.any_of(sieve.before)
            summary.add(block, np.where(chosen, 0, -1))
        found[sieve] = numbers.distinct(summary.kept())
        give_back()
    return found


def _lived(sieve: Sieve, blocks: Callable[[], Iterable[pa.Table]]) -> Ints:
    lived = Lived(sieve)
    lived.add_each(blocks)
    if lived.disordered:
        for block in blocks():
            lived.add_all(block, Chooser(block).any_of(sieve.rows))
    return lived.kept()


def _columns(sieve: Sieve) -> list[str]:
    return [name for name in COLUMNS if name in sieve.reads]
