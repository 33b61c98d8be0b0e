"""What groups were given is judged as by the oracle, in one piece and in parts of queues."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from random import Random

import pytest

from chaos.findings import cap
from chaos.history.run_meta import RunMeta
from chaos.judging.declared import Declared
from chaos.judging.registry import registry
from chaos.judging.shard import Shard
from chaos.law import Partial, RunContext
from chaos.verdict import Validity
from checkers.deliveries import PROMISE, in_order, missing
from checkers.deliveries.in_order import InOrder
from tests.checkers.harms import EMPTIED, HARMS
from tests.checkers.histories import REPORTED
from tests.checkers.recorded import recording
from tests.checkers.slow.deliveries import Deliveries
from tests.checkers.slow.random_receivers import receivers
from tests.checkers.test_ranges import MOST, MOST_OF_A_RUN, RELAXED, check

KERNELS = [law for law in registry().kernels.values() if law.promise.name == PROMISE.name]
USES = ["queues", "deliveries"]


def a_context(rng: Random, seed: int) -> RunContext:
    meta = {"deployment": "sim", "tells": list(REPORTED), "uses": USES}
    return RunContext(
        run="random", seed=seed, meta=RunMeta.of(meta | ({"profile": RELAXED} if rng.random() < 0.2 else {}))
    )


def told(partial: Partial) -> dict[str, object]:
    """Without what is said of each violation, which the oracle leaves out."""
    counts = {name: number for name, number in partial.counts.items() if number}
    anomalies = [replace(one, explanation="") if one.rows else one for one in cap(PROMISE, partial.anomalies)]
    return {"counts": counts, "anomalies": anomalies, "gaps": sorted(partial.gaps)}


def together(found: Partial) -> Partial:
    """What the judgements make of what both kernels tell."""
    orderly = [fact for fact in found.facts if "early" in fact]
    others = [fact for fact in found.facts if "early" not in fact]
    more = [in_order.out_of_order(orderly), *(make(others) for make in (missing.repeated, missing.unknown))]
    return reduce(Partial.merge, [found, *more, missing.withheld(others)])


def check_alike(seeds: range) -> None:
    names: set[str] = set()
    for seed in seeds:
        rng = Random(f"given {seed}")
        rows, context = Shard(receivers(rng)), a_context(rng, seed)
        partials = [law.examine(Declared(rows, law.needs), context) for law in KERNELS]
        oracle = Deliveries()
        whole = told(oracle.examine(Declared(rows, oracle.needs), context))
        assert told(together(reduce(Partial.merge, partials))) == whole, seed
        names |= {anomaly.name for anomaly in whole["anomalies"]}  # type: ignore[attr-defined]
    assert names >= {kind.name for kind in PROMISE.anomalies if not kind.lawful}


def test_what_groups_were_given_is_judged_as_by_the_oracle() -> None:
    check_alike(range(60))


@pytest.mark.full
def test_what_groups_were_given_in_hundreds_of_histories_is_judged_as_by_the_oracle() -> None:
    check_alike(range(60, 150))


def check_random(seeds: range) -> None:
    parts = anomalies = 0
    for seed in seeds:
        rng = Random(f"given {seed}")
        table, context = receivers(rng), a_context(rng, seed)
        for law in KERNELS:
            some = check(law, table, context, rng, rng.choice(MOST))
            parts, anomalies = parts + some[0], anomalies + some[1]
    assert parts > 10 * len(seeds) and anomalies > len(seeds)


def test_what_groups_were_given_may_be_parted_anywhere() -> None:
    check_random(range(12))


@pytest.mark.full
def test_what_groups_were_given_may_be_parted_anywhere_in_hundreds_of_histories() -> None:
    check_random(range(12, 80))


def check_harmed(seed: int, every: int) -> None:
    for harm in [*HARMS, *EMPTIED][seed % every :: every]:
        rng = Random(f"given {harm.__name__} {seed}")
        run = recording().copy()
        harm(run, rng)
        context = RunContext(run=harm.__name__, seed=seed, meta=RunMeta.of({**run.meta, "uses": USES}))
        for law in KERNELS:
            check(law, run.table(), context, rng, rng.choice(MOST_OF_A_RUN))


def test_harmed_runs_may_be_parted_anywhere() -> None:
    check_harmed(seed=5, every=120)


@pytest.mark.full
def test_every_second_harmed_run_may_be_parted_anywhere() -> None:
    check_harmed(seed=0, every=2)


def test_what_a_lost_shard_would_have_told_is_not_missing() -> None:
    lost = Partial(gaps=("a shard was lost",))
    wrong = 0
    for seed in range(20):
        rng = Random(f"given {seed}")
        rows, context = Shard(receivers(rng)), a_context(rng, seed)
        for law in KERNELS:
            partial = law.examine(Declared(rows, law.needs), context)
            whole, verdict = law.judge(partial, context), law.judge(partial.merge(lost), context)
            assert verdict.validity in (Validity.UNKNOWN, Validity.INVALID) and "a shard was lost" in verdict.why
            assert {one.name for one in verdict.anomalies} <= {one.name for one in partial.anomalies}
            assert not isinstance(law, InOrder) or verdict.validity is Validity.UNKNOWN
            wrong += whole.validity is Validity.INVALID
    assert wrong
