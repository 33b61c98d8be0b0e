"""A reader of logs made of a client of queues, for systems whose protocol keeps no positions of readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from chaos.driver import Client
from chaos.ops import Answer, Failed, QueueRef


class PositionedReader:
    """Implements :class:`chaos.log_services.LogReader` by the client's bounds and pulls; each poll reads one queue, in
    turn."""

    def __init__(self, client: Client) -> None:
        self._reads = client
        self.positions: dict[QueueRef, int] = {}
        self._turn = 0

    async def assign(self, queues: Sequence[QueueRef]) -> Answer:
        begun = {}
        for queue in queues:
            known = self.positions.get(queue, -1)
            begun[queue] = known if known >= 0 else (await self._reads.bounds(queue)).minimum
        self.positions = begun
        return self.answer()

    async def seek(self, queue: QueueRef, offset: int) -> Answer:
        if queue not in self.positions:
            raise Failed("the queue is not its own")
        if offset <= 0:
            bounds = await self._reads.bounds(queue)
            offset = bounds.minimum if offset == 0 else bounds.maximum
        self.positions[queue] = offset
        return self.answer(offset=offset)

    async def poll(self, limit: int) -> Answer:
        if not self.positions:
            return self.answer()
        queue = list(self.positions)[self._turn % len(self.positions)]
        self._turn += 1
        found = await self._reads.pull(queue, self.positions[queue], limit=limit)
        if queue in self.positions:
            self.positions[queue] = found.following
        messages = tuple(replace(one, queue=queue.index) for one in found.messages)
        return self.answer(node=found.node, epoch=found.epoch, messages=messages)

    def answer(self, value: Any = None, **more: Any) -> Answer:
        """Return what a call has learned, with the positions that it leaves."""
        following = {str(queue.index): offset for queue, offset in self.positions.items()}
        return Answer(value={**(value or {}), "following": following}, **more)

    def close(self) -> None:
        self._reads.close()
