"""What a campaign is made of: tasks, each of which leaves one row. Executors of Spark import it, so it needs no
library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

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


def do(task: Task) -> Done:
    """Do a task in whatever process this is called in."""
    return task.do()
