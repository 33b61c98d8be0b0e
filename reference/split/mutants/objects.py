"""Planted bugs of stores about what lies in the object store: what they delete there, and what they never do."""

from __future__ import annotations

from reference.mutants._planted import Planted
from reference.split.segments import Segment
from reference.split.store.led import Led
from reference.split.store.machine import GroupMachine
from reference.split.store.sweeping import Sweeper


class OrphanIsDeleted(Sweeper):
    """Whatever a member's own state doesn't name is an orphan to it, also where it was cut off and its state is old."""

    def may_look(self, led: Led) -> bool:
        return True

    def may_delete(self, machine: GroupMachine, segment: Segment) -> bool:
        return segment not in machine.group.segments


MUTANTS = (
    Planted(
        name="orphan-is-deleted",
        law="orphans",
        stands_for="nats-server #6888, #7556: whose snapshot is old takes what lives for orphans, and deletes it",
        parts={"store": {"sweeper": OrphanIsDeleted}},
        scenario="member_behind",
    ),
)
