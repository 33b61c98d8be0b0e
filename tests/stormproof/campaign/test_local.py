"""Tasks are done on all cores, and one that kills its worker costs no other one."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaos.errors import BadInput
from stormproof.campaign import local
from stormproof.campaign.campaign import Campaign, Done, Key, Pace, alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Toy:
    """Leaves a file, and kills its own process if it is ``deadly``."""

    folder: Path
    number: int
    deadly: bool = False
    error: str = ""
    hopeless: bool = False

    @property
    def key(self) -> Key:
        return (self.number,)

    def do(self) -> Done:
        if self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        if not self.error:
            (self.folder / str(self.number)).write_text("done")
        return Done(key=self.key, error=self.error, hopeless=self.hopeless)


class Toys(Campaign):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.rows: dict[Key, str] = {}

    def take(self, key: Key) -> None:
        self.rows[key] = (self.directory / str(key[0])).read_text()

    def run(self, tasks: Sequence[Toy], most: int = 99) -> None:
        self.carry_out(tasks, local.one_by_one, lambda: len(self.rows) >= most)


@pytest.mark.process
def test_a_task_that_kills_its_worker_costs_no_other_one(tmp_path: Path) -> None:
    found: dict[Key, str] = {}
    tasks = [Toy(folder=tmp_path, number=number, deadly=number == 1) for number in range(4)]
    local.run(tasks, lambda done: bool(found.update({done.key: done.error})), processes=2)
    assert sorted(found) == [(0,), (1,), (2,), (3,)]
    assert "died, twice" in found[1,] and not any(found[number,] for number in (0, 2, 3))


@pytest.mark.process
def test_no_task_begins_once_there_are_enough(tmp_path: Path) -> None:
    found: list[Key] = []
    tasks = [Toy(folder=tmp_path, number=number) for number in range(20)]

    def on_done(done: Done) -> bool:
        found.append(done.key)
        return True

    local.run(tasks, on_done, processes=1)
    assert 1 <= len(found) <= 3 and len(list(tmp_path.iterdir())) == len(found)


def test_a_campaign_ends_when_it_has_enough_or_no_hope(tmp_path: Path) -> None:
    toys = Toys(tmp_path)
    toys.run([Toy(folder=tmp_path, number=number) for number in range(4)], most=2)
    assert toys.rows == {(0,): "done", (1,): "done"} and not toys.errors
    toys.run([Toy(folder=tmp_path, number=2)], most=2)
    assert (2,) not in toys.rows
    toys.run([Toy(folder=tmp_path, number=5, error="odd"), Toy(folder=tmp_path, number=6)])
    assert toys.errors == {(5,): "odd"} and (6,) in toys.rows and not toys.hopeless
    toys.run([Toy(folder=tmp_path, number=7, error="full", hopeless=True), Toy(folder=tmp_path, number=8)])
    assert toys.hopeless == "full" and (8,) not in toys.rows


def test_a_row_that_cannot_be_read_is_an_error_of_its_task(tmp_path: Path) -> None:
    toys = Toys(tmp_path)
    toys.end(Done(key=(9,)))
    assert "No such file" in toys.errors[9,]


def test_no_task_begins_after_the_time(tmp_path: Path) -> None:
    begun: list[Toy] = []
    tasks = [Toy(folder=tmp_path, number=number) for number in range(3)]
    local.one_by_one(tasks, lambda done: False, budget_s=1e-9, on_begin=begun.append)
    assert not begun
    local.one_by_one(tasks, lambda done: False, on_begin=begun.append)
    assert begun == tasks


def test_what_is_left_takes_as_long_as_what_was_done() -> None:
    times = iter([100.0, 220.0])
    pace = Pace(10, lambda: next(times))
    assert [pace.left(done) for done in (2, 2, 4)] == ["", "", "about 6 min left"]


def test_two_processes_do_not_work_on_one_campaign(tmp_path: Path) -> None:
    with alone(tmp_path), pytest.raises(BadInput, match="another process"), alone(tmp_path):
        pass
