"""A run may be cut anywhere: divided piece by piece, in any order, it is judged as in whole shards."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from chaos.history import shards
from chaos.history.ends import with_beginnings
from chaos.history.parted import places
from chaos.history.run_meta import RunMeta
from chaos.judging.engine import Examined, examine_shard
from chaos.judging.gathering import Shared, chosen, gathered
from chaos.judging.layout import Layout
from chaos.judging.plan import plan
from chaos.judging.registry import registry
from chaos.judging.shard import Shard
from chaos.judging.surveying import summed, surveyed
from chaos.kernel import Key
from chaos.law import RunContext
from tests.checkers.harms import EMPTIED, HARMS
from tests.checkers.histories import REPORTED
from tests.checkers.recorded import recording
from tests.checkers.slow.random_clients import clients, consumers
from tests.checkers.slow.random_storms import storms
from tests.checkers.slow.random_uploaders import uploaders
from tests.checkers.test_ranges import told_of

MAKERS: tuple[Callable[[Random], pa.Table], ...] = (clients, consumers, storms, uploaders)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queues are parted within a few offsets, operations and messages."""
    for name in ("OFFSETS", "CALLS", "MESSAGES"):
        monkeypatch.setattr(places, name, 2)


def cut(rows: pa.Table, rng: Random) -> list[pa.Table]:
    """Pieces of a history as it was recorded. What an operation delivered stands in the piece of its end, and an end
    that does not repeat its beginning in that of the beginning."""
    table = with_beginnings(rows)[0].sort_by("index")
    op, index = table["op"].to_numpy(), table["index"].to_numpy()
    may = np.flatnonzero((op[1:] != op[:-1]) | (op[1:] < 0)) + 1
    for end in np.flatnonzero((op >= 0) & (table["began_value"].to_numpy() < 0)).tolist():  # a stranger's
        begin = int(np.searchsorted(index, op[end]))
        may = may[(may <= begin) | (may > end)]
    ends = sorted({rng.choice(may.tolist()) for _ in range(rng.choice((0, 1, 3, 12)))}) if len(may) else []
    return [table.slice(begin, end - begin) for begin, end in zip([0, *ends], [*ends, len(op)], strict=True)]


def in_pieces(rows: pa.Table, context: RunContext, most: int, rng: Random) -> tuple[Layout, list[tuple[str, pa.Table]]]:
    """Return the shards that a run is divided into."""
    pieces = cut(rows, rng)
    found = [surveyed(piece, context.meta, of_stream=True, may_split=True) for piece in pieces]
    layout: Layout = pickle.loads(pickle.dumps(summed(found, context.meta, (), most).layout))
    brought: list[tuple[int, int, bytes]] = []
    for number, piece in enumerate(pieces):
        brought += [(bucket, number, block) for bucket, block in layout.divide(piece)]
    rng.shuffle(brought)

    def blocks(bucket: int) -> list[bytes]:
        return [block for one, _, block in sorted(brought) if one == bucket]

    assert {bucket for bucket, _, _ in brought} <= {*range(layout.count)}
    shared = Shared(layout, [chosen(layout, bucket, blocks(bucket)) for bucket in range(layout.first_shard)])
    shared = pickle.loads(pickle.dumps(shared))
    wanted = range(layout.first_shard, layout.count)
    return layout, [(layout.name(bucket), gathered(shared, bucket, blocks(bucket))) for bucket in wanted]


def check(rows: pa.Table, context: RunContext, most: int, rng: Random) -> tuple[int, int]:
    """Return how many shards there were, and how many violations."""
    kernels = registry().kernels
    parts = plan(kernels, context.meta)
    _, found = in_pieces(rows, context, most, rng)
    wanted = shards.parts(rows, parts, most)
    of_pieces, of_shards = told_of(found, context), told_of(wanted, context)
    assert of_pieces == of_shards
    return len(found), sum(sum(one["numbers"].values()) for one in of_pieces)


def context_of(seed: int, **meta: Any) -> RunContext:
    return RunContext(run="random", seed=seed, meta=RunMeta.of({"tells": list(REPORTED), **meta}))


def check_random(seeds: range) -> None:
    parted = violations = 0
    for seed in seeds:
        rng = Random(f"pieces {seed}")
        deployment = rng.choice(("sim", "process"))
        profile = {"profile": {"flush": "async", "acks": "master"}} if rng.random() < 0.2 else {}
        context = context_of(seed, deployment=deployment, **profile)
        some = check(rng.choice(MAKERS)(rng), context, rng.choice((5, 40, 1_000)), rng)
        parted, violations = parted + some[0], violations + some[1]
    assert parted > 5 * len(seeds) and violations > len(seeds)


def test_random_histories_may_be_cut_anywhere() -> None:
    check_random(range(5))


@pytest.mark.full
def test_many_random_histories_may_be_cut_anywhere() -> None:
    check_random(range(5, 120))


def check_harmed(harms: Sequence[Callable[..., Any]], seed: int) -> None:
    for harm in harms:
        rng = Random(f"pieces {harm.__name__} {seed}")
        run = recording().copy()
        harm(run, rng)
        for deployment in ("sim", "process"):
            context = RunContext(run="harmed", seed=seed, meta=RunMeta.of({**run.meta, "deployment": deployment}))
            check(run.table(), context, rng.choice((100, 1_000, 100_000)), rng)


def test_harmed_runs_may_be_cut_anywhere() -> None:
    check_harmed([*HARMS][::90], 1)


@pytest.mark.full
def test_all_harmed_runs_may_be_cut_anywhere() -> None:
    check_harmed([*HARMS, *EMPTIED][::3], 2)


def test_operations_that_are_under_way_at_a_cut_are_not_taken_for_unanswered() -> None:
    """Above all where beginning and end stand in different ranges of offsets."""
    rng, of_ranges = Random(3), 0
    for _ in range(5):
        rows = clients(rng)
        layout, found = in_pieces(rows, context_of(0, deployment="process"), 5, rng)
        for name, table in found:
            part = next(one for one in layout.parts if name.startswith(f"{one.name}-"))
            of_ranges += part.key == Key.OFFSET
            ended = np.intersect1d(
                table["index"].to_numpy(), rows["op"].to_numpy()[rows["began_value"].to_numpy() >= 0]
            )
            assert not len(ended), name
    assert of_ranges > 20


def test_a_shard_that_no_piece_brings_anything_is_examined_all_the_same() -> None:
    context = context_of(0, deployment="sim")
    layout = summed(
        [surveyed(clients(Random(1)).slice(0, 0), context.meta, of_stream=True, may_split=True)], context.meta, (), 5
    ).layout
    shared = Shared(layout, [chosen(layout, bucket, []) for bucket in range(layout.first_shard)])
    found: Examined = []
    for bucket in range(layout.first_shard, layout.count):
        found += examine_shard(layout.name(bucket), Shard(gathered(shared, bucket, [])), context)
    assert {number for number, _ in found} >= {
        number for number, law in registry().kernels.items() if {*map(str, law.needs.evidence)} <= {*REPORTED}
    }
