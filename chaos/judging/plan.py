"""Which rows stand together for whom: computed from what the laws declare, never from a list of names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos.history.parted import choosing
from chaos.history.parted.choosing import OF_QUEUES, Chosen, Part
from chaos.history.run_meta import RunMeta
from chaos.judging.registry import KernelId
from chaos.judging.shard import Shard
from chaos.kernel import Kernel, Key, Needs, Reads, Sieve
from chaos.shard_rows import Rows

#: The only shard of a small run, with everything.
WHOLE = "all-0"
#: Where a shard needs only some of its own rows whether queues are parted or not.
SIFTED = (Key.RUN, Key.NODE, Key.CALL)
#: What the parts are called that take the place of one whose queues have too many rows.
_SPLIT = {Key.QUEUE: "whole", Key.OFFSET: "range", Key.MESSAGE: "message", Key.CALL: "call"}


@dataclass(slots=True)
class _Family:
    """Kernels that share shards: of one key, and of one mind about which rows each shard needs in full. ``parted``:
    where a queue has more rows than a shard should."""

    name: str
    key: Key
    kernels: list[KernelId] = field(default_factory=list)
    needs: list[Needs] = field(default_factory=list)
    parted: bool = False

    def takes(self, needs: Needs) -> bool:
        if self.key != _shared(needs) or any(_at_odds(needs, known) for known in self.needs):
            return False
        return self.key not in SIFTED or not any(_spoil(needs, known) for known in self.needs)

    def split(self) -> list[_Family]:
        """Return what takes its place where a queue has more rows than a shard should: the kernels that need whole
        queues, and those that need an offset's rows together."""
        found: dict[Key, _Family] = {}
        if not self.parted and self.key == Key.QUEUE and any(map(_splits, self.needs)):
            for number, needs in zip(self.kernels, self.needs, strict=True):
                one = found.setdefault(needs.key, _Family(f"{self.name}.{_SPLIT[needs.key]}", needs.key, parted=True))
                one.kernels.append(number)
                one.needs.append(needs)
        return [*found.values()]

    def part(self, meta: RunMeta | None) -> Part:
        busy = [needs for needs in self.needs if not _is_idle(needs, meta)]
        reads = [_fitted(one, meta) for needs in busy for one in _read(needs, self.parted)]
        reads = [replace(one, sieve=None) if _is_in_the_way(one, reads) else one for one in reads]
        beside = [one for one in reads if one.beside and self.key in OF_QUEUES]
        sifts = self.parted or self.key in SIFTED
        sifted = [one for one in reads if sifts and _is_sifted(one, meta is None or meta.one_clock)]
        here = [one for one in reads if one not in beside and one not in sifted]
        return Part(
            name=self.name,
            key=str(self.key),
            split=tuple(one.part(meta) for one in self.split()),
            own=_chosen(one for one in here if not _in_full(one)),
            everywhere=_chosen(one for one in here if _in_full(one) and one.sieve is None),
            sieves=_sieves(one for one in here if _in_full(one)),
            beside=_chosen(one for one in beside if one.everywhere and one.sieve is None),
            callers=_chosen(one for one in beside if not one.everywhere and one.sieve is None),
            summaries=_sieves(beside),
            sifted=_sieves(sifted),
            lookups=_lookups(self.needs) if self.parted else (),
        )


@dataclass(frozen=True, slots=True)
class _Keep:
    """What a law's sieve keeps, or remembers, for those who know no laws."""

    choose: Callable[[Rows], npt.NDArray[np.int64]]

    def __call__(self, table: pa.Table) -> npt.NDArray[np.int64]:
        rows = Shard(table)
        try:
            return rows.recorded[self.choose(rows)]
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError):
            return rows.recorded  # a value is not what it should be: what that means, the kernel decides
        finally:
            rows.forget()


def _sieve(sieve: Sieve) -> choosing.Sieve:
    remember, sure = (None if one is None else _Keep(one) for one in (sieve.remember, sieve.sure))
    apart = None if sieve.apart is None else _sieve(sieve.apart)
    before = _chosen(sieve.before)
    keep = _Keep(sieve.keep)
    return choosing.Sieve(_chosen(sieve.rows), sieve.columns, keep, remember, sure, apart, before, sieve.streamed)


def _sieves(reads: Iterable[Reads]) -> tuple[choosing.Sieve, ...]:
    return tuple(dict.fromkeys(_sieve(one.sieve) for one in reads if one.sieve is not None))


def plan(kernels: Mapping[KernelId, Kernel], meta: RunMeta | None = None) -> tuple[Part, ...]:
    """How the rows of a large run are to be parted for these kernels. ``meta``: the ``run.json`` of that run; a plan
    without one leaves less out, and does for every run."""
    return tuple(family.part(meta) for family in _families(kernels))


def served(shard: str, kernels: Mapping[KernelId, Kernel]) -> tuple[KernelId, ...] | None:
    """Which kernels look at the shard of this name; None for a shard that no plan has."""
    if shard.startswith("all-"):
        return tuple(kernels)
    name = shard.rpartition("-")[0]
    every = (one for family in _families(kernels) for one in (family, *family.split()))
    return next((tuple(family.kernels) for family in every if family.name == name), None)


#: The families of kernels that were asked about before, by the identity of these; and the kernels, which keeps each
#: identity from being another kernel's later.
_KNOWN: dict[tuple[tuple[KernelId, int], ...], tuple[list[_Family], list[Kernel]]] = {}


def _families(kernels: Mapping[KernelId, Kernel]) -> list[_Family]:
    key = tuple((number, id(law)) for number, law in kernels.items())
    if key not in _KNOWN:
        _KNOWN[key] = _found_families(kernels), [*kernels.values()]
    return _KNOWN[key][0]


def _found_families(kernels: Mapping[KernelId, Kernel]) -> list[_Family]:
    found: list[_Family] = []
    for number, law in kernels.items():
        family = next((one for one in found if one.takes(law.needs)), None)
        if family is None:
            key = _shared(law.needs)
            same = sum(one.key == key for one in found)
            family = _Family(f"{key}{same + 1}" if same else str(key), key)
            found.append(family)
        family.kernels.append(number)
        family.needs.append(law.needs)
    return found


def _shared(needs: Needs) -> Key:
    """Whose shards a kernel looks at, unless a queue has too many rows. Calls that have no queue are parted always."""
    if needs.key is Key.CALL and all(reads.queueless for reads in needs.rows):
        return Key.CALL
    return Key.QUEUE if needs.key in OF_QUEUES else needs.key


def _at_odds(one: Needs, other: Needs) -> bool:
    """Return whether some rows are wanted in full by one of them, and by key by the other: then one would count them
    twice."""
    return any(_in_full(a) != _in_full(b) and _overlap(a, b) for a in _read(one) for b in _read(other))


def _spoil(one: Needs, other: Needs) -> bool:
    """Return whether a sieve of one of them would have to go for the sake of the other, so that a shard would have all
    of its rows."""
    both = (*one.rows, *other.rows)
    return any(
        _is_in_the_way(reads, both)
        for mine in (one, other)
        for reads in mine.rows
        if not _is_in_the_way(reads, mine.rows)
    )


def _read(needs: Needs, parted: bool = False) -> Iterator[Reads]:
    """Yield the rows that a kernel must have; where queues aren't ``parted``, those too by which it looks things up."""
    yield from needs.rows
    for lookup in () if parted else needs.lookups:
        yield from lookup.rows


def _lookups(needs: Iterable[Needs]) -> tuple[choosing.Lookup, ...]:
    every = dict.fromkeys(lookup for one in needs for lookup in one.lookups)
    return tuple(choosing.Lookup(_chosen(lookup.rows), lookup.make) for lookup in every)


def _in_full(reads: Reads) -> bool:
    """Return whether every shard has all of them, where queues are whole."""
    return reads.everywhere and not reads.beside


def _is_idle(needs: Needs, meta: RunMeta | None) -> bool:
    """Return whether a kernel looks at no rows of this run, since no workload uses what it is about."""
    return needs.idle and meta is not None and meta.uses.isdisjoint(needs.uses)


def _fitted(reads: Reads, meta: RunMeta | None) -> Reads:
    """With the sieve for a run of this profile, or without one if it is unknown."""
    if reads.sieve is None or reads.sieve.fitted is None:
        return reads
    return replace(reads, sieve=None if meta is None else reads.sieve.fitted(meta.promises))


def _is_in_the_way(reads: Reads, family: Sequence[Reads]) -> bool:
    """Return whether a kernel wants some of these rows otherwise than their sieve keeps them."""
    if reads.sieve is None or not reads.sieve.together:
        return False
    mine = [one for one in family if one.sieve is reads.sieve]
    others = [one for one in family if one.sieve is not reads.sieve]
    return any(_overlap(one, other) for one in mine for other in others)


def _overlap(one: Reads, other: Reads) -> bool:
    return one.kind == other.kind and (not one.f or not other.f or not set(one.f).isdisjoint(other.f))


def _is_sifted(reads: Reads, one_clock: bool = False) -> bool:
    """Return whether a shard needs only some of its own rows of this kind, where a queue is parted, of nodes, or for
    the whole run."""
    if reads.sieve is None or (reads.sieve.many_clocks and one_clock):
        return False
    return not reads.everywhere and not reads.beside


def _splits(needs: Needs) -> bool:
    """Return whether a kernel needs less than all rows of a queue together."""
    return needs.key in OF_QUEUES or any(map(_is_sifted, needs.rows))


def _chosen(reads: Iterable[Reads]) -> tuple[Chosen, ...]:
    """Return the rows that these declarations cover, as few choices as it takes."""
    by_kind: dict[tuple[str, bool], set[str] | None] = {}
    for one in reads:
        key = (one.kind, one.queueless)
        known = by_kind.setdefault(key, set())
        by_kind[key] = None if known is None or not one.f else known | set(one.f)
    return tuple(Chosen(kind, tuple(sorted(fs or ())), queueless) for (kind, queueless), fs in sorted(by_kind.items()))
