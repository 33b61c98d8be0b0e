"""How a leader's sealed segments get into the object store: first the object, then UPLOADED in the log.

Segments have one name and one content for ever, so that two leaders which upload the same one do no harm.
"""

from __future__ import annotations

from chaos.node import Env
from reference.split.segments import Segment
from reference.split.store.entries import Uploaded
from reference.split.store.led import Led
from reference.split.store.machine import GroupMachine
from reference.split.store.tier import SegmentTier

#: So many segments of a store are on their way at once, and so long a failed one waits.
MAX_UNDER_WAY, RETRY_NS = 4, 500_000_000


class Uploads:
    """The uploads of one store."""

    def __init__(self, tier: SegmentTier) -> None:
        self._tier = tier
        self._under_way: dict[Segment, None] = {}
        self._not_before: dict[Segment, int] = {}  # when to try one again that failed

    def consider(self, env: Env, led: Led, machine: GroupMachine) -> None:
        """Begin the uploads that are due, oldest first."""
        now = env.mono_ns()
        for segment, sealed in machine.group.segments.items():
            if len(self._under_way) >= MAX_UNDER_WAY or not led.leads:
                return
            if not sealed.is_uploaded and segment not in self._under_way and self._not_before.get(segment, 0) <= now:
                self._upload(env, led, machine, segment)

    def _upload(self, env: Env, led: Led, machine: GroupMachine, segment: Segment) -> None:
        data = machine.files.read_whole(env, segment) if segment in machine.files.held else None
        if data is None:
            return
        self._under_way[segment] = None

        def stored(env: Env, is_there: bool) -> None:
            if self.may_log(is_there) and led.leads and segment in machine.group.segments:
                led.propose(env, Uploaded(segment=segment).encode(), logged)
            else:
                self._end(env, segment, failed=True)

        def logged(env: Env, outcome: object, index: int) -> None:
            self._end(env, segment, failed=outcome is None)

        self._tier.put(env, segment, self.content(segment, data), stored)

    def content(self, segment: Segment, data: bytes) -> bytes:
        """Policy: an object holds exactly the bytes that were sealed."""
        return data

    def may_log(self, is_there: bool) -> bool:
        """Policy: a segment counts as uploaded only once exactly its bytes are durable in the object store (R4)."""
        return is_there

    def _end(self, env: Env, segment: Segment, *, failed: bool) -> None:
        self._under_way.pop(segment, None)
        self._not_before.pop(segment, None)
        if failed:
            self._not_before[segment] = env.mono_ns() + RETRY_NS
