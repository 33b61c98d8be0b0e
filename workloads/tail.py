"""Readers that wait at the end of queues for the next message (long polling), at the master and at every replica."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from chaos.ops import Answer, QueueRef
from chaos.services import CanHoldReads, WaitingReads
from chaos.workload import Load, Outcome, Use, Worker, note

RETRY_S = 0.2
#: Who has failed so often in a row looks for the end again, at a node that is drawn again.
FAILURES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Of each queue as many ``readers`` wait for the next message at the same time, each read for up to ``wait_s`` and
    for up to ``limit`` messages. A share of ``replicas`` of them asks one certain replica, whatever its role is; the
    others ask the master."""

    readers: int = field(default=3, metadata={"within": range(1, 101)})
    wait_s: float = 3.0
    limit: int = field(default=16, metadata={"within": range(1, 1001)})
    replicas: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 < self.wait_s <= 10.0:
            raise ValueError(f"wait_s: expected more than 0 and up to 10 seconds, got {self.wait_s:g}")


@dataclass(slots=True)
class Tail:
    options: Options
    needs: Sequence[type] = (CanHoldReads,)
    uses: Sequence[Use] = (Use.QUEUES,)

    async def run(self, load: Load) -> None:
        await load.gather(
            *(self._follow(load, queue, number) for queue in load.queues for number in range(self.options.readers))
        )

    async def drain(self, load: Load) -> None:
        """Do nothing: nobody waits for what came before: other workloads read queues to their end."""

    async def _follow(self, load: Load, queue: QueueRef, number: int) -> None:
        name = f"tail-{queue.index}-{number}"
        client, worker, rng = load.waiting_reads(name), Worker(load, name), load.rng(name)
        try:
            while not load.stopping:
                node = self._node(load, rng)
                bounds = await self._bounds(client, worker, queue, node)
                if bounds.ok and bounds.answer.maximum >= 0:
                    await self._wait(load, client, worker, queue, node, bounds.answer.maximum)
                else:
                    await load.sleep(RETRY_S)
        finally:
            client.close()

    def _node(self, load: Load, rng: Random) -> str:
        """Return the replica to ask, "" for the master, whichever node that is."""
        return rng.choice(load.brokers) if rng.random() < self.options.replicas else ""

    async def _wait(
        self, load: Load, client: WaitingReads, worker: Worker, queue: QueueRef, node: str, offset: int
    ) -> None:
        """Read on from this offset, until the node fails again and again."""
        failures = 0
        while failures < FAILURES and not load.stopping:
            read = await self._read(client, worker, queue, node, offset)
            if read.answer.messages:
                note(load, "seen", queue, read.answer.messages[-1].offset)
            offset = max(offset, read.answer.following)
            failures = 0 if read.ok else failures + 1
            if not read.ok:
                await load.sleep(RETRY_S)

    async def _bounds(self, client: WaitingReads, worker: Worker, queue: QueueRef, node: str) -> Outcome:
        return await worker.do("bounds", lambda: client.bounds(queue, node), queue=queue, **_asked(node))

    async def _read(self, client: WaitingReads, worker: Worker, queue: QueueRef, node: str, offset: int) -> Outcome:
        options = self.options

        async def read() -> Answer:
            return await client.pull(queue, offset, limit=options.limit, node=node, wait_s=options.wait_s)

        asked: dict[str, Any] = {"limit": options.limit, "wait_ms": round(options.wait_s * 1e3), **_asked(node)}
        return await worker.do("pull", read, queue=queue, offset=offset, **asked)


def _asked(node: str) -> dict[str, Any]:
    return {"from": node} if node else {}


def create(options: Options) -> Tail:
    return Tail(options)
