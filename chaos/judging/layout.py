"""How the rows of a large run are divided among the tasks that examine them: shards of parts, and what all of them
share. A piece of the run is divided without the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from chaos.driver import Profile
from chaos.history.ends import without, without_beginnings
from chaos.history.parted import numbers
from chaos.history.parted.beside import Operations
from chaos.history.parted.choosing import OF_QUEUES, Buckets, Chooser, Chosen, Flags, Ints, Lookup, Part, Sieve
from chaos.history.parted.places import Places
from chaos.history.run_meta import RunMeta
from chaos.judging.packing import Lean, unpack
from chaos.judging.plan import plan
from chaos.judging.registry import registry

#: The buckets of rows that every shard may need, as they are; of those that say whether a run shows anything; and of
#: what pieces bring to its digest. The others follow: of each queue what is made of it for all shards; those of each
#: choice; shards.
PLAIN, RARE, DIGEST = range(3)
FIRST_QUEUE = 3
#: A row of an object takes as long to examine as so many others.
PER_OBJECT_ROW = 64


@dataclass(frozen=True, slots=True)
class Choice:
    """Rows that all shards of a part may need, of which ``sieve`` keeps some. ``part``: where the sieve is given those
    of each shard by themselves, and of none, the number of the part whose shards these are; -1 where of all
    together."""

    sieve: Sieve
    part: int = -1


@dataclass(frozen=True, eq=False)
class Layout:
    """``split``: the parts of the plan that others take the place of; ``buckets``: of each part that is left, in which
    shard each key stands; ``left_out``: the beginnings that ends in other pieces repeat; ``goals``: rows that are
    wanted besides; ``known_before``: of each sieve that must know rows before all others, what it keeps of these;
    ``queues``: those of which anything is made for all shards, ascending. It travels between processes, unless its
    ``plan`` is another one than that of all kernels for a run. ``offsets``: so many of a queue that follow one another
    are never parted."""

    meta: RunMeta
    plan: tuple[Part, ...] | None = None
    offsets: int | None = None
    split: frozenset[str] = frozenset()
    buckets: tuple[Buckets, ...] = ()
    left_out: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    goals: tuple[Chosen, ...] = ()
    known_before: tuple[bytes, ...] = ()
    queues: tuple[int, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        found: list[Part] = []
        for part in self.planned:
            found += part.split if part.name in self.split else (part,)
        return tuple(found)

    @property
    def planned(self) -> tuple[Part, ...]:
        """The parts of the plan, of which none is split."""
        return parts_of(self.meta) if self.plan is None else self.plan

    def chooser(self, rows: pa.Table) -> Chooser:
        """Return who finds among the rows of a piece those that a part wants."""
        return Chooser(rows, places=Places(self.offsets))

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """All that is chosen for shards by sieves, each once."""
        found = [Choice(sieve) for part in self.parts for sieve in part.sieves]
        found += [Choice(sieve, number) for number, part in enumerate(self.parts) for sieve in part.summaries]
        return tuple(dict.fromkeys(found))

    @cached_property
    def before(self) -> Mapping[Sieve, pa.Table]:
        """What sieves must know before all other rows."""
        return dict(zip(ordered(self.parts), map(unpack, self.known_before), strict=False))

    @cached_property
    def plain(self) -> tuple[Chosen, ...]:
        """Which rows all shards may need, as they are."""
        found = [one for part in self.parts for one in (*part.everywhere, *part.beside)]
        return tuple(dict.fromkeys([*found, *self.goals]))

    @cached_property
    def lookups(self) -> tuple[Lookup, ...]:
        """What is made of each queue for all shards."""
        return tuple(dict.fromkeys(one for part in self.parts for one in part.lookups))

    @cached_property
    def shards(self) -> tuple[tuple[int, int], ...]:
        """All shards, as (number of the part, number of the shard), in the order of their buckets."""
        return tuple((part, one) for part, buckets in enumerate(self.buckets) for one in buckets.filled)

    @property
    def first_choice(self) -> int:
        """The bucket of the first choice."""
        return FIRST_QUEUE + len(self.queues)

    @property
    def first_shard(self) -> int:
        """The bucket of the first shard."""
        return self.first_choice + len(self.choices)

    @property
    def count(self) -> int:
        """How many buckets there are."""
        return self.first_shard + len(self.shards)

    @cached_property
    def _bucket_of(self) -> Mapping[tuple[int, int], int]:
        return {shard: self.first_shard + at for at, shard in enumerate(self.shards)}

    def name(self, bucket: int) -> str:
        """Return the name of the shard of a bucket, by which a plan knows it."""
        part, shard = self.shards[bucket - self.first_shard]
        return f"{self.parts[part].name}-{shard}"

    def divide(self, rows: pa.Table) -> Iterator[tuple[int, bytes]]:
        """Yield what the rows of a piece bring to the buckets, packed."""
        rows = without(without_beginnings(rows)[0], self.left_out)
        chooser, lean = self.chooser(rows), Lean.of(rows)
        yield from _packed(PLAIN, lean, chooser.any_of(self.plain))
        yield from self._of_queues(chooser, lean)
        together = np.zeros(rows.num_rows, np.int64)
        sifted = cache(lambda sieve: self._sifted(sieve, rows, chooser, together))
        places = [self._places(chooser, number, sifted) for number in range(len(self.parts))]
        for bucket, choice in enumerate(self.choices, start=self.first_choice):
            of_each = choice.part >= 0
            kept = self._sifted(choice.sieve, rows, chooser, places[choice.part]) if of_each else sifted(choice.sieve)
            yield from _packed(bucket, lean, kept)
        for number, part in enumerate(self.parts):
            callers = Operations.of(part, rows, chooser, places[number]) if part.callers else None
            yield from self._of_part(number, lean, places[number], callers)

    def _of_queues(self, chooser: Chooser, rows: Lean) -> Iterator[tuple[int, bytes]]:
        """Yield the rows of which something is made of each queue."""
        chosen = chooser.any_of([one for lookup in self.lookups for one in lookup.rows])
        for bucket, queue in enumerate(self.queues, start=FIRST_QUEUE):
            yield from _packed(bucket, rows, chosen & (chooser.keys("queue") == queue))

    def _places(self, chooser: Chooser, number: int, sifted: Callable[[Sieve], Flags]) -> Ints:
        """In which shard of a part each row may have its own place, -1 for none."""
        part = self.parts[number]
        own = chooser.any_of(part.own)
        for sieve in part.sifted:
            if sieve.apart is None:
                own = own | sifted(sieve)
            else:
                own = own | (chooser.any_of(sieve.rows) & (~chooser.any_of(sieve.apart.rows) | sifted(sieve.apart)))
        return self.buckets[number].numbers(chooser.keys(part.key, own), own) if own.any() else np.full(len(own), -1)

    def _sifted(self, sieve: Sieve, rows: pa.Table, chooser: Chooser, shard: Ints) -> Flags:
        """Of the rows that a sieve is about, those that it may keep, of each shard for itself. What a streamed one
        keeps of each piece is enough."""
        chosen = chooser.any_of(sieve.rows)
        if sieve.remember is not None or not sieve.streamed or not chosen.any():
            return chosen
        before = self.before.get(sieve) if sieve.before else None
        if before is not None:
            chosen = chosen & ~chooser.any_of(sieve.before)
        found = np.zeros(rows.num_rows, np.bool_)
        read = sieve.only(rows)
        for one in np.unique(shard[chosen]).tolist():
            at = np.flatnonzero(chosen & (shard == one))
            table = read.take(pa.array(at))
            given = table if before is None else pa.concat_tables([sieve.only(before), table]).unify_dictionaries()
            found[at[np.isin(table["index"].to_numpy(), sieve.keep(given))]] = True
        return found

    def _of_part(self, number: int, rows: Lean, place: Ints, callers: Operations | None) -> Iterator[tuple[int, bytes]]:
        part = self.parts[number]
        order = np.argsort(place.astype(np.int16) if int(place.max(initial=0)) < 1 << 15 else place, kind="stable")
        bounds = np.searchsorted(place[order], np.arange(int(place.max(initial=-1)) + 2))
        for shard in self.buckets[number].filled if len(place) else ():
            own = order[slice(*bounds[shard : shard + 2])] if shard + 1 < len(bounds) else order[:0]
            wanted = own
            if callers is not None:
                chosen = place == shard
                chosen[callers.rows[numbers.among(callers.calls, callers.op[callers.shard == shard])]] = True
                wanted = np.flatnonzero(chosen)
            if not len(wanted):
                continue
            beside = place[wanted] != shard if part.has_beside else None
            yield self._bucket_of[number, shard], rows.pack(wanted, beside)


def _packed(bucket: int, rows: Lean, chosen: Flags) -> Iterator[tuple[int, bytes]]:
    if chosen.any():
        yield bucket, rows.pack(np.flatnonzero(chosen))


#: What the parts of a plan depend on, and these: a worker is asked about many pieces of one run.
_PLANS: dict[tuple[Profile, bool, frozenset[str], int], tuple[Part, ...]] = {}


def parts_of(meta: RunMeta) -> tuple[Part, ...]:
    """Return the plan of all kernels for a run."""
    known = registry()
    key = (meta.promises, meta.one_clock, meta.uses, id(known))
    if key not in _PLANS:
        _PLANS[key] = plan(known.kernels, meta)
    return _PLANS[key]


def ordered(parts: Sequence[Part]) -> tuple[Sieve, ...]:
    """Return the sieves that must know some rows before all others."""
    return tuple(dict.fromkeys(sieve for part in parts for sieve in part.sifted if sieve.before))


def kept_before(sieve: Sieve, rows: pa.Table) -> pa.Table:
    """Return what such a sieve keeps of the rows that it must know before all others."""
    known = rows.filter(pa.array(Chooser(rows).any_of(sieve.before)))
    return known.filter(pa.array(np.isin(known["index"].to_numpy(), sieve.keep(known))))


def counted(chooser: Chooser, parts: Sequence[Part]) -> list[tuple[Ints, Ints]]:
    """Return of each part the keys of the rows of a piece that may be its own, ascending, and how many each has."""
    found = []
    for part in parts:
        own = chooser.any_of(part.maybe_own)
        keys = chooser.keys(part.key, own)[own] if own.any() else np.empty(0, np.int64)
        found.append(np.unique(keys, return_counts=True))
    return found


def buckets_of(parts: Sequence[Part], counts: Sequence[tuple[Ints, Ints]], most: int) -> tuple[Buckets, ...]:
    """Return in which shards the keys of each part stand. A key may have ``most`` rows, and several that share a shard
    half as many, or a quarter where a queue is parted, since what stands beside comes to that: a worker needs half a
    kilobyte of memory for each. What is asked of objects takes longer for each row; and of nodes and groups so long
    that each of them has a shard of its own."""
    shared = {**dict.fromkeys(OF_QUEUES, max(1, most // 4)), "object": max(1, most // PER_OBJECT_ROW)}
    found = []
    for part, (keys, rows) in zip(parts, counts, strict=True):
        of_queues = max(most // 2, int(rows.max(initial=1)))  # one queue with more is no reason to part the others
        found.append(Buckets.of(part, keys, rows, of_queues if part.key == "queue" else shared.get(part.key, 0)))
    return tuple(found)
