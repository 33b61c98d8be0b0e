"""What the tasks of a large run make of the blocks that pieces of it brought to their buckets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from chaos.history.columns import BESIDE
from chaos.history.parted import numbers
from chaos.history.parted.choosing import Chooser, Ints, Part, Sieve
from chaos.history.parted.lived import Lived
from chaos.history.stream import SCHEMA
from chaos.judging.layout import PLAIN, Choice, Layout
from chaos.judging.packing import pack, unpack


def chosen(layout: Layout, bucket: int, blocks: Iterable[bytes]) -> bytes:
    """Return what a bucket of rows that all shards may need has for them, packed. ``blocks``: in the order of their
    rows."""
    tables = [*map(unpack, blocks)]
    if bucket == PLAIN:
        return pack(_joined(tables))
    choice = layout.choices[bucket - 1]
    if choice.sieve.remember is not None:
        return pack(_at(_joined(tables), _lived(choice.sieve, tables)))
    rows = _joined(tables)
    return pack(_at(rows, _kept_of_each(layout, choice, rows)))


@dataclass(frozen=True)
class Shared:
    """What all shards may need: of each bucket before those of shards, what :func:`chosen` returned."""

    layout: Layout
    blocks: Sequence[bytes]

    def __getstate__(self) -> dict[str, Any]:
        return {"layout": self.layout, "blocks": self.blocks}

    @cached_property
    def rows(self) -> pa.Table:
        return _once(pa.concat_tables(self._tables))

    @cached_property
    def kept(self) -> Mapping[Sieve, Ints]:
        """Which rows sieves keep for all shards."""
        return {
            choice.sieve: numbers.distinct(_index(table))
            for choice, table in zip(self.layout.choices, self._tables[1:], strict=True)
            if choice.part < 0
        }

    @cached_property
    def _tables(self) -> list[pa.Table]:
        return [*map(unpack, self.blocks)]

    def summed(self, part: int) -> Ints:
        """Which rows stand beside all shards of a part because a sieve keeps them of one."""
        found = [
            _index(table)
            for choice, table in zip(self.layout.choices, self._tables[1:], strict=True)
            if choice.part == part
        ]
        return np.concatenate([np.empty(0, np.int64), *found])


def gathered(shared: Shared, bucket: int, blocks: Iterable[bytes]) -> pa.Table:
    """Return the rows of a shard, in any order. ``blocks``: what pieces brought to its bucket, in the order of their
    rows."""
    layout = shared.layout
    number, shard = layout.shards[bucket - layout.first_shard]
    part = layout.parts[number]
    tables = [*map(unpack, blocks)]
    kept = {sieve: _sifted(layout, sieve, tables) for sieve in part.sifted}
    tables += [_at(layout.before[sieve], kept[sieve]) for sieve in part.sifted if sieve in layout.before]
    mine = [_own(part, table, {**shared.kept, **kept}) for table in tables]
    rows = pa.concat_tables([_marked(SCHEMA.empty_table(), part), *mine])
    return _once(pa.concat_tables([rows, _of_all(shared, number, shard, rows)]))


def _own(part: Part, table: pa.Table, kept: Mapping[Sieve, Ints]) -> pa.Table:
    own, everywhere, _ = Chooser(table, kept).of(part)
    if not part.has_beside:
        return table.filter(pa.array(own))
    table = table if BESIDE in table.column_names else _marked(table, part)
    beside = table[BESIDE].to_numpy()
    return table.filter(pa.array(np.where(beside, ~everywhere, own)))


def _of_all(shared: Shared, number: int, shard: int, mine: pa.Table) -> pa.Table:
    """Return the rows that a shard is given of those that all may need."""
    layout, rows = shared.layout, shared.rows
    part = layout.parts[number]
    chooser = Chooser(rows, shared.kept)
    own, everywhere, key = chooser.of(part)
    if not part.has_beside:
        return rows.filter(pa.array(everywhere))
    queue = chooser.keys("queue")
    named = mine.filter(pa.array(~mine[BESIDE].to_numpy()))["queue"].to_numpy()
    beside = chooser.any_of(part.beside) | numbers.among(_index(rows), shared.summed(number))
    beside |= chooser.any_of(part.of_queues) & np.isin(queue, [*named, *queue[everywhere], -1])
    beside &= ~everywhere & (layout.buckets[number].numbers(key, own) != shard)
    found = rows.append_column(BESIDE, pa.array(beside))
    return found.filter(pa.array(everywhere | beside))


def _marked(rows: pa.Table, part: Part) -> pa.Table:
    """Return rows that stand beside no shard, as the rows of a part say it."""
    return rows.append_column(BESIDE, pa.array(np.zeros(rows.num_rows, np.bool_))) if part.has_beside else rows


def _sifted(layout: Layout, sieve: Sieve, tables: Sequence[pa.Table]) -> Ints:
    """Return which rows of a shard a sieve keeps, of those that stand there on its account."""
    if sieve.remember is not None:
        return _lived(sieve, tables)
    before = layout.before.get(sieve)
    rows = _joined([*([before] if before is not None else []), *(_about(sieve, table) for table in tables)])
    return numbers.distinct(sieve.keep(rows))


def _about(sieve: Sieve, table: pa.Table) -> pa.Table:
    """Return the rows that a sieve is about, which don't stand beside."""
    found = Chooser(table).any_of(sieve.rows)
    if BESIDE in table.column_names:
        found = found & ~table[BESIDE].to_numpy()
        table = table.drop_columns([BESIDE])
    return table.filter(pa.array(found))


def _kept_of_each(layout: Layout, choice: Choice, rows: pa.Table) -> Ints:
    """Return what the sieve of a choice keeps: of all rows, or of those of each shard for itself."""
    if choice.part < 0:
        return numbers.distinct(choice.sieve.keep(rows))
    part = layout.parts[choice.part]
    chooser = Chooser(rows)
    own = chooser.any_of((*part.own, *(one for sieve in part.sifted for one in sieve.rows)))
    shard = layout.buckets[choice.part].numbers(chooser.keys(part.key), own)
    found = [np.empty(0, np.int64)]
    for one in np.unique(shard).tolist():
        found.append(choice.sieve.keep(rows.filter(pa.array(shard == one))))
    return numbers.distinct(np.concatenate(found))


def _lived(sieve: Sieve, tables: Sequence[pa.Table]) -> Ints:
    lived = Lived(sieve)
    lived.add_each(lambda: tables)
    if lived.disordered:
        for table in tables:
            lived.add_all(table, Chooser(table).any_of(sieve.rows))
    return lived.kept()


def _at(rows: pa.Table, index: Ints) -> pa.Table:
    return rows.filter(pa.array(numbers.among(_index(rows), index)))


def _once(rows: pa.Table) -> pa.Table:
    """Return rows, each once: as its own one where a row of a shard stands beside it too."""
    rows, index = rows.unify_dictionaries().combine_chunks(), _index(rows)
    if np.all(index[1:] > index[:-1]):
        return rows
    beside = rows[BESIDE].to_numpy() if BESIDE in rows.column_names else np.zeros(len(index), np.bool_)
    order = np.lexsort((beside, index))
    again = order[1:][index[order][1:] == index[order][:-1]]
    if not len(again):
        return rows
    left = np.ones(len(index), np.bool_)
    left[again] = False
    return rows.filter(pa.array(left))


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables([SCHEMA.empty_table(), *tables]).unify_dictionaries().combine_chunks()


def _index(rows: pa.Table) -> Ints:
    return np.asarray(rows["index"].to_numpy(), np.int64)
