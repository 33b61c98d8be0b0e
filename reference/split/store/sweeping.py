"""Objects that nothing refers to: those of trimmed segments, and those that came late.

An object is deleted only some time after its segment's TRIM is applied, and a topic is looked at again and again, since
a PUT that was slow may land behind its deletion (R13). What the group still names, or what lies above the part that is
trimmed, is never touched: it may be a segment of which UPLOADED isn't logged yet.
"""

from __future__ import annotations

from chaos.node import Env
from reference.split.segments import Segment
from reference.split.store.led import Led
from reference.split.store.machine import GroupMachine
from reference.split.store.tier import SegmentTier
from reference.split.view import Cluster

#: So many topics are looked at at once by a store; a look comes again after so many times the delay of deletions.
MAX_UNDER_WAY, AGAIN = 2, 10
_MS = 1_000_000


class Sweeper:
    """The looks at the object store for the groups that a store leads."""

    def __init__(self, cluster: Cluster, tier: SegmentTier, delete_ms: int) -> None:
        self._cluster, self._tier = cluster, tier
        self._delay_ns = delete_ms * _MS
        self._due: dict[tuple[int, int], tuple[int, int]] = {}  # group, topic → trimmed up to where, when to look
        self._under_way: dict[tuple[int, int], None] = {}

    def consider(self, env: Env, led: Led, machine: GroupMachine) -> None:
        """Begin the looks that are due."""
        if not led.leads:
            return
        now, group = env.mono_ns(), machine.group
        for topic_id, trimmed in group.trimmed.items():
            place = group.number, topic_id
            position, due_ns = self._due.get(place, (-1, 0))
            if position != trimmed.position:
                self._due[place] = trimmed.position, now + self._delay_ns
            elif due_ns <= now and place not in self._under_way and len(self._under_way) < MAX_UNDER_WAY:
                self._look(env, machine, topic_id)

    def may_delete(self, machine: GroupMachine, segment: Segment) -> bool:
        """Policy: only what the group no longer names, and lies below the part that is kept, or is of a topic that is
        known to be deleted."""
        group = machine.group
        trimmed = group.trimmed.get(segment.topic_id)
        is_below = trimmed is not None and segment.end <= trimmed.position
        return segment not in group.segments and (is_below or self._cluster.is_deleted(segment.topic_id))

    def _look(self, env: Env, machine: GroupMachine, topic_id: int) -> None:
        place = machine.number, topic_id
        self._under_way[place] = None
        position = self._due[place][0]

        def found(env: Env, segments: list[Segment] | None) -> None:
            goners = [one for one in segments or () if self.may_delete(machine, one)]
            self._delete(env, place, goners, position)

        self._tier.find(env, machine.number, topic_id, found)

    def _delete(self, env: Env, place: tuple[int, int], goners: list[Segment], position: int) -> None:
        """Delete these objects one after the other, and look again later."""
        if goners:
            self._tier.delete(env, goners[0], lambda env, gone: self._delete(env, place, goners[1:], position))
            return
        self._under_way.pop(place, None)
        if self._due[place][0] == position:
            self._due[place] = position, env.mono_ns() + AGAIN * self._delay_ns
