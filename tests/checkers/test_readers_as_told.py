"""Kernels about who waits, about what readers are told of queues, and about what acknowledgements stood on find what
oracles find that were written from the promise, row after row."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from chaos import findings
from chaos.driver import Evidence
from chaos.history.run_meta import RunMeta
from chaos.judging.declared import Declared
from chaos.judging.shard import Shard
from chaos.kernel import Kernel
from chaos.law import Partial, RunContext
from checkers.durability.copies import Copies
from checkers.progress.stale_maximums import StaleMaximums
from checkers.progress.stale_minimums import StaleMinimums
from checkers.progress.waiting import Waiting
from tests.checkers.histories import REPORTED
from tests.checkers.slow import bounds as slow_bounds
from tests.checkers.slow import copies as slow_copies
from tests.checkers.slow import waiting as slow_waiting
from tests.checkers.slow.random_bounds import bounds
from tests.checkers.slow.random_storms import readers
from tests.checkers.slow.random_waiters import waiters
from tests.checkers.test_sieves import GROUP, whole


@pytest.fixture(autouse=True)
def _all_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each anomaly by itself, however many there are."""
    monkeypatch.setattr(findings, "MAX_REPORTED", 1 << 30)


def context_of(rng: Random, seed: int, profile: dict[str, Any]) -> RunContext:
    tells = [one for one in REPORTED if one != Evidence.CONFIRM or rng.random() < 0.8]
    meta: dict[str, Any] = {"deployment": rng.choice(("sim", "sim", "process")), "tells": tells, "profile": profile}
    meta["bounds"] = {"available_s": rng.choice((1, 1, 1, 3)), "route_s": rng.choice((0.5, 1, 5))}
    meta["jitter_s"] = rng.choice((0, 0.01, 0.1))
    return RunContext(run="random", seed=seed, meta=RunMeta.of(meta))


def examine(law: Kernel, table: pa.Table, context: RunContext) -> Partial:
    return law.examine(Declared(Shard(table), law.needs), context)


def check_waiting(seeds: range) -> None:
    late = stalled = unsure = 0
    for seed in seeds:
        rng = Random(f"waiting {seed}")
        context = context_of(rng, seed, rng.choice(({}, {}, {"acks": "master"})))
        for table in (waiters(rng), readers(rng)):
            found = examine(Waiting(), table, context)
            told = sorted((one.name, tuple(one.rows), one.queue) for one in found.anomalies)
            longest = max((fact["longest_replica_wait_ms"] for fact in found.facts), default=0)
            assert (told, len(found.gaps), longest) == slow_waiting.examine(Shard(table), context), seed
            late += sum(name == "woken-late" for name, *_ in told)
            stalled += sum(name == "stalled" for name, *_ in told)
            unsure += len(found.gaps)
    assert late > len(seeds) and stalled > len(seeds) / 20 and unsure > len(seeds) / 10


def test_who_waits_is_judged_as_by_the_oracle() -> None:
    check_waiting(range(40))


@pytest.mark.full
def test_who_waits_is_judged_as_by_the_oracle_in_hundreds_of_histories() -> None:
    check_waiting(range(40, 250))


def check_bounds(seeds: range) -> None:
    begins = ends = 0
    for seed in seeds:
        rng = Random(f"bounds {seed}")
        context = context_of(rng, seed, rng.choice(({}, {}, {"acks": "master"})))
        for table in (bounds(rng), waiters(rng)):
            found = [
                one for law in (StaleMinimums(), StaleMaximums()) for one in examine(law, table, context).anomalies
            ]
            told = sorted((one.name, tuple(sorted(one.rows)), one.queue, one.offset) for one in found)
            assert told == slow_bounds.examine(Shard(table), context), seed
            begins += sum(name == "stale-minimum" for name, *_ in told)
            ends += sum(name == "stale-maximum" for name, *_ in told)
    assert begins > len(seeds) and ends > len(seeds)


def test_where_queues_begin_and_end_is_judged_as_by_the_oracle() -> None:
    check_bounds(range(20))


@pytest.mark.full
def test_where_queues_begin_and_end_is_judged_as_by_the_oracle_in_hundreds_of_histories() -> None:
    check_bounds(range(20, 150))


def acknowledging(rng: Random) -> pa.Table:
    """Replicas that take records, sync and cut them, and a master that says which copies acknowledgements stood on."""
    wild, silent = rng.choice((0.0, 0.05, 0.5)), rng.choice(((), (), ("d",)))
    ends, rows = dict.fromkeys(GROUP, 0), []
    for step in range(rng.choice((5, 60, 200))):
        node = rng.choice([one for one in GROUP if one not in silent])
        f = rng.choices(("append", "synced", "acked", "truncate", "recovered", "bootstrap"), (30, 25, 30, 3, 2, 1))[0]
        row = {"kind": "trace", "f": f, "node": node, "incarnation": 1, "step": step, "time_ns": step, "epoch": 1}
        value: dict[str, Any] = {}
        if f == "acked":
            position = rng.choice([*ends.values()]) + rng.randrange(1, 9) * (rng.random() < wild)
            named = [one for one in GROUP if ends[one] >= position or rng.random() < wild or one in silent]
            value = {"copies": dict.fromkeys(named, position)} if rng.random() < 0.97 else {"confirm": position}
        elif f == "append":
            position, size = ends[node], rng.choice((0, 3, 10))
            ends[node] += max(1, size)
            value = {"size": size} if rng.random() < 0.9 else {}
        elif f == "truncate":
            position = ends[node] = max(0, ends[node] - rng.randrange(12))
        else:
            position = ends[node] = max(0, ends[node] + rng.randrange(-3, 3) * (rng.random() < wild))
        rows.append(row | {"position": position, "value": json.dumps(value)})
    return whole(rows)


PROFILES = ({}, {"acks": 2}, {"acks": 3}, {"acks": "master"}, {"min_in_sync": 1}, {"flush": "async"})


def check_copies(seeds: range) -> None:
    wrong = unknown = 0
    for seed in seeds:
        rng = Random(f"copies {seed}")
        context = context_of(rng, seed, rng.choice(PROFILES) | rng.choice(PROFILES))
        table = acknowledging(rng)
        found = examine(Copies(), table, context)
        told = sorted((one.name, *one.rows) for one in found.anomalies)
        anomalies, gaps, compared = slow_copies.examine(Shard(table), context)
        counted = found.counts.get("acknowledgements_compared", 0)
        assert (told, set(found.gaps), counted) == (sorted(anomalies), gaps, compared), seed
        wrong, unknown = wrong + len(told), unknown + len(gaps)
    assert wrong > len(seeds) and unknown > len(seeds) / 10


def test_what_acknowledgements_stood_on_is_judged_as_by_the_oracle() -> None:
    check_copies(range(150))


@pytest.mark.full
def test_what_acknowledgements_stood_on_is_judged_as_by_the_oracle_in_many_histories() -> None:
    check_copies(range(150, 420))
