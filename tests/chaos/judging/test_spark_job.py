"""A job that nobody works on is given up, and one whose state can't be asked for is not."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.judging.spark_errors import JobFailed, sentence
from chaos.judging.spark_job import _follow


class Job:
    """Tells these states, (done, active, all), one after the other, and the last one for ever."""

    def __init__(self, *states: Any, polls: int = 1_000) -> None:
        self.states = list(states)
        self.polls = polls

    def is_alive(self) -> bool:
        self.polls -= 1
        return self.polls > 0

    def join(self, _: float) -> None: ...

    def progress(self) -> tuple[int, int, int]:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, Exception):
            raise state
        return state


def test_a_job_without_executors_is_given_up_also_after_it_has_begun() -> None:
    for states in ([(0, 0, 4)], [(0, 1, 4), (2, 1, 4), (2, 0, 4)]):
        with pytest.raises(JobFailed, match="gave no executor within 0 s") as caught:
            _follow(Job(*states), None, 8, 0.0)  # type: ignore[arg-type]
        assert caught.value.lost and sentence(caught.value) == str(caught.value)


def test_a_job_that_is_worked_on_is_followed_to_its_end() -> None:
    told: list[tuple[int, int]] = []
    states = [(0, 1, 4), RuntimeError("no answer"), (1, 1, 4), (4, 1, 4)]
    _follow(Job(*states, polls=8), lambda *done: told.append(done), 8, 0.0)  # type: ignore[arg-type]
    assert told[:2] == [(0, 8), (2, 8)] and told[-1] == (8, 8)


def test_a_local_master_is_waited_for() -> None:
    _follow(Job((0, 0, 4)), None, 8, None)  # type: ignore[arg-type]
