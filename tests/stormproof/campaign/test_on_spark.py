"""The same rows through Spark, and no other ones when a worker is killed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from chaos.judging import masters
from chaos.judging.spark import Session
from chaos.judging.spark_errors import JobFailed
from stormproof.campaign import on_spark
from stormproof.campaign.campaign import Done
from stormproof.sweeping.plan import PACKAGES, create
from stormproof.sweeping.sweep import Sweep
from stormproof.sweeping.task import Task
from tests.stormproof.small_runs import BUG, EXPERIMENT


class _Fake:
    """A Spark whose jobs fail while a task is among theirs that kills its worker."""

    def __init__(self, deadly: int = -1) -> None:
        self.deadly = deadly
        self.jobs = 0

    def map(
        self, work: Callable[[Task], Done], tasks: Sequence[Task], follow: Callable[[int, int], None]
    ) -> list[Done]:
        self.jobs += 1
        for one in tasks:
            if one.seed == self.deadly:
                raise JobFailed("a Python worker died each time that it was tried")
            one.row.parent.mkdir(exist_ok=True)
            one.row.write_text("a row")
            follow(0, len(tasks))
        return [Done(key=one.key) for one in tasks]


def tasks(directory: Path, count: int) -> list[Task]:
    return [Task(directory=str(directory), file=0, seed=seed) for seed in range(count)]


def ended(session: _Fake, tasks: Sequence[Task], *, enough: bool = False) -> list[Done]:
    """What is reported to have ended."""
    found: list[Done] = []
    rows = {one.key: one.row for one in tasks}

    def on_done(done: Done) -> bool:
        found.append(done)
        return enough

    on_spark.run(tasks, on_done, session=cast(Any, session), has_row=lambda key: rows[key].exists())
    return found


def test_a_task_that_kills_its_workers_costs_no_other_seed(tmp_path: Path) -> None:
    done = ended(_Fake(deadly=3), tasks(tmp_path, 8))
    assert len(done) == 8 and {one.key[1] for one in done if one.error} == {3}
    assert len(list((tmp_path / "rows").iterdir())) == 7


def test_the_job_ends_when_there_are_enough_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_spark, "LOOK_S", 0.0)
    assert [one.error for one in ended(_Fake(), tasks(tmp_path, 8), enough=True)] == [""]
    assert len(list((tmp_path / "rows").iterdir())) == 1


def test_a_folder_that_is_not_shared_is_named(tmp_path: Path) -> None:
    class Elsewhere(_Fake):
        def map(self, work: Any, tasks: Sequence[Task], follow: Any) -> list[Done]:
            return [Done(key=one.key) for one in tasks]

    (done,) = ended(Elsewhere(), tasks(tmp_path, 1))
    assert done.hopeless and "all machines must share the folder" in done.error


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]"])
def test_spark_makes_the_rows_that_this_process_makes(tmp_path: Path, master: str) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(EXPERIMENT)
    made = [create(tmp_path / where, [(file, "small", EXPERIMENT)], range(6), mutant=BUG) for where in ("a", "b")]
    here, there = (Sweep(*one) for one in made)
    for one in tasks(here.directory, 6):
        assert not one.do().error
    with Session(masters.parse(master), packages=PACKAGES) as session:
        there.run(session=session)
    assert there.errors == {}
    assert there.table().digest == Sweep(here.directory, here.plan).table().digest
