"""Kernels of a law about queues find the same when each is given its own rows alone, and what it asks for beside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from chaos.history.parted.places import Places
from chaos.history.run_meta import RunMeta
from chaos.judging.declared import Declared
from chaos.judging.shard import Shard
from chaos.kernel import Kernel, Key, Needs, Reads, Sieve
from chaos.law import Law, RunContext
from chaos.shard_rows import Rows
from checkers import durability
from checkers._facts.retention import TRIMMED
from checkers.durability import tops
from tests.checkers.harms import EMPTIED, HARMS
from tests.checkers.histories import REPORTED, as_given, places_kept
from tests.checkers.recorded import recording
from tests.checkers.slow.random_clients import clients
from tests.checkers.test_ranges import OFFSETS, RELAXED, merged, told

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
KERNELS = {
    law.needs.part: law
    for law in durability.create(durability.Options())
    if not isinstance(law, Law)
    and law.needs.key not in (Key.RUN, Key.NODE)  # their shards are of other things than queues
}


class Parted(Shard):
    """A shard some of whose rows stand beside its own. What is known of queues is made of the ``whole`` run."""

    def __init__(self, table: pa.Table, own: Flags, whole: Shard) -> None:
        lookups = {TRIMMED.make: whole.lookup(TRIMMED.make)}
        super().__init__(table, lookups)
        self._own = own[np.searchsorted(table["index"].to_numpy(), self.recorded)]
        self._every = Shard(table, lookups)

    @property
    def beside(self) -> Shard:
        return self._every

    @property
    def own(self) -> Flags:
        return self._own

    def where(self, **equals: str | int) -> Ints:
        found = super().where(**equals)
        return found[self._own[found]]


def covered(rows: Rows, reads: Sequence[Reads]) -> Flags:
    found = np.zeros(len(rows), np.bool_)
    for one in reads:
        for f in one.f or ("",):
            found[rows.where(kind=one.kind, f=f) if f else rows.where(kind=one.kind)] = True
    return found


def keys(table: pa.Table, key: Key, rng: Random) -> Ints:
    """Numbers that the rows share which a kernel needs together."""
    if key == Key.OFFSET:
        return Places(rng.choice(OFFSETS)).of(table)
    if key == Key.MESSAGE:
        return np.asarray(table["message"].to_numpy(), np.int64) % rng.choice((2, 3, 17))
    return np.asarray(table["queue"].to_numpy(), np.int64)


def kept(table: pa.Table, mine: Flags, sieve: Sieve) -> Ints:
    """Where the rows stand that a sieve keeps of these."""
    at = np.flatnonzero(mine & covered(as_given(table), sieve.rows))
    return at[places_kept(table.take(pa.array(at)), sieve.keep)]


def parts(table: pa.Table, needs: Needs, rng: Random) -> list[Rows]:
    rows, key, whole = as_given(table), keys(table, needs.key, rng), Shard(table)
    own = covered(rows, [one for one in needs.rows if not one.everywhere and not one.beside])
    fixed = [one for one in needs.rows if one.everywhere and not one.beside]
    everywhere = covered(rows, [replace(one, sieve=None) for one in fixed])
    number = np.array([rng.randrange(4) for _ in range(1 << 10)])[key % (1 << 10)]
    beside = covered(rows, [one for one in needs.rows if one.beside and one.everywhere])
    for one in needs.rows:
        if one.beside and one.sieve is not None:
            for shard in range(4):
                beside[kept(table, number == shard, one.sieve)] = True
    found = []
    for shard in range(4):
        mine = own & (number == shard) & ~everywhere
        near = beside.copy()
        delivering = np.unique(rows.column("op")[mine & covered(rows, [Reads(kind="op", f=("delivered",))])])
        asked = covered(rows, [one for one in needs.rows if one.beside and not one.everywhere and one.sieve is None])
        near |= asked & (np.isin(rows.column("index"), delivering) | np.isin(rows.column("op"), delivering))
        held = mine | everywhere | near
        found.append(Parted(table.filter(pa.array(held)), (mine | everywhere)[held], whole))
    return found


def check(law: Kernel, table: pa.Table, context: RunContext, rng: Random) -> int:
    whole = told(law, law.examine(Declared(Shard(table), law.needs, strict=True), context), context)
    found = [law.examine(Declared(rows, law.needs, strict=True), context) for rows in parts(table, law.needs, rng)]
    assert told(law, merged(found, rng), context) == whole
    return sum(whole["numbers"].values()) + len(whole["gaps"]) + len(whole["why"])  # type: ignore


def check_random(law: Kernel, seeds: range) -> None:
    some = 0
    for seed in seeds:
        rng = Random(f"parted {seed}")
        meta = {"deployment": "sim", "tells": list(REPORTED), **({"profile": RELAXED} if rng.random() < 0.2 else {})}
        some += check(law, clients(rng), RunContext(run="random", seed=seed, meta=RunMeta.of(meta)), rng) > 0
    assert some > len(seeds) / 4


def check_harmed(law: Kernel, seed: int, every: int) -> None:
    for harm in [*HARMS, *EMPTIED][seed % every :: every]:
        rng = Random(f"parted {harm.__name__} {seed}")
        run = recording().copy()
        harm(run, rng)
        check(law, run.table(), RunContext(run=harm.__name__, seed=seed, meta=RunMeta.of(run.meta)), rng)


@pytest.mark.parametrize("part", KERNELS)
def test_random_histories_may_be_parted(part: str) -> None:
    check_random(KERNELS[part], range(20))


@pytest.mark.full
@pytest.mark.parametrize("part", KERNELS)
def test_many_random_histories_may_be_parted(part: str) -> None:
    check_random(KERNELS[part], range(20, 250))


@pytest.mark.parametrize("part", KERNELS)
def test_harmed_runs_may_be_parted(part: str) -> None:
    check_harmed(KERNELS[part], seed=2, every=60)


@pytest.mark.full
@pytest.mark.parametrize("part", KERNELS)
def test_every_second_harmed_run_may_be_parted(part: str) -> None:
    check_harmed(KERNELS[part], seed=0, every=2)


def test_only_deletions_need_a_whole_queue() -> None:
    assert {law.needs.key for law in KERNELS.values()} == {Key.OFFSET, Key.MESSAGE, Key.QUEUE}
    assert [part for part, law in KERNELS.items() if law.needs.key is Key.QUEUE] == ["what replicas deleted"]


def test_few_rows_say_how_far_queues_go() -> None:
    sieve = tops.READS.sieve
    assert sieve is not None
    for seed in range(30):
        table = clients(Random(f"tops {seed}"))
        assert len(kept(table, np.ones(table.num_rows, np.bool_), sieve)) < 40
