"""Writes the shards of a run whose rows are not held in memory: the same ones as :mod:`chaos.history.shards` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chaos.history import shards
from chaos.history.columns import BESIDE, COLUMNS
from chaos.history.directory import SHARDS
from chaos.history.memory import give_back
from chaos.history.parted import places
from chaos.history.parted.beside import Beside, BesideRows
from chaos.history.parted.choosing import OF_QUEUES, Buckets, Chooser, Flags, Ints, Part, Sieve
from chaos.history.shards import FORM, REST, SHARD_ROWS
from chaos.history.spool import Spool
from chaos.history.stream import SCHEMA

#: So many shards are written at the same time; for more, the rows are read again.
MOST_OPEN = 128
#: Rows of a shard that are held until they are written together, and rows of all shards that are: some 200 MB.
HELD_ROWS, ALL_HELD_ROWS = 1 << 15, 1 << 20
#: What a row's place among the shards depends on.
_KEYS = {"kind", "f", "queue", "node"}
#: How many rows each key of a part has.
_Counts = dict[Part, Counter[int]]


def write(run: Path, rows: Spool, plan: Sequence[Part], folder: str = SHARDS, *, sealed: bool = True) -> list[Path]:
    """As :func:`chaos.history.shards.write`; of many rows only some for each shard are in memory at a time."""
    table = rows.whole()
    if table is not None:
        return shards.write(run, table, plan, folder, sealed=sealed)
    return shards.replace(run, lambda fresh: fill(fresh, rows, plan), folder, sealed=sealed)


class Blocks(Protocol):
    """Rows that are read several times, some at a time."""

    def blocks(
        self, columns: Collection[str] = COLUMNS, *, backwards: bool = False, begun: bool = False
    ) -> Iterator[pa.Table]:
        """As :meth:`chaos.history.spool.Spool.blocks`."""


def fill(folder: Path, rows: Blocks, plan: Sequence[Part], most: int = SHARD_ROWS, offsets: int | None = None) -> None:
    """Write the shards of a large run into an empty folder. Raises ``OSError``."""
    kept = shards.kept(plan, rows.blocks)
    counts, rest = _counted(rows, plan, kept, offsets)
    split = [part for part in plan if shards.is_split(part, np.array([*counts[part].values()], np.int64), most)]
    if split:
        plan = [one for part in plan for one in (part.split if part in split else (part,))]
    if more := shards.sifted(plan, partial(rows.blocks, begun=True), partial(rows.blocks, backwards=True)):
        kept |= more
    if split or more:
        counts, rest = _counted(rows, plan, kept, offsets)
    parts = [_Parted(part, counts[part], most) for part in plan]
    wanted = [_Shard(f"{one.part.name}-{bucket}", one, bucket) for one in parts for bucket in one.buckets.filled]
    wanted += [_Shard(REST)] if rest else []
    if any(one.beside.learns for one in parts):
        for block, chooser in _blocks(rows, plan, kept, offsets):
            for one in parts:
                one.learn(block, chooser)
    for begin in range(0, len(wanted), MOST_OPEN):
        give_back()
        with ExitStack() as stack:
            writers = [
                (shard, stack.enter_context(_Writer(folder / f"{shard.name}.parquet", shard)))
                for shard in wanted[begin : begin + MOST_OPEN]
            ]
            for block, chooser in _blocks(rows, plan, kept, offsets):
                asked = dict.fromkeys(shard.parted for shard, _ in writers if shard.parted is not None)
                chosen = {one: one.choices(block, chooser) for one in asked}
                for shard, writer in writers:
                    if shard.parted is not None:
                        writer.add(chosen[shard.parted].of(shard.bucket))
                    else:
                        writer.add(block.filter(pa.array(_left(chooser, plan))))
                _relieve([writer for _, writer in writers])


def _blocks(
    rows: Blocks,
    plan: Sequence[Part],
    kept: Mapping[Sieve, Ints],
    offsets: int | None,
    columns: Collection[str] = COLUMNS,
) -> Iterator[tuple[pa.Table, Chooser]]:
    """All rows, some at a time, and who finds in which part they stand; the last ones first where queues are parted."""
    known = places.Places(offsets)
    for block in rows.blocks(columns, backwards=_in_pieces(plan)):
        yield block, Chooser(block, kept, known)


def _in_pieces(plan: Sequence[Part]) -> bool:
    return any(part.key in OF_QUEUES for part in plan)


def _counted(
    rows: Blocks, plan: Sequence[Part], kept: Mapping[Sieve, Ints], offsets: int | None
) -> tuple[_Counts, bool]:
    """How many rows each key has, and whether there are rows that no part wants."""
    counts: _Counts = {part: Counter() for part in plan}
    rest = False
    columns = {
        *_KEYS,
        *(["index"] if kept else []),
        *(["value"] if any(part.key == "group" for part in plan) else []),
    }
    columns |= {*(places.COLUMNS if _in_pieces(plan) else ())}
    for _, chooser in _blocks(rows, plan, kept, offsets, columns):
        for part, count in counts.items():
            own, _, key = chooser.of(part)
            count.update(dict(zip(*(found.tolist() for found in np.unique(key[own], return_counts=True)), strict=True)))
        rest = rest or bool(_left(chooser, plan).any())
    return counts, rest


def _left(chooser: Chooser, plan: Sequence[Part]) -> Flags:
    """Which rows no part wants: all, where no law can judge the run."""
    left = np.ones(chooser.rows, dtype=np.bool_)
    for part in plan:
        left &= ~chooser.stand(part)
    return left


class _Parted:
    """One part of the plan, whose shards are known."""

    def __init__(self, part: Part, count: Counter[int], most: int) -> None:
        keys = sorted(count)
        sizes = np.array([count[key] for key in keys], np.int64)
        self.part = part
        self.buckets = Buckets.of(part, np.array(keys, np.int64), sizes, most)
        self.beside = Beside(part)

    def learn(self, block: pa.Table, chooser: Chooser) -> None:
        if self.beside.learns:
            own, _, key = chooser.of(self.part)
            self.beside.learn(block, chooser, self.buckets.numbers(key, own))

    def choices(self, block: pa.Table, chooser: Chooser) -> _Choices:
        own, everywhere, key = chooser.of(self.part)
        number = self.buckets.numbers(key, own)
        return _Choices(block, number, everywhere, self.beside.places(block, chooser, number))


@dataclass(frozen=True, slots=True)
class _Choices:
    """Which rows of a block stand in which shard of a part."""

    block: pa.Table
    number: Ints
    everywhere: Flags
    beside: BesideRows | None

    def of(self, bucket: int) -> pa.Table:
        own = (self.number == bucket) | self.everywhere
        return shards.rows_of(self.block, own, self.beside, bucket)


@dataclass(frozen=True, slots=True)
class _Shard:
    """``parted``: None for the shard of all rows that no part wants."""

    name: str
    parted: _Parted | None = None
    bucket: int = 0


class _Writer:
    """One shard, some rows at a time."""

    def __init__(self, path: Path, shard: _Shard) -> None:
        has_beside = shard.parted is not None and shard.parted.part.has_beside
        schema = SCHEMA.append(pa.field(BESIDE, pa.bool_())) if has_beside else SCHEMA
        self._writer = pq.ParquetWriter(path, schema, **FORM)
        self._held: list[pa.Table] = []
        self.rows = 0

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self.flush()
        self._writer.close()

    def add(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self._held.append(rows)
            self.rows += rows.num_rows
        if self.rows >= HELD_ROWS:
            self.flush()

    def flush(self) -> None:
        if self._held:
            self._writer.write_table(pa.concat_tables(self._held).unify_dictionaries())
        self._held, self.rows = [], 0


def _relieve(writers: Sequence[_Writer]) -> None:
    """Write what is held of some shards, if too much is of all of them."""
    held = sum(writer.rows for writer in writers)
    for writer in sorted(writers, key=lambda one: one.rows, reverse=True):
        if held <= ALL_HELD_ROWS:
            break
        held -= writer.rows
        writer.flush()
