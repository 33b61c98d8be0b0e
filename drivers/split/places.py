"""Where the queues of a run lie: which slice and which group has each, and as what clients know it there."""

from __future__ import annotations

from dataclasses import dataclass, field

from chaos.ops import Failed, QueueRef
from reference.split import layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """``ids``: those of topics, by name, as meta has given them. A queue's ``queue_id`` is its number in its topic."""

    groups: int
    slices: int
    ids: dict[str, int] = field(default_factory=dict)

    @property
    def brokers(self) -> tuple[str, ...]:
        """The names by which routes know the slices."""
        return tuple(layout.slice_name(number) for number in range(self.slices))

    def group(self, queue: QueueRef) -> int:
        """Return the group that holds a queue. Raises :class:`Failed` while its topic is not there."""
        if queue.topic not in self.ids:
            raise Failed(f"topic {queue.topic} is not there yet")
        return layout.group_of(self.ids[queue.topic], queue.queue_id, self.groups)

    def broker(self, queue: QueueRef) -> str:
        """Return the name of the slice that a queue lies in. Raises as :meth:`group`."""
        return layout.slice_name(layout.slice_of(self.group(queue), self.slices))

    def rank(self, queue: QueueRef) -> int:
        """Return what clients call a queue within its slice. Raises as :meth:`group`."""
        self.group(queue)
        return layout.rank_of(queue.queue_id, self.ids[queue.topic], self.groups, self.slices)
