"""What members of consumer groups have in common, by whichever protocol their group divides its queues."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from chaos.ops import Answer, Failed, QueueRef, Unknown
from chaos.positions import PositionedReader
from drivers.kafka.client import QueueClient
from drivers.kafka.cluster import SESSION_S
from drivers.kafka.connection import ERROR

#: How long a member may take to give a queue back.
REBALANCE_S = 10.0
ILLEGAL_GENERATION, UNKNOWN_MEMBER, FENCED, UNRELEASED, STALE = 22, 25, 110, 111, 113
#: The member is put out, or speaks for a generation that is over.
IS_OVER = frozenset({ILLEGAL_GENERATION, UNKNOWN_MEMBER, FENCED, UNRELEASED, STALE})
#: Besides: nothing was changed by a request that was refused with one of these.
REFUSED = IS_OVER | {14, 15, 16, 23, 24, 26, 27, 42, 79, 81}


class Member(PositionedReader):
    """Begins queues at the group's committed offsets, and commits in the name of its generation."""

    session_s = SESSION_S

    def __init__(self, client: QueueClient, group: str, queues: Sequence[QueueRef]) -> None:
        super().__init__(client)
        self.client = client
        self.group = group
        self.queues = {queue.queue_id: queue for queue in queues}
        self.id, self.generation = "", -1

    async def commit(self, offsets: Mapping[QueueRef, int]) -> Answer:
        try:
            return await self.client.store(self.group, offsets, self.id, self.generation)
        except Failed as error:
            raise _told(error) from error

    async def begin(self, queues: Sequence[QueueRef]) -> None:
        """Begin queues that it has not begun at the group's committed offset, at the first offset where there is none.
        One of which neither can be had is left for the next heartbeat."""
        for queue in queues:
            if queue not in self.positions:
                try:
                    stored = (await self.client.committed(queue, self.group)).offset
                    self.positions[queue] = stored if stored >= 0 else (await self.client.bounds(queue)).minimum
                except Failed:
                    continue

    async def ask(
        self, request: str, asked: Mapping[str, Any], sure: Collection[int] = REFUSED, timeout_s: float | None = None
    ) -> tuple[str, Any]:
        """Return the group's coordinator and what it answers. Raises :class:`Failed` and :class:`Unknown`."""
        node = await self.client.coordinator(self.group)
        try:
            asked = {"group_id": self.group, **asked}
            return node, await self.client.connections.ask(node, request, asked, sure, timeout_s)
        except Failed as error:
            self.client.forget(self.group)
            raise _told(error) from error
        except Unknown:
            self.client.forget(self.group)
            raise

    def told(self, node: str, *, rejoin: bool = False) -> Answer:
        """Return which queues are its own, and in which generation."""
        queues = sorted(queue.index for queue in self.positions)
        return self.answer({"queues": queues, "generation": self.generation, "rejoin": rejoin}, node=node)


def _told(error: Failed) -> Failed:
    """Return an error that says whether the member must join again."""
    answer = error.answer
    if answer.value.get(ERROR) not in IS_OVER:
        return error
    return Failed(error.reason, Answer(node=answer.node, value={**answer.value, "fenced": True}))
