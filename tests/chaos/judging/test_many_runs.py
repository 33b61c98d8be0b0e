"""Many runs are judged together: small ones in one job, each as if it were alone, whatever happens to the others."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import BadInput
from chaos.history import directory
from chaos.judging import halves
from chaos.judging.in_process import Filed, InProcess
from chaos.judging.outcome import judge
from chaos.judging.run import ExaminedRun, examine_run, examine_runs
from chaos.judging.spark_errors import JobFailed
from chaos.verdict import Engine, RunVerdict, Validity
from tests.chaos.history.runs import make_large
from tests.chaos.judging.test_engine import BROKERS, busy
from tests.checkers.names import OF_STORAGE
from tests.stormproof import strangers

META = {"brokers": list(BROKERS), "profile": {}, "queues": [{"index": queue} for queue in range(4)]}


class Workers(InProcess):
    """A session whose workers are this process. ``before`` is called with the tasks of each job, ``after`` when they
    are done."""

    def __init__(
        self, before: Callable[[Sequence[Any]], object] = len, after: Callable[[Sequence[Any]], object] = len
    ) -> None:
        super().__init__()
        self.jobs, self.shuffles, self._before, self._after = 0, 0, before, after

    def __enter__(self) -> Workers:
        return self

    def map(self, work: Any, tasks: Sequence[Any], on_progress: Any = None) -> Any:
        self.jobs += 1
        self._before(tasks)
        found = pickle.loads(pickle.dumps([work(task) for task in pickle.loads(pickle.dumps(tasks))]))
        self._after(tasks)
        return found

    def shuffled(self, work: Any, given: Any, tasks: Sequence[Any], buckets: int) -> Filed:
        self.shuffles += 1
        return super().shuffled(work, given, tasks, buckets)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Small runs, of which the last one has three times as many rows as the others."""
    folder = tmp_path_factory.mktemp("many")
    sends = (20, 20, 20, 80)
    return [
        strangers.recorded(folder / f"run-{seed}", busy(seed, sends=count).recorded(), seed=seed, **META)
        for seed, count in enumerate(sends)
    ]


def judged(found: Iterable[ExaminedRun]) -> list[RunVerdict]:
    return [replace(one, seconds=0.0) for one in judge([*found], engine=Engine.SPARK, write=False)]


def alone(runs: Sequence[Path]) -> list[RunVerdict]:
    return judged(map(examine_run, runs))


def together(runs: Sequence[Path], session: Any, **more: Any) -> list[RunVerdict]:
    return judged(examine_runs(runs, session=session, **more))


def test_small_runs_are_examined_in_one_job_as_each_is_alone(runs: list[Path]) -> None:
    with Workers() as session:
        found = together(runs, session)
        assert found == alone(runs) == judged(examine_runs(runs))
        assert (session.jobs, session.shuffles) == (1, 0)
    assert len({verdict.digest for verdict in found}) == len(runs) and {verdict.seed for verdict in found} == {
        0,
        1,
        2,
        3,
    }
    assert Validity.INVALID in {verdict.validity for verdict in found}


def test_a_large_run_among_small_ones_is_examined_as_a_large_one(
    runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_large(monkeypatch, 1 << 20, 300)
    wanted = alone(runs)
    make_large(monkeypatch, 1_000, 300)
    with Workers() as session:
        assert together(runs, session) == wanted
        assert session.shuffles == 1
    with Workers() as session:
        assert together(runs[-1:], session) == wanted[-1:]
        assert session.shuffles == 1


def test_a_run_that_no_executor_sees_is_examined_here(runs: list[Path], tmp_path: Path) -> None:
    """Their file systems are others: the folder is not there while the job lasts."""
    mine = strangers.recorded(tmp_path / "mine", busy(5).recorded(), seed=5, **META)
    wanted = alone([runs[0], mine])
    hidden = tmp_path / "hidden"
    with Workers(lambda _: mine.rename(hidden), lambda _: hidden.rename(mine)) as session:
        assert together([runs[0], mine], session) == wanted


def test_another_run_that_an_executor_sees_under_its_path_is_not_taken_for_it(runs: list[Path], tmp_path: Path) -> None:
    mine, other, aside = tmp_path / "mine", tmp_path / "other", tmp_path / "aside"
    for place, seed in ((mine, 5), (other, 6)):
        strangers.recorded(place, busy(seed).recorded(), seed=seed, **META)
    wanted = alone([runs[0], mine])

    def swapped(_: Sequence[Any]) -> None:
        for place, to in ((mine, aside), (other, mine), (aside, other)):
            place.rename(to)

    with Workers(swapped, swapped) as session:
        assert together([runs[0], mine], session) == wanted != alone([runs[0], other])


@pytest.mark.parametrize("local", [False, True])
def test_a_run_that_is_refused_is_one_sentence_and_nothing_is_judged(
    runs: list[Path], tmp_path: Path, local: bool
) -> None:
    trimmed = strangers.recorded(tmp_path / "trimmed", busy(5).recorded(), replay="stormproof run x", **META)
    directory.trim(trimmed)
    with Workers() as session, pytest.raises(BadInput, match=r"trimmed: of this run only its verdict was kept.*run x"):
        examine_runs([runs[0], trimmed], session=None if local else session)  # type: ignore[arg-type]


def test_progress_says_how_many_runs_are_done(runs: list[Path]) -> None:
    told: list[tuple[int, int]] = []
    examine_runs(runs[:2], on_progress=lambda *done: told.append(done))
    assert told == [(1, 2), (2, 2)]


def killed(tasks: Sequence[Any]) -> None:
    raise RuntimeError("the worker was killed\nlong stack")


def test_a_job_that_dies_leaves_every_law_of_every_run_unknown(runs: list[Path]) -> None:
    with Workers(killed) as session:
        for verdict in together(runs[:2], session):
            judged = {law.validity for law in verdict.laws if law.law not in OF_STORAGE}
            assert judged == {verdict.validity} == {Validity.UNKNOWN}
            assert verdict.why[0] == "the Spark job failed: the worker was killed"


def test_a_run_that_kills_its_worker_is_unknown_and_no_other(runs: list[Path]) -> None:
    def kills(tasks: Sequence[Any]) -> None:
        if runs[1] in [task.run for task in tasks]:
            killed(tasks)

    with Workers(kills) as session:
        found, wanted = together(runs, session), alone(runs)
    assert found[1].validity is Validity.UNKNOWN and "the worker was killed" in found[1].why[0]
    assert [*found[:1], *found[2:]] == [*wanted[:1], *wanted[2:]]


def test_jobs_that_all_die_are_not_tried_for_ever(runs: list[Path]) -> None:
    with Workers(killed) as session:
        found = together([*runs[:1]] * 100, session)
        assert {verdict.validity for verdict in found} == {Validity.UNKNOWN}
        assert session.jobs < 3 * halves.MOST_FAILED_JOBS


def test_a_session_that_is_lost_is_asked_no_more(runs: list[Path]) -> None:
    def lost(tasks: Sequence[Any]) -> None:
        raise JobFailed("the master is gone", lost=session.jobs > 1)

    with Workers(lost) as session:
        found = together([*runs[:1]] * 16, session)
        assert {verdict.validity for verdict in found} == {Validity.UNKNOWN}
        assert session.jobs == 2 and all("the master is gone" in verdict.why[0] for verdict in found)


def test_a_damaged_run_that_kills_its_worker_is_unknown(runs: list[Path], tmp_path: Path) -> None:
    damaged = strangers.recorded(tmp_path / "damaged", busy(5).recorded(), **META)
    (damaged / directory.META).write_text("{")
    with Workers(killed) as session:
        found = together([runs[0], damaged], session)
    assert [one.validity for one in found] == [Validity.UNKNOWN] * 2 and "is not JSON" in found[1].why[0]
