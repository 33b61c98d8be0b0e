"""Parts of kernels that were made column-wise find all that they found row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random

import pytest

from chaos.findings import Findings, cap
from chaos.judging.shard import Shard
from chaos.shard_rows import Rows
from chaos.verdict import Anomaly
from checkers import _facts as facts
from checkers._facts import committed
from checkers.in_sync import own_log
from checkers.in_sync.promise import PROMISE as IN_SYNC
from checkers.roles import elections
from checkers.roles.group import Group
from checkers.roles.promise import PROMISE
from tests.checkers.harms import EMPTIED, HARMS
from tests.checkers.histories import BROKERS
from tests.checkers.recorded import recording
from tests.checkers.slow import in_sync as slow_in_sync
from tests.checkers.slow import sets as slow_sets
from tests.checkers.slow.random_rows import replicas

RANDOM, MORE = range(60), range(60, 400)


def random_shards(seeds: range) -> Iterator[Shard]:
    for seed in seeds:
        yield Shard(replicas(Random(f"parts {seed}")))


def harmed_shards(every: int) -> Iterator[Shard]:
    for harm in [*HARMS, *EMPTIED][::every]:
        run = recording().copy()
        harm(run, Random(harm.__name__))
        yield Shard(run.table())


def wordless(anomalies: Sequence[Anomaly]) -> list[Anomaly]:
    """Without what is said of each, which is the kernel's own affair."""
    return [replace(one, explanation="") if one.rows else one for one in anomalies]


def check_own_disk(rows: Rows) -> int:
    def known_to_disk(rows: Rows, found: Findings, node: str) -> None:
        own_log._known_to_disk(rows, found, facts.node_traces(rows, node, "synced"))

    def told(*parts: Callable[..., None]) -> list[Anomaly]:
        found = Findings(IN_SYNC)
        for node in sorted({rows.text("node", at) for at in rows.where(kind="trace", f="synced")}):
            for part in parts:
                part(rows, found, node)
        return wordless(cap(IN_SYNC, found.partial().anomalies))

    anomalies = told(known_to_disk, own_log._disk_keeps)
    assert anomalies == told(slow_in_sync.known_to_disk, slow_in_sync.disk_keeps)
    return len(anomalies)


def check_told_sets(rows: Rows) -> int:
    told = committed.told_sets(rows)
    assert told == slow_sets.told_sets(rows)
    return sum(map(len, told.values()))


def check_sets(rows: Rows) -> int:
    def told(sets: Callable[..., None]) -> list[Anomaly]:
        found = Findings(PROMISE)
        group = Group(rows=rows, found=found, unclean=False)
        group.sets.update({0: (frozenset(BROKERS[:2]), 0), 1: (frozenset(BROKERS), 1)})
        for whole in (False, True):
            sets(rows, found, {"g": group}, whole)
        return wordless(cap(PROMISE, found.partial().anomalies))

    anomalies = told(elections._sets)
    assert anomalies == told(slow_sets.sets)
    return len(anomalies)


CHECKS = [check_own_disk, check_told_sets, check_sets]


@pytest.mark.parametrize("check", CHECKS)
def test_parts_agree_with_their_oracles(check: Callable[[Rows], int]) -> None:
    assert sum(map(check, random_shards(RANDOM))) > len(RANDOM) / 2
    for rows in harmed_shards(every=48):
        check(rows)


@pytest.mark.full
@pytest.mark.parametrize("check", CHECKS)
def test_parts_agree_with_their_oracles_on_many_histories(check: Callable[[Rows], int]) -> None:
    for rows in (*random_shards(MORE), *harmed_shards(every=2)):
        check(rows)
