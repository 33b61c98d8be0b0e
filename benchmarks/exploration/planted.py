"""Stores that the exploration of a group must find out: each breaks one rule by overriding what decides it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from benchmarks.exploration.store import Machine, Parts
from reference.split.segments import Segment
from reference.split.store.entries import Fence, Seal
from reference.split.store.group import Group
from reference.split.store.sealing import Sealing


class FenceInMemory(Machine):
    """Who owns the group is known until the next start, where a snapshot has taken the place of the fence."""

    def snapshot(self) -> Iterator[bytes]:
        fence, self.group.fence = self.group.fence, Fence(slice=0, epoch=0, broker="", life=0)
        pieces = super().snapshot()
        self.group.fence = fence
        return pieces


class SealsWhatIsUnderWay(Sealing):
    """A seal covers the next record, which may be under way, and its hash what is applied."""

    def seal_of(self, group: Group, now_ms: int) -> Seal:
        seal = super().seal_of(group, now_ms)
        return replace(seal, end=seal.end + group.tail.heads[0].size)


class CutsAtOnce(Machine):
    """The log is cut before the files of its segments are on the disk."""

    def may_compact(self) -> bool:
        return True


class OwnerCheckedEarlier(Group):
    """Whose append it is was checked when it was proposed, and not again when it is applied."""

    def has_epoch(self, epoch: int) -> bool:
        return True


class AnyAppend(Machine):
    group_class = OwnerCheckedEarlier


class SendsNoSegments(Machine):
    """A follower gets a snapshot, and looks for the segments that it names later."""

    def must_hold(self, segment: Segment) -> bool:
        return False


#: By name, what members are made of.
PLANTED: Mapping[str, Parts] = {
    "fence-in-memory": Parts(machine=FenceInMemory),
    "fence-checked-when-proposed": Parts(machine=AnyAppend),
    "seal-beyond-what-is-applied": Parts(sealing=SealsWhatIsUnderWay),
    "log-cut-before-files": Parts(machine=CutsAtOnce),
    "wiped-store-votes": Parts(knows_disks=False),
    "snapshot-without-segments": Parts(machine=SendsNoSegments),
}
