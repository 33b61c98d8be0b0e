"""What a replica may forget: local segments that the tier covers, and where an empty slave may begin.

Both follow from the same question: from which position on does a queue's history live in the local log alone?
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos import events
from chaos.node import Env
from reference.broker.parts import Replica

TICK_NS = 500_000_000
PIN_NS = 30_000_000_000
READER_NS = 5_000_000_000
_READER = 0  # no broker has this id


class Retention:
    def __init__(self, broker: Replica, options: Mapping[str, Any]) -> None:
        self._broker = broker
        self._retain_bytes = int(options.get("retain_bytes", 0))
        self._delete_untiered = bool(options.get("delete_untiered", False))
        self._segment_bytes = int(options.get("segment_bytes", 1 << 20))
        self._pins: dict[int, tuple[int, int]] = {}  # slave's id → position, deadline

    @property
    def deletes(self) -> bool:
        """Whether anything is ever deleted: by size alone, and what no tier holds only where that is allowed."""
        return self._retain_bytes > 0 and (self._broker.is_tiered or self._delete_untiered)

    @property
    def kept(self) -> dict[str, Any]:
        """How much of a log that is deleted from is kept, as it is reported with a role."""
        if not self.deletes:
            return {}
        sizes = {"retain_bytes": self._retain_bytes, "segment_bytes": self._segment_bytes}
        return {**sizes, "tiered": self._broker.is_tiered}

    # Policy

    def covered_position(self) -> int:
        """Every record of a queue before this position is named by a committed manifest, unless its topic is gone. Only
        one of this very epoch counts: its master has compared it with its log, of which ours is a beginning. What
        another one names may be other records: those of another epoch, where an unclean election has lost these."""
        position = self._broker.queues.dispatched
        for queue in self._broker.queues.by_index:
            if queue.gone:
                continue
            view = self._broker.tier.view(queue.index)
            covered = view.end if view is not None and view.epoch == self._broker.epoch else queue.first
            if covered < queue.first:
                return self._broker.log.first
            if covered < queue.next:
                position = min(position, queue.positions[covered - queue.first])
        return position

    def bootstrap_position(self) -> int:
        """Where an empty slave begins: no later than confirm, than the first record that the tier lacks, and than the
        first message that waits to come to its queue."""
        first = self.first_waiting()
        return max(self._broker.log.first, min(self._broker.log.confirm, self.covered_position(), first))

    def first_waiting(self) -> int:
        """Return the position of the first deferred message that waits; the end of the log where none does."""
        first = self._broker.queues.deferred.first()
        return self._broker.log.end if first is None else first.position

    # Pins

    def pin(self, env: Env, slave: int, position: int) -> None:
        """Keep everything from ``position`` on for a slave that begins there, for a bounded time."""
        self._pins[slave] = (position, env.mono_ns() + PIN_NS)

    def hold_for_reader(self, env: Env) -> None:
        """Somebody collects the whole log in slices: keep it whole for a few seconds more."""
        self._pins[_READER] = (self._broker.log.first, env.mono_ns() + READER_NS)

    def unpin(self, slave: int) -> None:
        self._pins.pop(slave, None)

    def tick(self, env: Env) -> None:
        env.set_timer("retention", TICK_NS)
        self._broker.log.note_bounds(env)
        if self.deletes:
            self._delete(env)

    def _delete(self, env: Env) -> None:
        """Let the log begin at the last segment boundary that the rule allows."""
        broker, log = self._broker, self._broker.log
        confirmed = broker.queues.dispatched
        by_size = log.end - self._retain_bytes
        if by_size <= log.first:
            return
        now = env.mono_ns()
        self._pins = {slave: pin for slave, pin in self._pins.items() if pin[1] > now}
        pinned = min((position for position, _ in self._pins.values()), default=log.end)
        pinned = min(pinned, self.first_waiting())
        covered = self.covered_position() if broker.is_tiered else confirmed
        limit = min(by_size, confirmed, covered, pinned)
        ends = [end for end in log.segment_ends() if end <= limit]
        if not ends:
            return
        self._begin_at(env, ends[-1])
        views = {str(queue): view.end for queue, view in sorted(broker.tier.views().items())}
        env.trace(
            events.Retention(
                epoch=broker.epoch,
                position=ends[-1],
                rule="size",
                wall_ns=env.wall_ns(),
                inputs={
                    "end": log.end,
                    "confirm": log.confirm,
                    "dispatched": confirmed,
                    "covered": covered,
                    "pinned": pinned,
                    "retain_bytes": self._retain_bytes,
                    "tiered": broker.is_tiered,
                    "delete_untiered": self._delete_untiered,
                    "views": views,
                },
                minimums={str(queue.index): queue.first for queue in broker.queues.by_index},
            )
        )

    def _begin_at(self, env: Env, position: int) -> None:
        broker = self._broker
        base = broker.queues.base_at(broker.log.base, position)
        broker.queues.drop_before(position)
        broker.log.advance(env, base)
