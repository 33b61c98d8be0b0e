"""Kernels over columns find all that kernels find which go row by row, in as many steps however long a run is."""

from __future__ import annotations

import gc
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, reduce
from random import Random
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

from chaos.findings import cap
from chaos.history.run_meta import RunMeta
from chaos.judging.declared import Declared
from chaos.judging.registry import KernelId, registry
from chaos.judging.shard import Shard
from chaos.kernel import Kernel, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import availability, durability, order, progress
from checkers import consumers as groups
from checkers.agreement.content import Content as Agreement
from checkers.consumers import messages, passed, reached
from checkers.consumers.known import Known
from checkers.consumers.locks import Locks
from checkers.consumers.owners import Owners
from checkers.durability import acknowledged
from checkers.durability.acknowledged import Acknowledged
from checkers.durability.deletions import Deletions
from checkers.durability.messages import Messages
from checkers.durability.queues import Queues
from checkers.no_rollback import content, others, own_log, read
from checkers.no_rollback.promise import PROMISE as NO_ROLLBACK
from checkers.progress import Progress as Answering
from checkers.progress import held
from checkers.progress.answered import Answered
from tests.checkers.harms import EMPTIED, HARMS
from tests.checkers.histories import BROKERS, REPORTED
from tests.checkers.recorded import recording
from tests.checkers.slow import agreement as slow_agreement
from tests.checkers.slow import availability as slow_availability
from tests.checkers.slow import consumers as slow_consumers
from tests.checkers.slow import durability as slow_durability
from tests.checkers.slow import no_rollback as slow_no_rollback
from tests.checkers.slow import order as slow_order
from tests.checkers.slow import progress as slow_progress
from tests.checkers.slow import reads as slow_reads
from tests.checkers.slow.random_clients import clients, consumers, logs
from tests.checkers.slow.random_rows import replicas
from tests.checkers.slow.random_storms import readers, storms
from tests.checkers.slow.steady_rows import steady


@dataclass(frozen=True, slots=True)
class Reads:
    """Both kernels about what clients read, as one. Each of them counts what was read."""

    promise: Promise = NO_ROLLBACK
    needs: Needs = slow_reads.BOTH

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        stays = content.Content().examine(rows, context)
        found = read.Read().examine(rows, context)
        assert stays.counts == {"read": found.counts["read"]}
        return replace(stays, counts={}).merge(found)

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Durability:
    """The kernels about messages, as one. Each of them counts something else."""

    promise: Promise = durability.PROMISE
    needs: Needs = slow_durability.ALL

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        kernels = (Acknowledged(), Messages(), Deletions(), Queues())
        found = [law.examine(rows, context) for law in kernels]
        counted = [name for partial in found for name in partial.counts]
        assert len(counted) == len(set(counted))
        told = reduce(Partial.merge, found)
        counts = kernels[-1].judge(told, context).counts
        gaps = tuple(dict.fromkeys((*told.gaps, *acknowledged.gaps(told.facts))))
        return replace(told, counts=counts, facts=(), gaps=gaps)

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Consumers:
    """The kernels about groups of consumers, as one."""

    promise: Promise = groups.PROMISE
    needs: Needs = slow_consumers.ALL

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        kernels = [law for law in groups.create(groups.Options()) if not isinstance(law, Known | Owners | Locks)]
        committed, ends, offsets, given = (law.examine(rows, context) for law in kernels)
        found = (reached.beyond(ends.facts), passed.skipped(offsets.facts))
        never_given = messages.never_given((*offsets.facts, *given.facts))
        told = reduce(Partial.merge, (committed, *found, never_given, Partial(counts=offsets.counts)))
        return replace(told, facts=())

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Progress:
    """The kernels about readers that come forward, as one."""

    promise: Promise = progress.PROMISE
    needs: Needs = slow_progress.ALL

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        told = reduce(Partial.merge, (law.examine(rows, context) for law in (Answering(), held.Held(), Answered())))
        longest = [fact for fact in told.facts if any("longest" in name for name in fact)]
        return replace(told.merge(held.passed_over(told.facts)), facts=longest)

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Both:
    """Kernels of one law, as one."""

    promise: Promise
    needs: Needs
    kernels: tuple[Kernel, ...]

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        return reduce(Partial.merge, (kernel.examine(rows, context) for kernel in self.kernels))

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        raise NotImplementedError


#: Each kernel, its slow oracle, and histories at random that it has something to say about.
PAIRS: dict[str, tuple[Kernel, Kernel, Callable[[Random], pa.Table]]] = {
    "durability": (Durability(), slow_durability.Durability(), clients),
    "no-rollback": (
        Both(NO_ROLLBACK, slow_no_rollback.BOTH, (own_log.OwnLog(), others.Others())),
        slow_no_rollback.Confirms(),
        replicas,
    ),
    "agreement": (Agreement(), slow_agreement.Content(), logs),
    "reads": (Reads(), slow_reads.Read(), logs),
    "order": (Both(order.PROMISE, slow_order.BOTH, (order.Stored(), order.Delivered())), slow_order.Order(), consumers),
    "consumers": (Consumers(), slow_consumers.Consumers(), consumers),
    "availability": (
        Both(availability.PROMISE, availability.NEEDS, tuple(availability.create(availability.Options()))),
        slow_availability.Availability(),
        storms,
    ),
    "progress": (Progress(), slow_progress.Progress(), readers),
}
#: Those whose oracles tell only what is wrong, not how it came.
WORDLESS = ("durability", "order", "agreement", "reads", "no-rollback", "availability", "consumers", "progress")
#: Those whose oracles go row by row; the other oracles go queue by queue, or sort everything.
ROW_BY_ROW = ("durability", "no-rollback")
RANDOM, MORE = range(55), range(55, 400)
DEPLOYMENTS = ("sim", "process")
RELAXED = {"flush": "async", "acks": "master"}
#: Those whose oracles know strict profiles alone.
OF_STRICT = ("agreement", "no-rollback", "reads")


def told(law: Kernel, table: pa.Table, context: RunContext, *, wordless: bool = False) -> dict[str, Any]:
    """What a kernel finds, of all queues together; ``wordless``: without what it says of each violation."""
    found: Partial = law.examine(Declared(Shard(table), law.needs), context)
    anomalies = [
        replace(one, explanation="") if wordless and one.rows else one for one in cap(law.promise, found.anomalies)
    ]
    return {"counts": dict(found.counts), "anomalies": anomalies, "facts": [*found.facts], "gaps": sorted(found.gaps)}


def check_alike(name: str, table: pa.Table, context: RunContext) -> int:
    kernel, oracle, _ = PAIRS[name]
    found, expected = (told(law, table, context, wordless=name in WORDLESS) for law in (kernel, oracle))
    assert found == expected
    return len(found["anomalies"])


def random_histories(name: str, seeds: range) -> Iterator[tuple[pa.Table, RunContext]]:
    make = PAIRS[name][2]
    for seed in seeds:
        rng = Random(f"{name} {seed}")
        meta: dict[str, Any] = {"deployment": rng.choice(DEPLOYMENTS), "tells": list(REPORTED)}
        if rng.random() < 0.2 and name not in OF_STRICT:
            meta["profile"] = RELAXED
        yield make(rng), RunContext(run="random", seed=seed, meta=RunMeta.of(meta))


@pytest.mark.parametrize("name", PAIRS)
def test_random_histories_are_judged_as_by_the_oracle(name: str) -> None:
    anomalies = [check_alike(name, table, context) for table, context in random_histories(name, RANDOM)]
    assert sum(map(bool, anomalies)) > len(RANDOM) / 4 and max(anomalies) > 20


@pytest.mark.full
@pytest.mark.parametrize("name", PAIRS)
def test_many_random_histories_are_judged_as_by_the_oracle(name: str) -> None:
    for table, context in random_histories(name, MORE):
        check_alike(name, table, context)


def check_harmed(name: str, seed: int, every: int) -> None:
    for harm in [*HARMS, *EMPTIED][seed % every :: every]:
        run = recording().copy()
        harm(run, Random(f"{harm.__name__} {seed}"))
        for deployment in DEPLOYMENTS:
            context = RunContext(run=harm.__name__, seed=seed, meta=RunMeta.of({**run.meta, "deployment": deployment}))
            check_alike(name, run.table(), context)


@pytest.mark.parametrize("name", PAIRS)
def test_harmed_runs_are_judged_as_by_the_oracle(name: str) -> None:
    check_harmed(name, seed=zlib.crc32(name.encode()), every=64)


@pytest.mark.full
@pytest.mark.parametrize("name", PAIRS)
def test_all_harmed_runs_are_judged_as_by_the_oracle(name: str) -> None:
    check_harmed(name, seed=zlib.crc32(name[::-1].encode()), every=2)


def steps(work: Callable[[], object]) -> Counter[str]:
    """How many bytecodes, and calls of functions in C, this takes."""
    counted: Counter[str] = Counter()

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        counted["bytecodes"] += event == "opcode"
        return trace

    def profile(frame: FrameType, event: str, argument: object) -> None:
        counted["calls"] += event == "c_call"

    before = sys.gettrace(), sys.getprofile()
    gc.disable()  # a collection that happens to come now has steps of its own: Hypothesis times each
    sys.settrace(trace)
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
        gc.enable()
    return counted


#: Searching histories of objects is no kernel over columns.
SEARCHES = ("linearizable",)
#: A sort that goes another way for more rows may take a few steps more; no loop over so many rows is so short.
ANOTHER_WAY = 24
STEADY = RunContext(
    run="steady", seed=0, meta=RunMeta.of({"deployment": "sim", "brokers": list(BROKERS), "tells": REPORTED})
)
KERNELS = {number: law for number, law in registry().kernels.items() if number[0] not in SEARCHES}


@cache
def steady_rows(messages: int, queues: int, bad: bool) -> pa.Table:
    return steady(messages, queues=queues, bad=bad)


def taken(law: Kernel, messages: int, *, queues: int = 2, bad: bool = False) -> Counter[str]:
    rows = Declared(Shard(steady_rows(messages, queues, bad)), law.needs)
    return steps(lambda: law.examine(rows, STEADY))


def check_as_many(some: Counter[str], more: Counter[str]) -> None:
    assert max(more[name] - some[name] for name in more) <= ANOTHER_WAY, (some, more)


@pytest.mark.parametrize("number", KERNELS, ids=str)
def test_ten_times_the_rows_or_the_queues_take_as_many_steps(number: KernelId) -> None:
    law = KERNELS[number]
    for queues in (2, 20):  # what is imported at the first use
        taken(law, 600, queues=queues)
    few = taken(law, 60)
    check_as_many(few, taken(law, 600))
    check_as_many(few, taken(law, 600, queues=20))


@pytest.mark.parametrize("name", PAIRS)
def test_ten_times_the_violations_take_as_many_steps(name: str) -> None:
    kernel = PAIRS[name][0]
    taken(kernel, 1000, bad=True)  # what is imported, or remembered, at the first use
    check_as_many(taken(kernel, 100, bad=True), taken(kernel, 1000, bad=True))


@pytest.mark.parametrize("name", ROW_BY_ROW)
def test_oracles_take_more_steps_for_more_rows(name: str) -> None:
    """Hence the steps are counted at all."""
    oracle = PAIRS[name][1]
    assert taken(oracle, 60)["bytecodes"] + 60 < taken(oracle, 100)["bytecodes"]
