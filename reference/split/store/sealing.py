"""When a leader ends a segment: by its size, or by the age of what isn't sealed.

The leader hashes what it has applied and says so in the entry; each machine cuts there and computes its own hashes, so
that appends which are under way meanwhile make no difference (R5).
"""

from __future__ import annotations

from chaos.node import Env
from reference.split.store.entries import Seal
from reference.split.store.group import Group
from reference.split.store.led import Led
from reference.split.store.machine import GroupMachine

_MS = 1_000_000


class Sealing:
    """The seals that a store proposes for the groups that it leads; one at a time is under way for each."""

    def __init__(self, segment_bytes: int, segment_ms: int) -> None:
        self._bytes, self._ns = segment_bytes, segment_ms * _MS
        self._under_way: dict[int, None] = {}
        self._begun: dict[int, tuple[int, int]] = {}  # group → its last seal, and since when there is a tail behind it

    def consider(self, env: Env, led: Led, machine: GroupMachine, now_ms: int) -> None:
        """Propose a seal, if one is due and the members' clocks are known: the age of segments rests on it."""
        group = machine.group
        if not now_ms or group.number in self._under_way or not led.leads or not self._is_due(env, group):
            return
        self._under_way[group.number] = None

        def ended(env: Env, outcome: object, index: int) -> None:
            self._under_way.pop(group.number, None)

        led.propose(env, self.seal_of(group, now_ms).encode(), ended)

    def seal_of(self, group: Group, now_ms: int) -> Seal:
        """Return the seal of all that is applied here, which is committed (R5)."""
        digests = {one.segment.topic_id: one.segment.digest for one, _ in group.cut_segments(group.end)}
        return Seal(start=group.sealed, end=group.end, digests=digests, now_ms=group.logged_time(now_ms))

    def _is_due(self, env: Env, group: Group) -> bool:
        if group.end == group.sealed:
            self._begun.pop(group.number, None)
            return False
        sealed, since_ns = self._begun.get(group.number, (-1, 0))
        if sealed != group.sealed:
            since_ns = env.mono_ns()
            self._begun[group.number] = group.sealed, since_ns
        return group.end - group.sealed >= self._bytes or env.mono_ns() - since_ns >= self._ns
