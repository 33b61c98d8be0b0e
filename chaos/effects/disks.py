"""Rules on disks: what happens to the reads, writes and syncs of one node.

A rule is put up under an id and lasts, over all lives of the node, until it is cleared. Several faults put up rules at
the same time, and all of them act: what makes syncs last longer adds up, and each fails what it would fail alone. What
a rule refused, failed or held up is counted by its id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, TypeVar


@dataclass(frozen=True, slots=True)
class Full:
    """No file grows: such writes raise :class:`chaos.node.DiskFull`, and nothing of them happens."""


@dataclass(frozen=True, slots=True)
class SlowDisk:
    """Each sync lasts ``latency_ns`` longer, and those behind it wait."""

    latency_ns: int


@dataclass(frozen=True, slots=True)
class FailSync:
    """Syncs fail: which of their bytes are on the disk is unknown, and the node stops at once."""


@dataclass(frozen=True, slots=True)
class FailReads:
    """Each read fails with this probability, in 1/1000; a node that doesn't expect that stops."""

    per_mille: int


@dataclass(frozen=True, slots=True)
class Tear:
    """The next sync of a strict disk ends in its middle, and the node at that moment, as in a power cut; ``draw``
    decides which sectors of it are on the disk. The simulator tears what is unsynced when it has a node die."""

    draw: int


DiskAction = Full | SlowDisk | FailSync | FailReads | Tear
Action = TypeVar("Action", bound=DiskAction)
#: By name, for what travels as JSON.
ACTIONS: Mapping[str, type[DiskAction]] = {kind.__name__: kind for kind in (Full, SlowDisk, FailSync, FailReads, Tear)}


@dataclass(frozen=True, slots=True)
class DiskRule:
    """What happens to the disk of a node while the rule is up."""

    node: str
    action: DiskAction


def to_json(action: DiskAction) -> dict[str, Any]:
    return {"name": type(action).__name__, **asdict(action)}


def from_json(fields: Mapping[str, Any]) -> DiskAction:
    return ACTIONS[fields["name"]](**{key: value for key, value in fields.items() if key != "name"})


class DiskRules:
    """The rules of one disk, in the order in which they were put up. ``broken``: in the step that runs, a rule made an
    operation fail, so that whatever the node dies of now is not its own mistake."""

    def __init__(self) -> None:
        self.by_id: dict[str, DiskAction] = {}
        self.hits: dict[str, int] = {}
        self.broken = False

    def put_up(self, rule_id: str, action: DiskAction) -> None:
        self.by_id[rule_id] = action
        self.hits.setdefault(rule_id, 0)

    def clear(self, rule_id: str) -> None:
        self.by_id.pop(rule_id, None)
        self.hits.pop(rule_id, None)
        self.broken = False

    def refuses_growth(self) -> bool:
        """Return whether a write that makes a file longer fails."""
        if not self._hit(Full):
            return False
        self.broken = True
        return True

    def latency_ns(self) -> int:
        """Return how much longer a sync lasts that begins now."""
        return sum(action.latency_ns for action in self._hit(SlowDisk))

    def fails_sync(self) -> bool:
        """Return whether a sync that ends now has failed."""
        return bool(self._hit(FailSync))

    def tears_sync(self) -> int | None:
        """Return what decides how a sync is torn that is under way now; None for one that isn't."""
        found = self._hit(Tear)
        return found[0].draw if found else None

    def fails_read(self, rng: Random) -> bool:
        struck = [found for found in self._of(FailReads) if rng.randrange(1000) < found[1].per_mille]
        for rule_id, action in struck:
            self._count(rule_id, action)
        self.broken = self.broken or bool(struck)
        return bool(struck)

    def _of(self, kind: type[Action]) -> list[tuple[str, Action]]:
        return [(rule_id, action) for rule_id, action in self.by_id.items() if isinstance(action, kind)]

    def _hit(self, kind: type[Action]) -> list[Action]:
        """Return all that the rules of this kind do, which have an effect now."""
        found = self._of(kind)
        for rule_id, action in found:
            self._count(rule_id, action)
        return [action for _, action in found]

    def _count(self, rule_id: str, action: DiskAction) -> None:
        self.hits[rule_id] += 1
