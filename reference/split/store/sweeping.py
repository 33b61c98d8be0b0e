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

#: So many topics are looked at at once by a store; a look comes again after so many times the delay of deletions.
MAX_UNDER_WAY, AGAIN = 2, 10
_MS = 1_000_000


class Sweeper:
    """The looks at the object store for the groups that a store leads."""

    def __init__(self, tier: SegmentTier, delete_ms: int) -> None:
        self._tier = tier
        self._delay_ns = delete_ms * _MS
        self._due: dict[tuple[int, int], tuple[int, int]] = {}  # group, topic → up to where to look, and when
        self._looked: dict[tuple[int, int], int] = {}  # up to where the last look went
        self._under_way: dict[tuple[int, int], None] = {}

    def consider(self, env: Env, led: Led, machine: GroupMachine) -> None:
        """Begin the looks that are due. A look is put off by no later trim: what that lets go is the next one's."""
        if not self.may_look(led):
            return
        now, group = env.mono_ns(), machine.group
        for topic_id, trimmed in group.trimmed.items():
            place = group.number, topic_id
            position, due_ns = self._due.get(place, (-1, 0))
            if place in self._under_way:
                continue
            if trimmed.position != position == self._looked.get(place, -1):
                self._due[place] = trimmed.position, now + self._delay_ns
            elif due_ns <= now and len(self._under_way) < MAX_UNDER_WAY:
                self._look(env, machine, topic_id)

    def may_look(self, led: Led) -> bool:
        """Policy: only who leads, and has applied all that was committed before, knows what a group names."""
        return led.leads

    def may_delete(self, machine: GroupMachine, segment: Segment) -> bool:
        """Policy: only what the group no longer names, and lies below what was trimmed when the delay began: also who
        has lost the lead since then knows that it never comes back."""
        position = self._due[machine.number, segment.topic_id][0]
        return segment.end <= position and segment not in machine.group.segments

    def _look(self, env: Env, machine: GroupMachine, topic_id: int) -> None:
        place = machine.number, topic_id
        self._under_way[place] = None

        def found(env: Env, segments: list[Segment] | None) -> None:
            if segments is None:
                self._end(env, place, 1)
            else:
                self._delete(env, place, [one for one in segments if self.may_delete(machine, one)])

        self._tier.find(env, machine.number, topic_id, found)

    def _delete(self, env: Env, place: tuple[int, int], goners: list[Segment]) -> None:
        """Delete these objects one after the other, and look again later."""
        if goners:
            self._tier.delete(env, goners[0], lambda env, gone: self._delete(env, place, goners[1:]))
        else:
            self._end(env, place, AGAIN)

    def _end(self, env: Env, place: tuple[int, int], delays: int) -> None:
        self._under_way.pop(place, None)
        position = self._looked[place] = self._due[place][0]
        self._due[place] = position, env.mono_ns() + delays * self._delay_ns
