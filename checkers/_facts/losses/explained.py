"""Of lost records: whether the profile permits the loss, and by which weakness at which event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from checkers._facts.arrays import Flags, Ints


class Lost(IntEnum):
    """What is to be said of the loss of one record."""

    UNEXPLAINED = 0
    PERMITTED = 1
    UNDECIDED = 2


@dataclass(slots=True)
class Explained:
    """For each record: ``state`` (a :class:`Lost`), and in ``why`` what permits the loss (words that follow "as"), or
    why nobody can decide it (words that follow "and")."""

    state: Ints
    why: list[str] = field(default_factory=list)

    @classmethod
    def nothing(cls, count: int) -> Explained:
        return cls(np.full(count, Lost.UNEXPLAINED, dtype=np.int64), [""] * count)

    def where(self, state: Lost) -> Flags:
        flags: Flags = self.state == state
        return flags

    def say(self, which: Ints, state: Lost, why: str) -> None:
        """Of these records, unless more is known of them: a permission outweighs what is undecided."""
        for number in which.tolist():
            if self.state[number] == Lost.UNEXPLAINED or (
                state == Lost.PERMITTED and self.state[number] == Lost.UNDECIDED
            ):
                self.state[number], self.why[number] = state, why

    def reasons(self, state: Lost) -> Iterator[tuple[str, Ints]]:
        """Each reason for this state, with the numbers of its records, in the order of the first of them."""
        found: dict[str, list[int]] = {}
        for number in np.flatnonzero(self.state == state).tolist():
            found.setdefault(self.why[number], []).append(number)
        for why, numbers in found.items():
            yield why, np.array(numbers, dtype=np.int64)
