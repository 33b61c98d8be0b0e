"""A client with positions in several queues, as it is recorded: what workloads on logs share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chaos.log_services import LogReader
from chaos.ops import QueueRef
from chaos.workload import Load, Outcome, Worker, note


class Positions:
    """Where a client is to go on, by the index of the queue as a text, as its last answer said."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self.following: Mapping[str, int] = {}

    def learn(self, outcome: Outcome) -> Outcome:
        """Take positions from how an operation ended, which is returned."""
        following = outcome.answer.value.get("following")
        if outcome.ok and isinstance(following, Mapping):
            self.following = dict(following)
        return outcome

    def note_seen(self, outcome: Outcome) -> Positions:
        """Learn from a poll, and remember for all workloads how far anybody has read."""
        for one in outcome.answer.messages:
            note(self._load, "seen", self._load.queues[one.queue], one.offset)
        self.learn(outcome)
        return self


class Reading:
    """A reader of logs, whose operations are recorded under its name."""

    def __init__(self, load: Load, name: str) -> None:
        self.client: LogReader = load.log_reader(name)
        self.worker = Worker(load, name)
        self.positions = Positions(load)

    async def assign(self, queues: Sequence[QueueRef]) -> Outcome:
        """Own these queues and no others."""
        indexes = [queue.index for queue in queues]
        return self.positions.learn(await self.worker.do("assign", lambda: self.client.assign(queues), queues=indexes))

    async def seek(self, queue: QueueRef, offset: int) -> Outcome:
        """Go on at this offset of a queue."""
        call = await self.worker.do("seek", lambda: self.client.seek(queue, offset), queue=queue, offset=offset)
        return self.positions.learn(call)

    async def poll(self, limit: int, **value: object) -> Outcome:
        """Read on; ``value`` is what else the row shall say."""
        at = self.positions.following
        polled = await self.worker.do("poll", lambda: self.client.poll(limit), positions=at, limit=limit, **value)
        self.positions.note_seen(polled)
        return polled
