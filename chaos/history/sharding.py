"""Writes the shards of a run whose rows are not held in memory: the same ones as :mod:`chaos.history.shards` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chaos.history import ranges, shards
from chaos.history.directory import SHARDS
from chaos.history.shards import FORM, REST, SHARD_ROWS, Buckets, Chooser, Flags, Ints, Part, Sieve
from chaos.history.spool import Spool
from chaos.history.stream import SCHEMA

#: So many shards are written at the same time; for more, the rows are read again.
MOST_OPEN = 32
#: Rows of a shard that are held until they are written together.
HELD_ROWS = 1 << 15
#: What a row's place among the shards depends on.
_KEYS = {"kind", "f", "queue", "node"}
#: How many rows each key of a part has.
_Counts = dict[Part, Counter[int]]


@dataclass(frozen=True, slots=True)
class _Shard:
    """``part``: None for the shard of all rows that no part wants."""

    name: str
    part: Part | None = None
    buckets: Buckets | None = None
    bucket: int = 0


def write(run: Path, rows: Spool, plan: Sequence[Part], folder: str = SHARDS, *, sealed: bool = True) -> list[Path]:
    """As :func:`chaos.history.shards.write`; of many rows only some for each shard are in memory at a time."""
    table = rows.whole()
    if table is not None:
        return shards.write(run, table, plan, folder, sealed=sealed)
    return shards.replace(run, lambda fresh: fill(fresh, rows, plan), folder, sealed=sealed)


def fill(folder: Path, rows: Spool, plan: Sequence[Part], most: int = SHARD_ROWS, offsets: int | None = None) -> None:
    """Write the shards of a large run into an empty folder. Raises ``OSError``."""
    kept = shards.kept(plan, rows.blocks)
    counts, rest = _counted(rows, plan, kept, offsets)
    split = [part for part in plan if shards.is_split(part, np.array([*counts[part].values()], np.int64), most)]
    if split:
        counts |= _counted(rows, [one for part in split for one in part.split], kept, offsets)[0]
        plan = [one for part in plan for one in (part.split if part in split else (part,))]
    wanted = [shard for part in plan for shard in _shards(part, counts[part], most)]
    wanted += [_Shard(REST)] if rest else []
    for begin in range(0, len(wanted), MOST_OPEN):
        with ExitStack() as stack:
            writers = [
                (shard, stack.enter_context(_Writer(folder / f"{shard.name}.parquet")))
                for shard in wanted[begin : begin + MOST_OPEN]
            ]
            places = ranges.Places(offsets)
            for block in rows.blocks(backwards=_in_ranges(plan)):
                chosen = _Choices(block, plan, kept, places)
                for shard, writer in writers:
                    writer.add(block.take(pa.array(np.flatnonzero(chosen.of(shard)))))


def _in_ranges(plan: Sequence[Part]) -> bool:
    return any(part.key == "offset" for part in plan)


def _counted(
    rows: Spool, plan: Sequence[Part], kept: Mapping[Sieve, Ints], offsets: int | None
) -> tuple[_Counts, bool]:
    """How many rows each key has, and whether there are rows that no part wants."""
    counts: _Counts = {part: Counter() for part in plan}
    rest, places = False, ranges.Places(offsets)
    columns = {*_KEYS, *(["index"] if kept else []), *(["value"] if any(part.key == "group" for part in plan) else [])}
    columns |= {*(ranges.COLUMNS if _in_ranges(plan) else ())}
    for block in rows.blocks(columns, backwards=_in_ranges(plan)):
        chosen = _Choices(block, plan, kept, places)
        for part, count in counts.items():
            own, _, key = chosen.parts[part]
            count.update(dict(zip(*(found.tolist() for found in np.unique(key[own], return_counts=True)), strict=True)))
        rest = rest or bool(chosen.rest.any())
    return counts, rest


def _shards(part: Part, count: Counter[int], most: int) -> list[_Shard]:
    """All shards that a part's rows take."""
    keys = sorted(count)
    sizes = np.array([count[key] for key in keys], np.int64)
    buckets = Buckets.of(part, np.array(keys, np.int64), sizes, most)
    return [_Shard(f"{part.name}-{bucket}", part, buckets, bucket) for bucket in buckets.filled]


class _Choices:
    """Which rows of a block stand in which shard."""

    def __init__(
        self, block: pa.Table, plan: Sequence[Part], kept: Mapping[Sieve, Ints], places: ranges.Places
    ) -> None:
        chooser = Chooser(block, kept, places)
        self.parts: dict[Part, tuple[Flags, Flags, Ints]] = {part: chooser.of(part) for part in plan}
        self.rest = np.ones(block.num_rows, dtype=np.bool_)
        for own, everywhere, _ in self.parts.values():
            self.rest &= ~(own | everywhere)

    def of(self, shard: _Shard) -> Flags:
        if shard.part is None or shard.buckets is None:
            return self.rest
        own, everywhere, key = self.parts[shard.part]
        return (own & shard.buckets.stand_in(key, shard.bucket)) | everywhere


class _Writer:
    """One shard, some rows at a time."""

    def __init__(self, path: Path) -> None:
        self._writer = pq.ParquetWriter(path, SCHEMA, **FORM)
        self._held: list[pa.Table] = []
        self._rows = 0

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self._flush()
        self._writer.close()

    def add(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self._held.append(rows)
            self._rows += rows.num_rows
        if self._rows >= HELD_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._held:
            self._writer.write_table(pa.concat_tables(self._held).unify_dictionaries())
        self._held, self._rows = [], 0
