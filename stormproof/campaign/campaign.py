"""A campaign: tasks, each of which leaves one row. Whatever ends it, the rows that there are stay, and are never made
again.

Executors of Spark import this, so it needs no library.
"""

from __future__ import annotations

import fcntl
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from chaos import guarded
from chaos.errors import BadInput, ChaosError, MachineError

LOCK = ".lock"
#: Distinguishes the tasks of a campaign, in the order in which they are listed.
Key = tuple[Any, ...]


class Task(Protocol):
    """A run that is still to be made."""

    @property
    def key(self) -> Key: ...

    def do(self) -> Done:
        """Make the row. Never raises but for what ends the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A task has ended. ``error``: why it left no row, which another try may change; ``hopeless``: the next task on
    this machine would fail for the same reason."""

    key: Key
    error: str = ""
    hopeless: bool = False


#: Takes what has ended, and returns whether no further task should begin.
OnDone = Callable[[Done], bool]


#: Does tasks and calls what it is given with each that has ended: see :mod:`stormproof.campaign.local`.
Way = Callable[[Sequence[Task], OnDone], None]


def do(task: Task) -> Done:
    """Do a task in whatever process this is called in."""
    return task.do()


class Campaign(ABC):
    """Tasks that leave rows in ``directory``. ``errors``: why tasks left no row, by key; a campaign that goes on tries
    them again. ``hopeless``: why it was of no use to go on; "" if it was."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.errors: dict[Key, str] = {}
        self.hopeless = ""

    @abstractmethod
    def take(self, key: Key) -> None:
        """Take note of a task that has left its row. Raises :class:`ChaosError` or ``OSError`` for one that can't be
        read."""

    def carry_out(self, tasks: Sequence[Task], way: Way, is_enough: Callable[[], bool]) -> None:
        """Do the tasks in this ``way`` until ``is_enough`` returns True, which is asked before the first and after
        each. Ctrl-C ends it, and is raised again once the workers have ended."""

        def on_done(done: Done) -> bool:
            self.end(done)
            return is_enough() or bool(self.hopeless)

        if not is_enough() and tasks:
            way(tasks, on_done)

    def end(self, done: Done) -> None:
        """Take note of a task that has ended, in whatever way."""
        if done.error:
            self.errors[done.key] = done.error
            self.hopeless = done.error if done.hopeless else self.hopeless
            return
        try:
            self.take(done.key)
        except (ChaosError, OSError) as error:
            self.errors[done.key] = str(error)


class Pace:
    """How long the rest of so many tasks takes, as fast as they ended since the first call."""

    def __init__(self, whole: int, now_s: Callable[[], float] = time.monotonic) -> None:
        self._whole = whole
        self._now_s = now_s
        self._began: tuple[float, int] | None = None

    def left(self, done: int) -> str:
        """Return ``about 5 min left`` when so many have ended; "" while that is unknown."""
        if self._began is None:
            self._began = self._now_s(), done
        began_s, before = self._began
        if done <= before:
            return ""
        left_s = (self._whole - done) * (self._now_s() - began_s) / (done - before)
        return f"about {left_s / 60:.0f} min left"


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Keep other processes from going on with the same campaign. Raises :class:`BadInput` when one does already."""
    try:
        with os.fdopen(guarded.appended(directory / LOCK), "ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BadInput(f"another process is at work on {directory}") from None
            yield
    except OSError as error:
        raise MachineError(f"cannot write in {directory}: {error.strerror or error}") from error
