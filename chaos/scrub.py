"""What a driver offers so that ``stormproof scrub`` can judge what its system keeps on disks, without the system.

A driver's module offers ``SCRUBBER``, a :class:`Scrubber`. The command has it list the pieces below a folder, looks at
each, and looks again, a while later, at those that seem damaged: files may grow or go while they are read. Only what
both looks found at the same place is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

#: What a driver's module calls its scrubber.
SCRUBBER = "SCRUBBER"
#: Of ``Look.counted``: what is judged.
MESSAGES = "messages"


class Kind(StrEnum):
    """What kind of damage it is."""

    UNREADABLE = "unreadable"  # bytes that are no entry of this file
    CHECKSUM = "checksum"  # they are one, but don't match their checksum
    MISPLACED = "misplaced"  # an entry of another place: it says so itself
    GAP = "gap"  # entries or files are missing in between
    OVERLAP = "overlap"  # two files hold the same places
    DANGLING = "dangling"  # it points to what is not there
    CONTRADICTION = "contradiction"  # two entries or files say different things
    TORN_END = "torn end"  # the last entry is not whole, as after a crash


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """``file``: its path below the folder of its piece, with ``/``. ``at``: the first byte that is wrong, -1 where the
    whole file is meant. ``text``: one sentence without the place."""

    file: str
    kind: Kind
    text: str
    at: int = -1

    @property
    def place(self) -> tuple[str, int, Kind]:
        """What is the same when the same damage is found again."""
        return self.file, self.at, self.kind

    def __str__(self) -> str:
        place = f"{self.file}, byte {self.at}" if self.at >= 0 else self.file
        return f"{place}: {self.kind}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look at a piece has found. ``counted``: of what there was how much (``messages``, ``bytes``); where that
    says that there was no message, nothing was judged. ``notes``: sentences on what is odd but no damage."""

    damage: Sequence[Damage] = ()
    counted: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What is judged as one, a queue say. ``look`` lists its files again each time, changes nothing, and raises
    ``OSError`` when a file can't be read."""

    name: str
    look: Callable[[], Look]


class Scrubber(Protocol):
    """``holds`` says in a few words what it judges."""

    @property
    def holds(self) -> str: ...

    def pieces(self, folder: Path) -> Sequence[Piece] | None:
        """All pieces in this folder, in the order in which they are reported; None when nothing in it is the system's.
        Raises ``OSError``."""
