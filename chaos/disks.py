"""Rules on disks: what happens to the reads, writes and syncs of one node.

A rule is put up under an id and lasts, over all lives of the node, until it is cleared. Several faults put up rules at
the same time: of those that say something about an operation the first one wins. What a rule refused, failed or held
up is counted by its id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from random import Random
from typing import Any


@dataclass(frozen=True, slots=True)
class Full:
    """No file grows: such writes raise :class:`chaos.node.DiskFull`, and nothing of them happens."""


@dataclass(frozen=True, slots=True)
class SlowDisk:
    """Each sync lasts ``latency_ns`` longer, and those behind it wait."""

    latency_ns: int


@dataclass(frozen=True, slots=True)
class FailSync:
    """Syncs fail: nobody knows which of their bytes are on the disk, and the node stops at once."""


@dataclass(frozen=True, slots=True)
class FailReads:
    """Each read fails with this probability, in 1/1000; a node that doesn't expect that stops."""

    per_mille: int


DiskAction = Full | SlowDisk | FailSync | FailReads
#: By name, for what travels as JSON.
ACTIONS: Mapping[str, type[DiskAction]] = {kind.__name__: kind for kind in (Full, SlowDisk, FailSync, FailReads)}


@dataclass(frozen=True, slots=True)
class DiskRule:
    node: str
    action: DiskAction


def to_json(action: DiskAction) -> dict[str, Any]:
    return {"name": type(action).__name__, **asdict(action)}


def from_json(told: Mapping[str, Any]) -> DiskAction:
    return ACTIONS[told["name"]](**{key: value for key, value in told.items() if key != "name"})


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
        """Whether a write that makes a file longer fails."""
        if self._hit(Full) is None:
            return False
        self.broken = True
        return True

    def latency_ns(self) -> int:
        """How much longer a sync lasts that begins now."""
        slow = self._hit(SlowDisk)
        return slow.latency_ns if isinstance(slow, SlowDisk) else 0

    def fails_sync(self) -> bool:
        """Whether a sync that ends now has failed."""
        return self._hit(FailSync) is not None

    def fails_read(self, rng: Random) -> bool:
        found = self._first(FailReads)
        if found is None:
            return False
        rule_id, action = found
        assert isinstance(action, FailReads)
        if rng.randrange(1000) >= action.per_mille:
            return False
        self._count(rule_id, action)
        self.broken = True
        return True

    def _first(self, kind: type[DiskAction]) -> tuple[str, DiskAction] | None:
        return next((found for found in self.by_id.items() if isinstance(found[1], kind)), None)

    def _hit(self, kind: type[DiskAction]) -> DiskAction | None:
        """The first rule of this kind, which has an effect now."""
        found = self._first(kind)
        if found is None:
            return None
        self._count(*found)
        return found[1]

    def _count(self, rule_id: str, action: DiskAction) -> None:
        self.hits[rule_id] += 1
