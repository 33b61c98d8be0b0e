"""What is found in a run that goes on stays found: for every prefix, no anomaly that the whole run does not show."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from chaos import findings
from chaos.history import pieces, segments
from chaos.history.directory import read_meta
from chaos.history.history import History
from chaos.history.made import Made
from chaos.history.parted import places
from chaos.history.prefix import Cut, Prefix, WholeSteps
from chaos.judging import surveying
from chaos.judging.registry import registry
from chaos.judging.so_far import NONE, SoFar, able, judge_prefix, judge_so_far, violated
from chaos.law import RunContext
from stormproof import scenario_run
from stormproof.scenarios import Scenario
from stormproof.shipped import experiments
from tests.checkers.harms import HARMS, Harm
from tests.checkers.prefixes import (
    Name,
    as_processes,
    context,
    in_the_end,
    joined,
    names,
    process_prefixes,
    simulated_prefixes,
    so_far,
)
from tests.checkers.recorded import recording
from tests.stormproof.small_runs import planted

#: Planted bugs, an example that shows each, and what must be found of it before the run has ended.
PLANTED = {
    "equal-start-epochs": ("unreplicated_tail", {"rollback", "confirm-rollback", "replica-divergence"}),
    "confirm-ignores-disconnected": ("stale_master", {"confirm-beyond-set", "rollback"}),
    "min-in-sync-ignored": ("too_few_in_sync", {"too-few-in-sync"}),
    "votes-twice": ("split_vote", {"not-linearizable", "two-masters", "metadata-conflict"}),
}
#: What harms leave must be found early wherever one of these names says what they did.
EARLY = {
    *("rollback", "max-offset-regression", "confirm-rollback", "confirm-beyond-set", "confirm-beyond-log"),
    *("reorder", "producer-reorder", "consumer-reorder", "over-full", "two-masters", "epoch-regression"),
    *("upload-beyond-confirm", "position-misstated", "tier-offset-regression"),
    *("stale-uploader", "never-committed", "duplicate-id", "route-regression"),
}


@pytest.fixture(autouse=True)
def _nothing_is_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "MAX_REPORTED", 1 << 40)


def check_subset(table: pa.Table, told: RunContext, rng: Random, count: int) -> set[Name]:
    """Every prefix of the run, as the simulator leaves it and as processes do, shows no more than the whole run.
    Returns what the prefixes and the whole recording showed before anybody knew that it had ended."""
    known = in_the_end(table, told)
    early = so_far(table, told)
    for prefix in simulated_prefixes(table, rng, count):
        early |= so_far(prefix, told)
    assert early <= known, sorted(early - known)

    told = context({**told.meta.json, "deployment": "process"})
    stream, traces = as_processes(table)
    known = in_the_end(joined(stream, traces), told)
    found = so_far(joined(stream, traces), told)
    for prefix in process_prefixes(stream, traces, rng, count):
        found |= so_far(prefix, told)
    assert found <= known, sorted(found - known)
    return early | found


def test_a_correct_run_shows_nothing_at_any_moment() -> None:
    run = recording()
    assert not check_subset(run.recorded(), context(run.meta), Random(1), 15)


def harmed(harm: Harm, seed: int, count: int) -> set[Name]:
    run = recording().copy()
    rng = Random(f"{harm.__name__} {seed}")
    harm(run, rng)
    return check_subset(run.recorded(), context(run.meta), rng, count)


def test_a_harmed_run_shows_no_more_at_any_moment_than_in_the_end() -> None:
    early = set[str]()
    for harm in [*HARMS][::12]:
        early |= {name for _, name, _, _ in harmed(harm, 0, 1)}
    assert len(early & EARLY) >= 4, early


@pytest.mark.full
@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_each_harmed_run_shows_no_more_at_any_moment_than_in_the_end(harm: Harm) -> None:
    harmed(harm, 0, 6)


@pytest.mark.full
def test_most_kinds_of_harm_are_found_before_the_end() -> None:
    early = {name for harm in HARMS for _, name, _, _ in harmed(harm, 0, 0)}
    assert early >= EARLY, EARLY - early


def with_bug(mutant: str, folder: Path) -> tuple[pa.Table, RunContext]:
    file = experiments()[PLANTED[mutant][0]]
    done = scenario_run.execute(Scenario(file=file, on="sim", seeds=(1,), mutant=mutant), file, 1, folder, folder / "l")
    table, damage = History.open(Path(done.directory)).recorded()
    assert not damage
    return table, context(read_meta(Path(done.directory)).json)


@pytest.mark.parametrize(
    "mutant",
    [
        "equal-start-epochs",
        *(pytest.param(name, marks=pytest.mark.full) for name in PLANTED if name != "equal-start-epochs"),
    ],
)
def test_a_planted_bug_is_found_before_the_end_and_no_other(mutant: str, tmp_path: Path) -> None:
    table, told = with_bug(mutant, tmp_path)
    early = check_subset(table, told, Random(mutant), 6)
    assert {name for _, name, _, _ in early} >= PLANTED[mutant][1]


def test_an_anomaly_is_told_as_soon_as_its_rows_are_there(tmp_path: Path) -> None:
    run = Path(planted(tmp_path).directory)
    table, _ = History.open(run).recorded()
    told = context(read_meta(run).json)
    whole = [one for law in judge_so_far(table, told) for one in law.violations]
    assert whole
    for one in whole:
        name = (one.law, one.name, one.queue, one.offset)
        complete = max(one.rows) + 1
        batch = next(end for end in range(complete, table.num_rows) if ends_a_call(table, end))
        assert name in so_far(table.slice(0, batch), told), one
        assert name not in so_far(table.slice(0, min(one.rows)), told), one


def from_files(table: pa.Table, told: RunContext, folder: Path) -> tuple[SoFar, ...]:
    """What is said of these rows when they are too many to be held."""
    folder.mkdir()
    cut = Cut(of_stream=1 << 60, end=1 << 60, left=np.empty(0, np.int64))
    with Made(folder) as rows:
        for begin in range(0, table.num_rows, 400):
            rows.add(table.slice(begin, 400))
        whole = tuple(WholeSteps(piece, cut) for piece in rows.pieces)
        assert rows.table is None and len(whole) > 3
        prefix = Prefix(table=None, pieces=whole, of_stream=0, recorded=table.num_rows, until_ns=0)
        return judge_prefix(prefix, folder, told)


@pytest.fixture
def in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are many, and so are those of a queue."""
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 400)
    monkeypatch.setattr(pieces, "LARGE_ROWS", 100)
    monkeypatch.setattr(surveying, "TASK_ROWS", 300)
    for name in ("OFFSETS", "CALLS", "MESSAGES"):
        monkeypatch.setattr(places, name, 8)


@pytest.mark.usefixtures("in_files")
def test_what_is_judged_from_files_is_what_is_judged_in_memory(tmp_path: Path) -> None:
    run = Path(planted(tmp_path).directory)
    (table, _), told = History.open(run).recorded(), context(read_meta(run).json)
    assert violated(judge_so_far(table, told))
    assert from_files(table, told, tmp_path / "files") == judge_so_far(table, told)


@pytest.mark.full
@pytest.mark.usefixtures("in_files")
def test_harmed_runs_show_the_same_from_files(tmp_path: Path) -> None:
    harms = [*HARMS][::16]
    found = 0
    for number, harm in enumerate(harms):
        run = recording().copy()
        harm(run, Random(number))
        told = context(run.meta)
        stream, traces = as_processes(run.recorded())
        for name, table, context_ in (
            ("simulated", run.recorded(), told),
            ("processes", joined(stream, traces), context({**told.meta.json, "deployment": "process"})),
        ):
            known = names(judge_so_far(table, context_))
            assert names(from_files(table, context_, tmp_path / f"{name}-{number}")) == known, harm
            found += len(known)
    assert found > len(harms) / 2


def ends_a_call(table: pa.Table, end: int) -> bool:
    op = table["op"].to_numpy()
    return bool(op[end] != op[end - 1] or op[end] < 0)


def test_no_law_says_that_a_promise_is_kept_before_the_end() -> None:
    run = recording()
    states = {law.law: law.state for law in judge_so_far(run.recorded(), context(run.meta))}
    assert states["order"] == states["no-rollback"] == states["upload-bound"] == NONE
    assert not [state for state in states.values() if "VALID" in state]
    empty = judge_so_far(run.recorded().slice(0, 0), context(run.meta))
    assert {law.law for law in empty if law.is_open} >= {"order", "no-rollback", "roles", "upload-bound"}


def test_damage_leaves_nothing_to_tell() -> None:
    run = recording().copy()
    next(iter(HARMS))(run, Random(1))
    one, two = run.acked()[:2]
    one["offset"], two["offset"] = two["offset"], one["offset"]
    told = context(run.meta)
    assert so_far(run.recorded(), told)
    damaged = RunContext(run=told.run, seed=told.seed, meta=told.meta, damage=("a batch is torn",))
    assert not so_far(run.recorded(), damaged)


def test_each_law_says_in_one_place_whether_it_can_judge_a_prefix() -> None:
    names = {law.promise.name for law in able().kernels.values()}
    assert {"no-rollback", "order", "roles", "upload-bound"} <= names
    assert not names & {"durability", "availability", "progress"}
    assert set(able().kernels) == {n for n, law in registry().kernels.items() if law.needs.on_prefix}
