"""Of a large queue the law about readers is given few rows, and finds the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks.laws import histories as made_histories
from chaos.history.columns import VALUE
from chaos.history.run_meta import RunMeta
from chaos.judging.declared import Declared
from chaos.judging.divided import parted
from chaos.judging.plan import plan
from chaos.judging.registry import registry
from chaos.judging.shard import Shard
from chaos.kernel import Kernel
from chaos.law import Partial, RunContext
from chaos.verdict import Validity
from checkers.consumers import committed
from checkers.consumers.promise import DOUBLE_OWNER
from checkers.progress import Progress, held, waiting
from tests.checkers.harms import EMPTIED, HARMS
from tests.checkers.histories import BROKERS, REPORTED, History, shards_for
from tests.checkers.recorded import recording
from tests.checkers.slow.random_clients import RandomConsumers, history
from tests.checkers.slow.random_storms import readers
from tests.checkers.slow.random_waiters import waiters
from tests.checkers.slow.steady_rows import steady
from tests.checkers.test_ranges import MOST, MOST_OF_A_RUN, OFFSETS, RELAXED, joined, merged, told

KERNELS = {law.needs.part: law for law in registry().kernels.values() if law.promise.name == "progress"}
(FORWARD,) = (law for law in KERNELS.values() if isinstance(law, Progress))
WAITING = KERNELS[waiting.NEEDS.part]


def in_parts(law: Kernel, table: pa.Table, context: RunContext, most: int, offsets: int) -> list[Partial]:
    parts = shards_for(law, table, most, offsets)
    return [law.examine(Declared(rows, law.needs, strict=True), context) for rows in parts]


def of_readers(rng: Random, make: Callable[[Random], pa.Table] = readers) -> pa.Table:
    """A queue to which nothing was sent owes nothing, nor does one after its last send where nobody told when the load
    ended: then it matters which queues share a shard, large or not. So each has a send here, or there is only one."""
    while True:
        table = make(rng)
        sent = table.filter(pc.equal(table["f"].cast(pa.string()), "send"))["queue"]
        queues = pc.unique(table["queue"]).to_pylist()
        ends = any('"heal"' in value for value in table[VALUE].to_pylist())
        if set(queues) <= {-1, 0} or (ends and set(queues) <= {-1, *pc.unique(sent).to_pylist()}):
            return table


def check(law: Kernel, table: pa.Table, context: RunContext, rng: Random, most: int) -> int:
    """Returns how many anomalies were found."""
    found, whole, offsets = [], [], rng.choice(OFFSETS)
    for one in (law, *joined(law)):
        for known, some in (
            (found, in_parts(one, table, context, most, offsets)),
            (whole, [one.examine(Declared(Shard(table), one.needs), context)]),
        ):
            known += some if one is law else [Partial(facts=partial.facts, gaps=partial.gaps) for partial in some]
    at_once = law.judge(merged(whole, rng), context)
    in_pieces = law.judge(merged(found, rng), context)
    assert told(law, merged(found, rng), context) == told(law, merged(whole, rng), context)
    assert (in_pieces.counts, in_pieces.validity) == (at_once.counts, at_once.validity)
    return len(at_once.anomalies)


def contexts(seeds: Sequence[int]) -> list[tuple[Random, RunContext]]:
    made = []
    for seed in seeds:
        rng = Random(f"readers {seed}")
        meta = {"deployment": "sim", "tells": list(REPORTED), "bounds": {"available_s": rng.choice((0.5, 1, 3, 10))}}
        if rng.random() < 0.3:
            meta["profile"] = RELAXED
        if rng.random() < 0.5:
            meta["nodes"] = [{"name": "store-0", "role": "objectstore"}]
        made.append((rng, RunContext(run="random", seed=seed, meta=RunMeta.of(meta))))
    return made


def check_random(seeds: Sequence[int]) -> None:
    anomalies = 0
    for rng, context in contexts(seeds):
        table = of_readers(rng)
        for law in KERNELS.values():
            anomalies += check(law, table, context, rng, rng.choice(MOST))
    assert anomalies > len(seeds)


def test_readers_are_judged_alike_in_parts_of_queues() -> None:
    check_random([*range(6), 149])  # in the last one a pull from beyond the end is the first that shows it


@pytest.mark.full
def test_readers_are_judged_alike_in_parts_of_hundreds_of_histories() -> None:
    check_random(range(6, 60))


def check_harmed(seed: int, every: int) -> None:
    for harm in [*HARMS, *EMPTIED][seed % every :: every]:
        rng = Random(f"readers {harm.__name__} {seed}")
        run = recording().copy()
        harm(run, rng)
        for law in KERNELS.values():
            context = RunContext(run=harm.__name__, seed=seed, meta=RunMeta.of(run.meta))
            check(law, run.table(), context, rng, rng.choice(MOST_OF_A_RUN))


def test_harmed_runs_are_judged_alike_in_parts() -> None:
    check_harmed(seed=3, every=60)


@pytest.mark.full
def test_every_fourth_harmed_run_is_judged_alike_in_parts() -> None:
    check_harmed(seed=0, every=4)


def check_waiting_in_parts(seeds: range) -> None:
    anomalies = 0
    for rng, context in contexts(seeds):
        anomalies += check(WAITING, waiters(rng), context, rng, rng.choice(MOST))
    assert anomalies > len(seeds) / 4


def test_waiting_readers_are_judged_alike_in_parts_of_queues() -> None:
    check_waiting_in_parts(range(8))


@pytest.mark.full
def test_waiting_readers_are_judged_alike_in_parts_of_hundreds_of_histories() -> None:
    check_waiting_in_parts(range(8, 120))


def test_a_certain_replica_that_names_no_end_is_judged_in_a_large_queue_too() -> None:
    run = History()
    run.phase("load")
    run.master(BROKERS[0], 1)
    for number in range(9):
        run.send(number)
    run.pull(0, *range(9), from_=BROKERS[0])
    op = run.invoke("pull", process="consumer-0.0", queue=0, offset=3, value={"from": BROKERS[0]})
    run.complete(op, node=BROKERS[0], epoch=1, value={"minimum": 0})
    run.finish(*range(9))
    assert check(FORWARD, run.table(), run.context(), Random(1), 5) == 1


class Owners(RandomConsumers):
    """Consumers whose pulls take a while."""

    def step(self) -> None:
        if self.likely(0.5):
            super().step()
        elif self.open and self.likely(0.6):
            asked, op, queue = self.open.pop(self.rng.randrange(len(self.open)))
            self.add("op", "pull", asked, type=self.rng.choice(("ok", "ok", "ok", "fail", "info")), op=op, queue=queue)
        else:
            asked = {"group": self.rng.choice("gh"), "owner": self.rng.choice(("a", "a", "a", "b", ""))}
            op = self.add("op", "pull", asked, type="invoke", process="client-0.0", queue=self.queue, offset=0)
            self.open.append((asked, op, self.rows[op]["queue"]))

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.open: list[tuple[dict[str, str], int, int]] = []


def check_owners(seeds: range) -> None:
    """Who read for groups is found in parts of queues."""
    (law,) = (law for law in registry().kernels.values() if law.needs.part == committed.NEEDS.part)
    left_out = anomalies = 0
    for rng, context in contexts(seeds):
        table = history(Owners(rng))
        held = shards_for(law, table, rng.choice(MOST))
        found = [law.examine(Declared(rows, law.needs, strict=True), context) for rows in held]
        whole = law.examine(Declared(Shard(table), law.needs), context)
        assert told(law, merged(found, rng), context) == told(law, whole, context)
        left_out += len(Shard(table).where(kind="op", f="pull"))
        left_out -= sum(len(rows.where(kind="op", f="pull")) for rows in held)
        anomalies += sum(one.name == DOUBLE_OWNER for one in whole.anomalies)
    assert left_out > 5 * len(seeds) and anomalies > len(seeds) / 10


def test_owners_are_found_in_parts_of_queues() -> None:
    check_owners(range(15))


@pytest.mark.full
def test_owners_are_found_in_parts_of_hundreds_of_histories() -> None:
    check_owners(range(15, 300))


def check_few(table: pa.Table, most: int) -> None:
    """What stands in whole queues of a table with one queue is less than a tenth of its rows."""
    few, rows = 0, int(pc.sum(pc.greater_equal(table["queue"], 0)).as_py())
    parts = dict(parted([table], plan(registry().kernels, RunMeta.of({"deployment": "process"})), most))
    for name, part in parts.items():
        if name.startswith("queue.whole"):
            few += int(pc.sum(pc.greater_equal(part["queue"], 0)).as_py())
    assert any(name.startswith("queue.range") for name in parts)
    assert 0 < few < rows / 10


def test_of_a_large_queue_few_rows_stay_whole(tmp_path: Path) -> None:
    made = made_histories.make(tmp_path, 20_000, "skewed")
    check_few(pa.concat_tables(piece.read() for piece in made.pieces).unify_dictionaries(), most=20_000)


def test_of_a_large_queue_without_commits_few_rows_stay_whole() -> None:
    table = steady(3_000, queues=1)
    f = table["f"].cast(pa.string())
    check_few(table.filter(pc.invert(pc.is_in(f, pa.array(["commit", "committed"])))), most=3_000)


def test_a_reader_that_a_lost_shard_would_tell_of_is_not_judged_valid() -> None:
    wrong = 0
    for rng, context in contexts(range(20)):
        table = readers(rng)
        for law in (FORWARD, KERNELS[held.NEEDS.part]):
            partials = [law.examine(Declared(Shard(table), law.needs), context)]
            partials += [
                Partial(facts=one.examine(Declared(Shard(table), one.needs), context).facts) for one in joined(law)
            ]
            whole = law.judge(merged(partials, rng), context)
            for some in (partials, partials[:1]):
                lost = law.judge(merged([*some, Partial(gaps=("a shard was lost",))], rng), context)
                assert lost.validity in (Validity.UNKNOWN, whole.validity) and lost.validity is not Validity.VALID
                assert "a shard was lost" in lost.why
                assert {*lost.anomalies} <= {*whole.anomalies}
            wrong += whole.validity is Validity.INVALID
    assert wrong
