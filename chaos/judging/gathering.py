"""What the tasks of a large run make of the blocks that pieces of it brought to their buckets."""

from __future__ import annotations

import pickle
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from chaos.history.columns import BESIDE
from chaos.history.ends import BegunBy, whole_ends
from chaos.history.parted import numbers
from chaos.history.parted.choosing import Chooser, Ints, Lookup, Part, Sieve
from chaos.history.parted.lived import Lived
from chaos.history.parted.places import Places
from chaos.history.rare import Rare
from chaos.history.stream import SCHEMA
from chaos.judging.blocks import Blocks
from chaos.judging.evidence import PROBE
from chaos.judging.layout import DIGEST, PLAIN, RARE, Choice, Layout
from chaos.judging.packing import pack, unpack
from chaos.judging.shard import Lookups, Shard
from chaos.shard_rows import Rows

#: The rows of so many bytes of blocks are held as tables.
MOST_HELD = 32 << 20
#: So many rows are held before a sieve is asked what it keeps of them, if it can be asked more than once.
MOST_ROWS = 1 << 18
_NONE = SCHEMA.empty_table()


def chosen(layout: Layout, bucket: int, blocks: Blocks) -> bytes:
    """Return what a bucket before those of shards comes to, packed. ``blocks``: in the order of their rows."""
    if bucket == DIGEST:
        return b"".join(blocks)
    tables = _Tables(blocks)
    if bucket == RARE:
        rare = Rare(PROBE)
        for table in tables:
            rare.add(table)
        return pack(rare.table())
    if bucket == PLAIN:
        return pack(_joined(tables))
    if bucket < layout.first_choice:
        return pickle.dumps(_looked_up(layout.lookups, _joined(tables)))
    choice = layout.choices[bucket - layout.first_choice]
    if choice.sieve.remember is not None:
        kept = _sifted(layout, [choice.sieve], tables)[choice.sieve]
        return pack(_joined(_at(table, kept) for table in tables))
    rows = _joined(tables)
    return pack(_at(rows, _kept_of_each(layout, choice, rows)))


def _looked_up(lookups: Sequence[Lookup], rows: pa.Table) -> list[Mapping[int, Any] | Exception]:
    """Return what is known of a queue with these rows, or why that can't be known, for each lookup."""
    shard, found = Shard(rows), list[Mapping[int, Any] | Exception]()
    for lookup in lookups:
        try:
            found.append(lookup.make(shard))
        except MemoryError:
            raise
        except Exception as error:  # what a value should have been, the kernel says
            found.append(error)
    shard.forget()
    return found


class _Tables:
    """The rows of blocks, one block at a time, as often as anybody asks: as tables, if they are few."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._held = [*map(unpack, blocks)] if blocks.size <= MOST_HELD else None

    def __iter__(self) -> Iterator[pa.Table]:
        return map(unpack, self._blocks) if self._held is None else iter(self._held)


@dataclass(frozen=True)
class Shared:
    """What all shards may need, as :func:`chosen` returned it: of the bucket of plain rows, then of each queue, then of
    each choice."""

    layout: Layout
    blocks: Sequence[bytes]

    def __getstate__(self) -> dict[str, Any]:
        return {"layout": self.layout, "blocks": self.blocks}

    @cached_property
    def rows(self) -> pa.Table:
        return _once(pa.concat_tables([unpack(self.blocks[0]), *map(unpack, self._of_choices)]))

    @cached_property
    def lookups(self) -> Lookups:
        """What is known of all queues; of one that is not known of some queue, why."""
        of_queues = [pickle.loads(block) for block in self.blocks[1 : 1 + len(self.layout.queues)]]
        found: dict[Callable[[Rows], Any], Mapping[int, Any] | Exception] = {}
        for at, lookup in enumerate(self.layout.lookups):
            errors = [one[at] for one in of_queues if isinstance(one[at], Exception)]
            found[lookup.make] = errors[0] if errors else dict(ChainMap(*(one[at] for one in of_queues)))
        return found

    @property
    def _of_choices(self) -> Sequence[bytes]:
        return self.blocks[1 + len(self.layout.queues) :]

    @cached_property
    def chooser(self) -> Chooser:
        """Who finds what each shard needs of the rows."""
        return Chooser(self.rows, self.kept, Places(self.layout.offsets))

    @cached_property
    def kept(self) -> Mapping[Sieve, Ints]:
        """Which rows sieves keep for all shards."""
        return {choice.sieve: index for choice, index in self._chosen if choice.part < 0}

    def lookups_of(self, bucket: int) -> Lookups | None:
        """Return what the shard of a bucket is given besides rows; None where it makes that of its own."""
        number, _ = self.layout.shards[bucket - self.layout.first_shard]
        return self.lookups if self.layout.parts[number].lookups else None

    def summed(self, part: int) -> Ints:
        """Which rows stand beside all shards of a part because a sieve keeps them of one."""
        found = [index for choice, index in self._chosen if choice.part == part]
        return np.concatenate([np.empty(0, np.int64), *found])

    @cached_property
    def _chosen(self) -> list[tuple[Choice, Ints]]:
        """Each choice, and the numbers of its rows, ascending."""
        found = (numbers.distinct(_index(unpack(block))) for block in self._of_choices)
        return [*zip(self.layout.choices, found, strict=True)]


def gathered(shared: Shared, bucket: int, blocks: Blocks) -> pa.Table:
    """Return the rows of a shard, in any order. ``blocks``: what pieces brought to its bucket, in the order of their
    rows."""
    layout = shared.layout
    number, shard = layout.shards[bucket - layout.first_shard]
    part = layout.parts[number]
    tables = _Tables(blocks)
    kept = _sifted(layout, part.sifted, tables)
    before = [_at(layout.before[sieve], kept[sieve]) for sieve in part.sifted if sieve in layout.before]
    every = {**shared.kept, **kept}
    mine = [_own(part, table, every) for table in chain(tables, before)]
    rows = pa.concat_tables([_marked(SCHEMA.empty_table(), part), *mine])
    return _once(pa.concat_tables([rows, _of_all(shared, number, shard)]))


def _own(part: Part, table: pa.Table, kept: Mapping[Sieve, Ints]) -> pa.Table:
    own, everywhere = Chooser(table, kept).of(part)
    if not part.has_beside:
        return table.filter(pa.array(own))
    table = table if BESIDE in table.column_names else _marked(table, part)
    beside = table[BESIDE].to_numpy()
    return table.filter(pa.array(np.where(beside, ~everywhere, own)))


def _of_all(shared: Shared, number: int, shard: int) -> pa.Table:
    """Return the rows that a shard is given of those that all may need."""
    layout, rows, chooser = shared.layout, shared.rows, shared.chooser
    part = layout.parts[number]
    own, everywhere = chooser.of(part)
    if not part.has_beside:
        return rows.filter(pa.array(everywhere))
    beside = chooser.any_of(part.beside) | numbers.among(_index(rows), shared.summed(number))
    beside &= ~everywhere & (layout.buckets[number].numbers(chooser.keys(part.key, own), own) != shard)
    found = rows.append_column(BESIDE, pa.array(beside))
    return found.filter(pa.array(everywhere | beside))


def _marked(rows: pa.Table, part: Part) -> pa.Table:
    """Return rows that stand beside no shard, as the rows of a part say it."""
    return rows.append_column(BESIDE, pa.array(np.zeros(rows.num_rows, np.bool_))) if part.has_beside else rows


def _sifted(layout: Layout, sieves: Sequence[Sieve], tables: Iterable[pa.Table]) -> dict[Sieve, Ints]:
    """Return which rows of a shard each sieve keeps, of those that stand there on its account."""
    lived = {sieve: Lived(sieve) for sieve in sieves if sieve.remember is not None}
    held = {sieve: _Held(sieve, layout.before.get(sieve)) for sieve in sieves if sieve not in lived}
    begun = _begun_before(tables) if any(sieve.apart for sieve in held) else _NONE
    for table in tables if sieves else ():
        for sieve, one in lived.items():
            one.add(table, Chooser(table).any_of(sieve.rows))
        some, begun = _until(table, begun)
        for sieve, rows in held.items():
            about = _about(sieve, table)
            rows.add(about if sieve.apart is None else pa.concat_tables([_about(sieve, some), about]))
    if disordered := {sieve: one for sieve, one in lived.items() if one.disordered}:
        for table in tables:
            for sieve, one in disordered.items():
                one.add_all(table, Chooser(table).any_of(sieve.rows))
    kept = {sieve: numbers.distinct(_index(rows.kept())) for sieve, rows in held.items()}
    return kept | {sieve: one.kept() for sieve, one in lived.items()}


def _begun_before(tables: Iterable[pa.Table]) -> pa.Table:
    """Return the beginnings that ends in later tables repeat, in the order of their rows. Who must know what comes
    before a row, and is asked before the end is there, needs them in their place."""
    begun = []
    for table in tables:
        is_late = table["op"].to_numpy() < _index(table).min(initial=np.iinfo(np.int64).max)
        ends = table.filter(pa.array(whole_ends(table) & is_late))
        begun.append(BegunBy.of(ends).rows(ends))
    return _joined(begun).sort_by("index")


def _until(table: pa.Table, begun: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return those beginnings that come before the last row of a table, and those that come after it."""
    number = int(np.searchsorted(_index(begun), _index(table).max(initial=-1)))
    return begun.slice(0, number), begun.slice(number)


class _Held:
    """The rows of a shard that a sieve is about, in their order. Each time that there are many it is asked about them,
    and only what it keeps is held on."""

    def __init__(self, sieve: Sieve, before: pa.Table | None) -> None:
        self._sieve = sieve
        self._tables = [] if before is None else [sieve.only(before)]
        self._folds = before is None
        self._rows, self._most = 0, MOST_ROWS

    def add(self, rows: pa.Table) -> None:
        self._tables.append(rows)
        self._rows += rows.num_rows
        if self._folds and self._rows > self._most:
            self._tables = [self.kept()]
            self._rows = self._tables[0].num_rows
            self._most = max(MOST_ROWS, 2 * self._rows)

    def kept(self) -> pa.Table:
        rows = _joined(self._tables, self._sieve.only(_NONE))
        return _at(rows, self._sieve.keep(rows))


def _about(sieve: Sieve, table: pa.Table) -> pa.Table:
    """Return the rows that a sieve is about, which don't stand beside."""
    found = Chooser(table).any_of(sieve.rows)
    if BESIDE in table.column_names:
        found = found & ~table[BESIDE].to_numpy()
    return sieve.only(table).filter(pa.array(found))


def _kept_of_each(layout: Layout, choice: Choice, rows: pa.Table) -> Ints:
    """Return what the sieve of a choice keeps: of all rows, or of those of each shard for itself."""
    if choice.part < 0:
        return numbers.distinct(choice.sieve.keep(rows))
    part = layout.parts[choice.part]
    chooser = layout.chooser(rows)
    own = chooser.any_of(part.maybe_own)
    shard = layout.buckets[choice.part].numbers(chooser.keys(part.key, own), own)
    found = [np.empty(0, np.int64)]
    for one in np.unique(shard).tolist():
        found.append(choice.sieve.keep(rows.filter(pa.array(shard == one))))
    return numbers.distinct(np.concatenate(found))


def _at(rows: pa.Table, index: Ints) -> pa.Table:
    return rows.filter(pa.array(numbers.among(_index(rows), index)))


def _once(rows: pa.Table) -> pa.Table:
    """Return rows, each once: as its own one where a row of a shard stands beside it too."""
    index = _index(rows)
    if np.all(index[1:] > index[:-1]):
        return rows.unify_dictionaries()
    beside = rows[BESIDE].to_numpy() if BESIDE in rows.column_names else np.zeros(len(index), np.bool_)
    order = np.lexsort((beside, index))
    again = order[1:][index[order][1:] == index[order][:-1]]
    if not len(again):
        return rows.unify_dictionaries()
    left = np.ones(len(index), np.bool_)
    left[again] = False
    return rows.unify_dictionaries().filter(pa.array(left))


def _joined(tables: Iterable[pa.Table], none: pa.Table = _NONE) -> pa.Table:
    return pa.concat_tables([none, *tables]).unify_dictionaries().combine_chunks()


def _index(rows: pa.Table) -> Ints:
    return np.asarray(rows["index"].to_numpy(), np.int64)
