"""Recorded runs that a bug would have left otherwise: no harm passes as VALID, no rewriting makes a good run INVALID,
and both engines see the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.history import directory as store
from chaos.history import pieces
from chaos.judging import masters, surveying
from chaos.judging.outcome import judge
from chaos.judging.run import examine_run, examine_runs
from chaos.judging.spark import Session
from chaos.verdict import Engine, RunVerdict, Validity
from tests.checkers.harms import EMPTIED, HARMS, Harm
from tests.checkers.recorded import BROKERS, Recording, recording

SEEDS = 1
MANY = 6


def judged(run: Recording, directory: Path) -> RunVerdict:
    return judge([run.write(directory)], engine=Engine.LOCAL)[0]


def names(verdict: RunVerdict) -> set[str]:
    return set(verdict.anomaly_counts())


def crashes(verdict: RunVerdict) -> list[str]:
    return [why for why in verdict.why if "crashed" in why]


def harmed(harm: Harm, seed: int) -> Recording:
    run = recording().copy()
    harm(run, Random(f"{harm.__name__} {seed}"))
    return run


def test_the_recorded_run_is_valid_as_it_is(tmp_path: Path) -> None:
    verdict = judged(recording().copy(), tmp_path / "run")
    assert verdict.validity is Validity.VALID, verdict.why


def check_harm(harm: Harm, seed: int, directory: Path) -> None:
    verdict = judged(harmed(harm, seed), directory / f"run-{seed}")
    assert HARMS[harm] in names(verdict), (seed, names(verdict), verdict.why)
    assert verdict.validity is Validity.INVALID and not crashes(verdict)


#: One harm for every second anomaly; all others are found in `make test-full`.
FIRST = [*{anomaly: harm for harm, anomaly in reversed(HARMS.items())}.values()][::2]


@pytest.mark.parametrize(
    "harm",
    [pytest.param(harm, marks=() if harm in FIRST else pytest.mark.full, id=harm.__name__) for harm in HARMS],
)
def test_what_a_bug_would_leave_is_found(harm: Harm, tmp_path: Path) -> None:
    for seed in range(SEEDS):
        check_harm(harm, seed, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_what_a_bug_would_leave_is_found_wherever_it_strikes(harm: Harm, tmp_path: Path) -> None:
    for seed in range(SEEDS, MANY):
        check_harm(harm, seed, tmp_path)


@pytest.mark.parametrize("harm", EMPTIED, ids=lambda harm: harm.__name__)
def test_missing_evidence_proves_nothing(harm: Harm, tmp_path: Path) -> None:
    for seed in range(SEEDS):
        verdict = judged(harmed(harm, seed), tmp_path / f"run-{seed}")
        assert verdict.validity is Validity.UNKNOWN, (names(verdict), verdict.why)
        assert verdict.why and not crashes(verdict)


# What changes nothing


def renamed_nodes(run: Recording, rng: Random) -> None:
    """Brokers swap their names, everywhere."""
    others = [*BROKERS]
    rng.shuffle(others)
    names = dict(zip(BROKERS, others, strict=True))

    def rename(text: str) -> str:
        return re.sub("|".join(BROKERS), lambda found: names[found[0]], text)

    for row in run.rows:
        row["node"], row["v"] = rename(row["node"]), json.loads(rename(json.dumps(row["v"])))
    run.meta = json.loads(rename(json.dumps(run.meta)))


def later(run: Recording, rng: Random) -> None:
    """Everything happened some time later."""
    shift = rng.randrange(1 << 50)
    for row in run.rows:
        row["time_ns"] += shift


def renamed_messages(run: Recording, rng: Random) -> None:
    """Other messages with other bodies were sent."""
    salt = rng.randrange(1, 1 << 30)
    for row in run.rows:
        if row["message"] >= 0:
            row["message"], row["hash"] = row["message"] ^ salt, row["hash"] ^ salt


def concurrent_swapped(run: Recording, rng: Random) -> None:
    """Neighbours that nothing orders change places: calls begin, or end, in another order at the same moment."""
    number = 0
    while number < len(run.rows) - 1:
        one, two = run.rows[number : number + 2]
        calls = one["kind"] == two["kind"] == "op" and "delivered" not in (one["f"], two["f"])
        alike = (one["type"] == "invoke") == (two["type"] == "invoke") and one["time_ns"] == two["time_ns"]
        if calls and alike and one["process"] != two["process"]:
            run.rows[number : number + 2] = [two, one]
            number += 1
        number += 1


def fewer_promises(run: Recording, rng: Random) -> None:
    """Some clients never learned how their commits and sends ended."""
    for row in [*run.find("op", "commit", "ok"), *run.acked()]:
        if rng.random() < 0.05:
            row.update(type="info", offset=-1, position=-1)


def no_polls(run: Recording, rng: Random) -> None:
    run.drop(lambda row: row["kind"] == "poll")
    run.meta["tells"] = [word for word in run.meta["tells"] if word != "polls"]


Change = Callable[[Recording, Random], None]
HIDE_NOTHING: list[Change] = [renamed_nodes, later, concurrent_swapped, no_polls]
NEUTRAL: list[Change] = [*HIDE_NOTHING, renamed_messages, fewer_promises]


@pytest.mark.parametrize("change", NEUTRAL, ids=lambda change: change.__name__)
def test_what_changes_nothing_keeps_a_good_run_valid(change: Change, tmp_path: Path) -> None:
    for seed in range(SEEDS):
        run = recording().copy()
        change(run, Random(seed))
        verdict = judged(run, tmp_path / f"run-{seed}")
        assert verdict.validity is Validity.VALID, (names(verdict), verdict.why)


def check_hidden(change: Change, every: int, directory: Path) -> None:
    """``every`` such harm of those of this change: each harm has one."""
    mine = list(enumerate(HARMS))[HIDE_NOTHING.index(change) :: len(HIDE_NOTHING)]
    for number, harm in mine[::every]:
        run = harmed(harm, 0)
        change(run, Random(number))
        assert HARMS[harm] in names(judged(run, directory / str(number))), harm.__name__


@pytest.mark.parametrize("change", HIDE_NOTHING, ids=lambda change: change.__name__)
def test_what_changes_nothing_hides_no_harm(change: Change, tmp_path: Path) -> None:
    check_hidden(change, 20, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("change", HIDE_NOTHING, ids=lambda change: change.__name__)
def test_what_changes_nothing_hides_none_of_all_harms(change: Change, tmp_path: Path) -> None:
    check_hidden(change, 1, tmp_path)


def check_shards(harms: list[Harm], directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for harm in harms:
        small, shards = harmed(harm, 0).write(directory / harm.__name__), list[int]()
        with monkeypatch.context() as patch:
            patch.setattr(pieces, "LARGE_ROWS", 1)
            patch.setattr(surveying, "TASK_ROWS", 1_000)
            large = examine_run(small.directory, on_progress=lambda _, number: shards.append(number))  # noqa: B023
        assert shards[-1] > 3
        before, after = judge([small, large], engine=Engine.LOCAL, write=False)
        for one, two in zip(before.laws, after.laws, strict=True):
            assert (one.law, one.validity, one.anomalies) == (two.law, two.validity, two.anomalies), harm.__name__
            assert one.why == two.why, harm.__name__
        assert (before.why, before.digest) == (after.why, after.digest)


def test_shards_of_a_harmed_run_tell_the_same_as_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_shards([*HARMS, *EMPTIED][::80], tmp_path, monkeypatch)


@pytest.mark.full
def test_shards_of_every_fourth_harmed_run_tell_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_shards([*HARMS, *EMPTIED][::4], tmp_path, monkeypatch)


# Files


SHARD = f"{store.SHARDS}/all-0.parquet"


def test_rows_that_are_there_twice_prove_nothing(tmp_path: Path) -> None:
    run, rng = recording().copy(), Random(1)
    for name in ("all", "some"):
        directory = run.write(tmp_path / name).directory
        table = pq.read_table(directory / SHARD)
        doubled = range(table.num_rows) if name == "all" else sorted(rng.sample(range(table.num_rows), 300))
        pq.write_table(pa.concat_tables([table, table.take(list(doubled))]), directory / SHARD)
        store.seal(directory)
        verdict = judge([examine_run(directory)], engine=Engine.LOCAL)[0]
        assert verdict.validity is Validity.UNKNOWN, names(verdict)
        assert "more than once" in " ".join(verdict.why)


def test_rows_that_are_missing_between_others_prove_nothing(tmp_path: Path) -> None:
    directory = recording().copy().write(tmp_path / "run").directory
    table = pq.read_table(directory / SHARD)
    keep = [number for number in range(table.num_rows) if number % 1000 != 7]
    meta = store.read_meta(directory).json
    store.write_meta(directory, {**meta, "rows": len(keep)})  # nor does anything else tell of them
    pq.write_table(table.take(keep), directory / SHARD)
    store.seal(directory)
    verdict = judge([examine_run(directory)], engine=Engine.LOCAL)[0]
    assert verdict.validity is not Validity.VALID
    assert "missing between the others" in " ".join(verdict.why)


@pytest.mark.spark
@pytest.mark.parametrize("every", [32, pytest.param(1, marks=pytest.mark.full)])
def test_spark_finds_what_the_local_engine_finds(every: int, tmp_path: Path) -> None:
    harms: list[Harm] = [*HARMS, *EMPTIED][::every]
    here = [harmed(harm, 1).write(tmp_path / harm.__name__) for harm in harms]
    with Session(masters.parse("local[2]")) as session:
        there = examine_runs([one.directory for one in here], session=session)
    local, spark = (judge(found, engine=Engine.LOCAL, write=False) for found in (here, there))
    for harm, one, two in zip(harms, local, spark, strict=True):
        assert one == replace(two, seconds=one.seconds), harm.__name__
