"""What a goal implements: something that a storm is meant to reach, recognised in the rows of a run.

A law says what must never happen; a goal says what should happen *sometimes* (the word is Antithesis's). A run in which
it didn't happen may well be VALID, but then its promises were never tried there, and the verdict says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chaos.driver import Evidence
from chaos.kernel import Needs
from chaos.law import Key, Rows
from chaos.law_declaration import needs_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """One goal. Build it with ``create(options)`` of its module, whose name, with spaces, is the goal's.

    ``reached`` counts how often a whole run came there, 0 for never; it is a pure function of the rows that ``reads``
    declares, classes of rows or fields of them, and asking for others raises. ``evidence`` is what the driver must
    report: an experiment that names a goal which can't be seen is refused before it starts.
    """

    reads: Sequence[object]
    reached: Callable[[Rows], int]
    evidence: tuple[Evidence, ...] = (Evidence.OPERATIONS,)

    @property
    def needs(self) -> Needs:
        return needs_of(self.reads, Key.RUN, evidence=self.evidence)
