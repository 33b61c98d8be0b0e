"""A run may be cut anywhere: divided piece by piece, in any order, it is judged as in one shard."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
import pytest

from chaos import findings
from chaos.history.columns import REPEATED
from chaos.history.ends import with_beginnings
from chaos.history.parted import places
from chaos.history.pieces import Held, Joined
from chaos.history.run_meta import RunMeta
from chaos.judging import gathering
from chaos.judging.blocks import spooled
from chaos.judging.divided import Divided
from chaos.judging.engine import judge_rows, verdicts
from chaos.judging.layout import Layout
from chaos.judging.plan import WHOLE, plan
from chaos.judging.registry import registry
from chaos.kernel import Kernel, Key, Needs, Sieve
from chaos.law import RunContext
from chaos.verdict import Verdict
from checkers.roles.disks import decisive_rows
from tests.checkers.agreement.test_commits import replicas as committers
from tests.checkers.harms import EMPTIED, HARMS
from tests.checkers.histories import REPORTED, cut, places_kept, whole_of
from tests.checkers.log.random_logs import of_logs
from tests.checkers.recorded import recording
from tests.checkers.slow.random_bounds import bounds
from tests.checkers.slow.random_clients import clients, consumers
from tests.checkers.slow.random_rows import replicas
from tests.checkers.slow.random_uploaders import uploaders
from tests.checkers.slow.random_waiters import waiters
from tests.checkers.test_own_logs import nodes
from tests.checkers.test_ranges import a_storm
from tests.checkers.test_readers import of_readers
from tests.checkers.test_sieves import chosen, random_table, replicated, whole

T = TypeVar("T")
MAKERS: tuple[Callable[[Random], pa.Table], ...] = (
    *(clients, consumers, uploaders, waiters, replicas, a_storm, of_readers),
    lambda rng: of_readers(rng, bounds),
)
#: What shows what sieves do, and is nothing that all laws could be asked about.
OF_NODES: tuple[Callable[[Random], pa.Table], ...] = (
    committers,
    lambda rng: whole(nodes(rng)),
    lambda rng: replicated(rng, 200),
    lambda rng: random_table(rng, 120),
    of_logs,
)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queues are parted within a few offsets, operations and messages; sieves are asked about a few rows at a time; and
    each anomaly is reported."""
    monkeypatch.setattr(findings, "MAX_REPORTED", 1 << 40)
    monkeypatch.setattr(gathering, "MOST_HELD", 0)
    monkeypatch.setattr(gathering, "MOST_ROWS", 3)
    for name in ("OFFSETS", "CALLS", "MESSAGES"):
        monkeypatch.setattr(places, name, 2)


def pickled(one: T) -> T:
    found: T = pickle.loads(pickle.dumps(one))
    return found


@dataclass
class Elsewhere:
    """Does here what workers of Spark do: all that goes to a task and comes from it is ``sent``, and the blocks of a
    bucket come in any order. Notes how many parts were split, pieces joined, and operations cut."""

    rng: Random
    sent: Callable[[Any], Any] = pickled
    found: Counter[str] = field(default_factory=Counter)
    blocks: list[tuple[int, Any]] = field(default_factory=list)

    def map(self, work: Callable[[Any], T], tasks: Sequence[Any], on_progress: Any = None) -> list[T]:
        return [self.sent(work(self.sent(task))) for task in tasks]

    def shuffled(self, work: Callable[..., Any], given: Any, tasks: Sequence[Any], buckets: int) -> Elsewhere:
        joined = sum(isinstance(piece, Joined) for piece in tasks)
        self.found += Counter(split=len(given.layout.split), joined=joined, cut=len(given.layout.left_out))
        given = self.sent(given)
        self.blocks = [one for brought in self.map(lambda piece: work(given, piece), tasks) for one in brought]
        assert {bucket for bucket, _ in self.blocks} <= {*range(buckets)}
        self.rng.shuffle(self.blocks)
        return self

    def collect(self, work: Callable[..., T], given: Any, buckets: Sequence[int], on_progress: Any = None) -> list[T]:
        given, found = self.sent(given), []
        for one in buckets:
            with spooled(block for bucket, block in self.blocks if bucket == one) as held:
                found.append(self.sent(work(given, one, held)))
        return found


def divided(tasks: Elsewhere, pieces: Sequence[pa.Table], planned: Layout, most: int) -> Divided:
    return Divided(cast(Any, tasks), [Held(piece) for piece in pieces], planned, most)


def as_others_record(table: pa.Table, rng: Random) -> pa.Table:
    """Recorded rows, of which some ends don't repeat their beginnings."""
    share = rng.choice((0.0, 0.0, 0.1, 0.5))
    alone = np.array([rng.random() < share for _ in range(table.num_rows)], np.bool_)
    for name in REPEATED:
        column = np.where(alone, -1, table[name].to_numpy())
        table = table.set_column(table.column_names.index(name), name, pa.array(column))
    return table


def between_operations(table: pa.Table) -> list[int]:
    """Where an operation is not cut whose rows must be looked at together: messages follow the end that brought them,
    and an end that does not repeat its beginning stands apart from it."""
    op, index = table["op"].to_numpy(), table["index"].to_numpy()
    may = np.flatnonzero((op[1:] != op[:-1]) | (op[1:] < 0)) + 1
    for end in np.flatnonzero((op >= 0) & (table["began_value"].to_numpy() < 0)).tolist():
        begin = int(np.searchsorted(index, op[end]))
        may = may[(may <= begin) | (may > end)]
    return [*may.tolist()]


def told_of(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """What laws say, but for counts of nothing and the order of reasons."""
    return [
        replace(
            one,
            counts={name: many for name, many in one.counts.items() if many},
            why="; ".join(sorted(one.why.split("; "))),
        )
        for one in verdicts
    ]


def check(rows: pa.Table, context: RunContext, most: int, rng: Random) -> Counter[str]:
    """Cut a run between operations, within some, or anywhere. Return how many violations were found besides."""
    table, tasks = as_others_record(whole_of(rows), rng), Elsewhere(rng)
    between = between_operations(table)
    within = sorted({*range(1, table.num_rows)} - {*between})
    pieces = cut(table, rng, rng.choice((between, between, within, range(1, table.num_rows))))
    run = divided(tasks, pieces, Layout(meta=context.meta), most)
    found = told_of(verdicts(context, run.examine(context)))
    assert found == told_of(judge_rows([(WHOLE, rows)], context))
    return tasks.found + Counter(violations=sum(len(one.anomalies) for one in found))


def context_of(seed: int, **meta: Any) -> RunContext:
    return RunContext(run="random", seed=seed, meta=RunMeta.of({"tells": list(REPORTED), **meta}))


def check_random(seeds: range) -> None:
    found: Counter[str] = Counter()
    for seed in seeds:
        rng = Random(f"pieces {seed}")
        profile = {"profile": {"flush": "async", "acks": "master"}} if rng.random() < 0.2 else {}
        context = context_of(seed, deployment=rng.choice(("sim", "process")), **profile)
        found += check(rng.choice(MAKERS)(rng), context, rng.choice((5, 5, 40, 1_000)), rng)
    assert found["split"] > len(seeds) / 3 and found["joined"] and found["cut"] and found["violations"] > len(seeds)


def test_random_histories_may_be_cut_anywhere() -> None:
    check_random(range(6))


@pytest.mark.full
def test_many_random_histories_may_be_cut_anywhere() -> None:
    check_random(range(6, 140))


def test_random_logs_may_be_cut_anywhere() -> None:
    for seed in range(3):
        rng = Random(f"logs in pieces {seed}")
        check(of_logs(rng), context_of(seed, uses=["queues", "logs", "transactions"]), rng.choice((5, 40)), rng)


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


#: All sieves of our laws, but one that goes by the order in which nodes lived their rows (see ``test_disks``).
SIEVES = {
    one.sieve: one.everywhere
    for law in registry().kernels.values()
    for one in law.needs.rows
    if one.sieve is not None and one.sieve.keep is not decisive_rows
}


def kept(sieve: Sieve, pieces: Sequence[pa.Table], meta: RunMeta, rng: Random) -> list[int]:
    """The rows of which a run of these pieces consists for a law that needs nothing but what a sieve keeps."""
    rows = tuple(replace(one, everywhere=SIEVES[sieve], sieve=sieve) for one in sieve.rows)
    law = SimpleNamespace(needs=Needs(key=Key.RUN, rows=rows, columns=sieve.columns))
    layout = Layout(meta=meta, plan=plan({("law", 0): cast(Kernel, law)}, meta))
    ((_, found, _),) = divided(Elsewhere(rng, sent=lambda one: one), pieces, layout, 1_000).shards()
    return sorted(found["index"].to_pylist())


def leaves_out(sieve: Sieve, table: pa.Table, meta: RunMeta, rng: Random) -> bool:
    """What a sieve keeps of pieces, and then of that, is what it keeps of a run."""
    seen = table.filter(pa.array(chosen(table, sieve.rows)))
    if not seen.num_rows:
        return False
    held = kept(sieve, [table], meta, rng)
    assert kept(sieve, cut(table, rng, between_operations(table)), meta, rng) == held, sieve
    if sieve.fitted is None and sieve.remember is None:
        assert held == seen["index"].to_numpy()[places_kept(seen, sieve.keep)].tolist(), sieve
    return len(held) < seen.num_rows


def check_sieves(seeds: range) -> None:
    left_out: Counter[Sieve] = Counter()
    for seed in seeds:
        rng = Random(f"sieves {seed}")
        tables = [make(rng) for make in 3 * (*MAKERS, *OF_NODES)]
        meta = RunMeta.of({"deployment": "process", "profile": {"flush": rng.choice(("sync", "async"))}})
        for sieve in SIEVES:
            shuffled = rng.sample(tables, len(tables))
            left_out[sieve] += any(leaves_out(sieve, table, meta, rng) for table in shuffled)
    assert all(left_out[sieve] or sieve.fitted is not None for sieve in SIEVES)


def test_what_sieves_keep_does_not_depend_on_where_a_run_is_cut() -> None:
    check_sieves(range(1))


@pytest.mark.full
def test_what_sieves_keep_does_not_depend_on_where_many_runs_are_cut() -> None:
    check_sieves(range(1, 20))


def test_a_shard_that_no_piece_brings_anything_is_examined_all_the_same() -> None:
    context = context_of(0, deployment="sim")
    rows = with_beginnings(clients(Random(1)))[0].slice(0, 0)
    run = divided(Elsewhere(Random(1)), [rows], Layout(meta=context.meta), 5)
    assert {number for number, _ in run.examine(context)} >= {
        number for number, law in registry().kernels.items() if {*map(str, law.needs.evidence)} <= {*REPORTED}
    }
