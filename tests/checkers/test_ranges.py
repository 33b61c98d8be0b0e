"""A queue may be parted by its offsets, anywhere: kernels that say so find the same, merged in any bracket."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from chaos.findings import MAX_REPORTED
from chaos.history.columns import VALUE
from chaos.history.run_meta import RunMeta
from chaos.judging.declared import Declared
from chaos.judging.plan import plan, served
from chaos.judging.registry import registry
from chaos.judging.shard import Shard
from chaos.kernel import Kernel, Key
from chaos.law import Partial, RunContext
from chaos.verdict import Anomaly, Validity
from checkers.consumers import passed, reached
from checkers.placement import POSITION_BITS
from checkers.tier_continuity.manifests import TierContinuity
from tests.checkers.harms import EMPTIED, HARMS
from tests.checkers.histories import REPORTED, harmed, shards_for, whole_of
from tests.checkers.recorded import recording
from tests.checkers.slow.random_bounds import bounds
from tests.checkers.slow.random_clients import RandomClients, clients, consumers, history
from tests.checkers.slow.random_storms import storms
from tests.checkers.slow.random_uploaders import uploaders

OF_QUEUES = (Key.OFFSET, Key.MESSAGE, Key.CALL)


def committers(rng: Random) -> pa.Table:
    """Groups of consumers, some of whose commits name an offset far beyond."""
    table = whole_of(consumers(rng))
    index, op, offset = (table[name].to_numpy().copy() for name in ("index", "op", "offset"))
    commits = pc.equal(table["f"].cast(pa.string()), "commit").to_numpy(zero_copy_only=False)
    far = [at for at in index[commits & (op < 0)].tolist() if rng.random() < 0.1]
    offset[np.isin(index, far) | np.isin(op, far)] += 1_000
    place, field = table.schema.get_field_index("offset"), table.schema.field("offset")
    return harmed(table.set_column(place, field, pa.array(offset)))


def of_groups(rng: Random) -> pa.Table:
    """Clients whose messages stand in groups of a storage cluster, some of them in another one than most."""
    table = whole_of(clients(rng))
    index, op, position = (table[name].to_numpy().copy() for name in ("index", "op", "position"))
    sends = pc.equal(table["f"].cast(pa.string()), "send").to_numpy(zero_copy_only=False)
    far = [at for at in index[op < 0].tolist() if rng.random() < 0.1]
    position[sends & (op >= 0)] = 0
    position[sends & np.isin(op, far)] = 1 << POSITION_BITS
    place, field = table.schema.get_field_index("position"), table.schema.field("position")
    return harmed(table.set_column(place, field, pa.array(position)))


#: What clients do that a law is about, where it is not about those that commit nothing.
DONE = {"consumers": committers, "placement": of_groups}
#: Kernels that find nothing wrong in what :func:`clients` tell.
ELSEWHERE = (
    *("what is read through the tier", "tiered records against logs"),
    "how many sends were acknowledged, and when the others were answered",
    "messages that are questions",
    *(
        "where messages are",
        "how many reads were answered",
        "where queues begin, as answered",
        "where queues end, as answered",
    ),
    *("what the objects hold", "what each replica's own tier holds"),
    *("what groups were given", "what orderly groups were given in order", "what members sent back"),
    "who holds locks of queues",
)
#: Kernels about what :func:`uploaders` tell.
UPLOADING = ("where uploaded records end", "when uploaders upload")
#: Kernels about less than a queue; those about calls without a queue have no part of one.
KERNELS = {
    number: law
    for number, law in registry().kernels.items()
    if law.needs.key in OF_QUEUES and not all(reads.queueless for reads in law.needs.rows)
}
#: Those about what :func:`clients` tell, and what could be wrong with it.
CLIENTS = {number: law for number, law in KERNELS.items() if law.needs.part not in (*ELSEWHERE, *UPLOADING)}
#: What is found under the second name is told, one by one, under the first where it is of that kind.
ONE_OF = {"producer-reorder": "reorder"}
RELAXED = {"flush": "async", "acks": "master"}
#: So many offsets stay together at least, and so many rows stand in a shard at most, if a range has no more.
OFFSETS, MOST, MOST_OF_A_RUN = (1, 1, 2, 7), (1, 5, 40), (20, 100, 500)
#: So many random histories are tried in `make test`.
FEW = 11


def merged(found: Sequence[Partial], rng: Random) -> Partial:
    """All of them together, neighbours joined in any bracket."""
    left = list(found)
    while len(left) > 1:
        at = rng.randrange(len(left) - 1)
        left[at : at + 2] = [left[at].merge(left[at + 1])]
    return left[0]


def told(law: Kernel, partial: Partial, context: RunContext) -> dict[str, object]:
    """What it finds. Of more of one name than are told one by one, which ones are told is left open."""
    verdict = law.judge(partial, context)  # facts may be told in parts, and may tell of anomalies
    numbers: dict[str, int] = {}
    for anomaly in verdict.anomalies:
        name = ONE_OF.get(anomaly.name, anomaly.name)
        numbers[name] = numbers.get(name, 0) + anomaly.count
    few: list[Anomaly] = [one for one in verdict.anomalies if numbers[ONE_OF.get(one.name, one.name)] <= MAX_REPORTED]
    counts = {name: number for name, number in partial.counts.items() if number}
    return {"few": few, "numbers": numbers, "counts": counts, "why": verdict.why, "gaps": set(partial.gaps)}


def check(law: Kernel, table: pa.Table, context: RunContext, rng: Random, most: int) -> tuple[int, int]:
    """Returns in how many shards the rows were judged, and how many anomalies were found."""
    found, at_once, offsets = [], [], rng.choice(OFFSETS)
    for one in (law, *joined(law)):
        parts = shards_for(one, table, most, offsets)
        partials = [merged([one.examine(Declared(rows, one.needs), context) for rows in parts], rng)]
        partials.append(one.examine(Declared(Shard(table), one.needs), context))
        for known, partial in zip((found, at_once), partials, strict=True):
            known.append(partial if one is law else Partial(facts=partial.facts, gaps=partial.gaps))
    whole = told(law, merged(at_once, rng), context)
    assert told(law, merged(found, rng), context) == whole
    return len(parts), sum(whole["numbers"].values())  # type: ignore[attr-defined]


def joined(law: Kernel) -> list[Kernel]:
    """The kernel whose facts this one is given, too."""
    mine = [one for one in registry().kernels.values() if one.promise.name == law.promise.name]
    return [one for one in mine if one.needs.part in law.needs.joins]


def check_random(law: Kernel, seeds: range, make: Callable[[Random], pa.Table] = clients) -> None:
    parts = anomalies = 0
    for seed in seeds:
        rng = Random(f"ranges {seed}")
        meta = {"deployment": "sim", "tells": list(REPORTED), **({"profile": RELAXED} if rng.random() < 0.2 else {})}
        context = RunContext(run="random", seed=seed, meta=RunMeta.of(meta))
        some = check(law, DONE.get(law.promise.name, make)(rng), context, rng, rng.choice(MOST))
        parts, anomalies = parts + some[0], anomalies + some[1]
    assert parts >= 4 * len(seeds) and anomalies >= len(seeds) / 4


def check_harmed(law: Kernel, seed: int, every: int) -> None:
    """A run without the rows of some kind may leave a law so few that they stand in one shard of 20 rows."""
    for harm in [*HARMS, *EMPTIED][seed % every :: every]:
        rng = Random(f"ranges {harm.__name__} {seed}")
        run = recording().copy()
        harm(run, rng)
        context = RunContext(run=harm.__name__, seed=seed, meta=RunMeta.of(run.meta))
        parts, _ = check(law, run.table(), context, rng, rng.choice(MOST_OF_A_RUN))
        if parts == 1:
            parts, _ = check(law, run.table(), context, rng, MOST_OF_A_RUN[0])
        assert parts > 1 or harm in EMPTIED


@pytest.mark.parametrize("law", CLIENTS.values(), ids=map(str, CLIENTS))
def test_random_histories_may_be_parted_anywhere(law: Kernel) -> None:
    check_random(law, range(FEW))


def test_answers_to_consumers_may_be_parted_anywhere() -> None:
    (law,) = (law for law in KERNELS.values() if law.needs.part == "who takes writes")
    check_random(law, range(10), consumers)


@pytest.mark.parametrize("part", ("where queues begin, as answered", "where queues end, as answered"))
def test_answers_about_ends_of_queues_may_be_parted_anywhere(part: str) -> None:
    (law,) = (law for law in KERNELS.values() if law.needs.part == part)
    check_random(law, range(40), bounds)


def questions(rng: Random) -> pa.Table:
    """Sends that are asked about and answered in words, some of them in others than expected."""
    table = whole_of(clients(rng))
    is_send = pc.equal(table["f"].cast(pa.string()), "send").to_numpy(zero_copy_only=False)
    values = table[VALUE].to_pylist()
    for at in np.flatnonzero(is_send).tolist():
        words = [rng.choice(("", "stored", "stored", "too large")) for _ in range(2)]
        values[at] = json.dumps({"question": "a large one", "expected": words[0], "told": words[1]})
    told = pa.array(values, pa.string()).dictionary_encode()
    place = table.schema.get_field_index(VALUE)
    return harmed(table.set_column(place, table.schema.field(VALUE), told.cast(table.schema.field(VALUE).type)))


def check_questions(seeds: range) -> None:
    (law,) = (law for law in KERNELS.values() if law.needs.part == "messages that are questions")
    check_random(law, seeds, questions)


def test_answers_to_messages_may_be_parted_anywhere() -> None:
    check_questions(range(10))


@pytest.mark.full
def test_answers_to_messages_may_be_parted_anywhere_in_many_histories() -> None:
    check_questions(range(20, 100))


class TierReaders(RandomClients):
    """Clients whose reads come from a local log or through the tier, which holds other records, or more, than logs."""

    def call(self, f: str, asked: dict[str, Any], told: dict[str, Any] | None, **columns: Any) -> int:
        if f == "pull" and told is not None and not self.errs():
            told["value"]["source"] = self.rng.choice(("tier", "local", "local"))
        return super().call(f, asked, told, **columns)

    def finals(self) -> None:
        super().finals()
        for row in self.rows:
            if row["kind"] == "final" and row["f"] in ("tiered", "log") and self.errs():
                row[self.rng.choice(("hash", "offset"))] += 1


def tier_readers(rng: Random) -> pa.Table:
    return history(TierReaders(rng))


@pytest.mark.parametrize("part", ELSEWHERE[:2])
def test_what_tiers_hold_may_be_parted_anywhere(part: str) -> None:
    (law,) = (law for law in KERNELS.values() if law.needs.part == part)
    check_random(law, range(10), tier_readers)


@pytest.mark.full
@pytest.mark.parametrize("part", ELSEWHERE[:2])
def test_what_tiers_hold_may_be_parted_anywhere_in_many_histories(part: str) -> None:
    (law,) = (law for law in KERNELS.values() if law.needs.part == part)
    check_random(law, range(20, 100), tier_readers)


@pytest.mark.parametrize("part", UPLOADING)
def test_what_uploaders_do_may_be_parted_anywhere(part: str) -> None:
    (law,) = (law for law in KERNELS.values() if law.needs.part == part)
    check_random(law, range(FEW), uploaders)


@pytest.mark.full
@pytest.mark.parametrize("part", UPLOADING)
def test_what_uploaders_do_may_be_parted_anywhere_in_many_histories(part: str) -> None:
    (law,) = (law for law in KERNELS.values() if law.needs.part == part)
    check_random(law, range(FEW, 100), uploaders)


def check_beginnings(seeds: range) -> None:
    """Where a queue is parted, continuity is given the record with which each queue began, and finds the same."""
    (law,) = (law for law in registry().kernels.values() if isinstance(law, TierContinuity))
    left_out = anomalies = 0
    for seed in seeds:
        rng = Random(f"beginnings {seed}")
        table, context = uploaders(rng), RunContext(run="random", seed=seed, meta=RunMeta.of({"deployment": "sim"}))
        held = shards_for(law, table, rng.choice(MOST))
        found = [law.examine(Declared(rows, law.needs, strict=True), context) for rows in held]
        whole = law.examine(Declared(Shard(table), law.needs), context)
        assert told(law, merged(found, rng), context) == told(law, whole, context)
        left_out += len(Shard(table).where(kind="trace", f="append"))
        left_out -= sum(len(rows.where(kind="trace", f="append")) for rows in held)
        anomalies += sum("and no replica's log holds" in one.explanation for one in whole.anomalies)
    assert left_out > 5 * len(seeds) and anomalies > len(seeds) / 20


def test_where_queues_began_is_found_in_parts() -> None:
    check_beginnings(range(15))


@pytest.mark.full
def test_where_queues_began_is_found_in_parts_of_many_histories() -> None:
    check_beginnings(range(15, 250))


def a_storm(rng: Random) -> pa.Table:
    """Sends and faults, in a run that tells when its load ended."""
    while True:
        table = storms(rng)
        if any('"heal"' in value for value in table[VALUE].to_pylist()):
            return table


def check_storms(seeds: range) -> None:
    """Whether a queue is parted or not, no silence is missed, and none is found where there was none."""
    (law,) = (law for law in registry().kernels.values() if law.needs.part == "how long nobody was served")
    left_out = anomalies = 0
    for seed in seeds:
        rng = Random(f"silence {seed}")
        table, meta = a_storm(rng), {"deployment": "sim", "bounds": {"available_s": rng.choice((0.5, 1, 1.1, 3, 10))}}
        context = RunContext(run="random", seed=seed, meta=RunMeta.of(meta))
        held = shards_for(law, table, rng.choice(MOST))
        found = [law.examine(Declared(rows, law.needs, strict=True), context) for rows in held]
        whole = law.examine(Declared(Shard(table), law.needs), context)
        assert told(law, merged(found, rng), context) == told(law, whole, context)
        assert law.judge(merged(found, rng), context).counts == law.judge(whole, context).counts
        left_out += len(Shard(table).where(kind="op", f="send"))
        left_out -= sum(len(rows.where(kind="op", f="send")) for rows in held)
        anomalies += len(whole.anomalies)
    assert left_out > 5 * len(seeds) and anomalies > len(seeds)


def test_silence_is_found_in_parts_of_what_was_sent() -> None:
    check_storms(range(30))


@pytest.mark.full
def test_silence_is_found_in_parts_of_many_histories() -> None:
    check_storms(range(30, 400))


@pytest.mark.full
@pytest.mark.parametrize("law", CLIENTS.values(), ids=map(str, CLIENTS))
def test_many_random_histories_may_be_parted_anywhere(law: Kernel) -> None:
    check_random(law, range(FEW, 100))


#: The first kernel of each law.
FIRST = {number: law for number, law in KERNELS.items() if number == min(one for one in KERNELS if one[0] == number[0])}


@pytest.mark.parametrize("law", FIRST.values(), ids=map(str, FIRST))
def test_harmed_runs_may_be_parted_anywhere(law: Kernel) -> None:
    check_harmed(law, seed=1, every=200)


@pytest.mark.full
@pytest.mark.parametrize("law", KERNELS.values(), ids=map(str, KERNELS))
def test_some_harmed_runs_may_be_parted_anywhere(law: Kernel) -> None:
    """Every eighteenth harm: which ones differs from kernel to kernel."""
    check_harmed(law, seed=zlib.crc32(str(law.needs.part).encode()), every=18)


@pytest.mark.parametrize("part", [reached.NEEDS.part, passed.NEEDS.part])
def test_what_a_lost_shard_would_have_told_is_not_missing(part: str) -> None:
    (law,) = (law for law in KERNELS.values() if law.needs.part == part)
    context, some = RunContext(run="random", seed=0, meta=RunMeta.of({"deployment": "sim", "tells": list(REPORTED)})), 0
    for seed in range(10):
        table = consumers(Random(f"lost {seed}"))
        partial = law.examine(Declared(Shard(table), law.needs), context)
        some += law.judge(partial, context).validity is Validity.INVALID
        lost = law.judge(partial.merge(Partial(gaps=("a shard was lost",))), context)
        assert (lost.validity, lost.anomalies, lost.why) == (Validity.UNKNOWN, (), "a shard was lost")
    assert some


@pytest.mark.parametrize("part", UPLOADING)
def test_without_a_shard_of_what_uploaders_do_nothing_else_is_found(part: str) -> None:
    (law,) = (law for law in KERNELS.values() if law.needs.part == part)
    context, some = RunContext(run="random", seed=0, meta=RunMeta.of({"deployment": "sim", "tells": list(REPORTED)})), 0
    for seed in range(20):
        rng = Random(f"lost uploads {seed}")
        table = uploaders(rng)
        parts = shards_for(law, table, 5, 1)
        parts.pop(rng.randrange(len(parts)))
        found = [law.examine(Declared(rows, law.needs), context) for rows in parts]
        lost = law.judge(merged([*found, Partial(gaps=("a shard was lost",))], rng), context)
        whole = law.judge(law.examine(Declared(Shard(table), law.needs), context), context)
        assert lost.validity in (Validity.UNKNOWN, Validity.INVALID) and "a shard was lost" in lost.why
        assert lost.validity is Validity.UNKNOWN or whole.validity is Validity.INVALID
        assert {*lost.why.split("; ")} <= {*whole.why.split("; "), "a shard was lost", "no manifest was committed"}
        some += lost.validity is Validity.INVALID
    assert some


def test_every_kernel_looks_at_the_shards_of_either_plan() -> None:
    kernels = registry().kernels
    assert KERNELS
    for part in plan(kernels):
        together = served(f"{part.name}-0", kernels)
        assert together is not None
        if part.split:
            apart = [served(f"{one.name}-0", kernels) for one in part.split]
            assert sorted(number for some in apart if some for number in some) == sorted(together)
            assert {one.key for one in part.split} == {"queue", "offset", "message", "call"}
