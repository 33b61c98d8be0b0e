"""Readers that seek into the past: through the tier, at its boundary with the local log, and on every replica."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.driver import Client
from chaos.ops import QueueRef
from chaos.workload import Load, Outcome, Use, Worker, note

DRAIN_TRIES = 20
RETRY_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``readers`` together make ``rate_per_s`` reads, each of up to ``limit`` messages and ``max_bytes`` (0: as much as
    the system gives). ``drain_s`` bounds the reading of each queue through the tier at the end, and so how long a tier
    that is behind is waited for."""

    readers: int = field(default=2, metadata={"within": range(1, 1001)})
    rate_per_s: float = 10.0
    limit: int = field(default=16, metadata={"within": range(1, 1001)})
    max_bytes: int = field(default=4096, metadata={"within": range(4_000_001)})
    drain_s: float = 30.0


@dataclass(slots=True)
class TierRead:
    options: Options
    uses: Sequence[Use] = (Use.QUEUES, Use.TIER_READS)
    #: (replica, queue) → the first offset that this replica's own log held at its last answer.
    _local_start: dict[tuple[str, int], int] = field(default_factory=dict)

    async def run(self, load: Load) -> None:
        await load.gather(*(self._read(load, number) for number in range(self.options.readers)))

    async def drain(self, load: Load) -> None:
        """Read every queue once from the tier alone, so that what it holds is compared with what was sent. Wait
        until the tier holds all that the queue did when this began."""
        await load.gather(*(self._drain(load, queue) for queue in load.queues))

    async def _read(self, load: Load, number: int) -> None:
        name = f"tier-reader-{number}"
        client, worker, rng = load.client(name), Worker(load, name), load.rng(name)
        gap_s = self.options.readers / self.options.rate_per_s
        visits = (self._into_the_past, self._at_the_boundary, self._both_sources)
        try:
            while not load.stopping:
                if await load.sleep(gap_s * (0.5 + rng.random())):
                    break
                queue, node = rng.choice(load.queues), rng.choice(load.brokers)
                visit, share = rng.choice(visits), rng.random()
                await visit(load, client, worker, queue, node, share)
        finally:
            client.close()

    async def _into_the_past(
        self, load: Load, client: Client, worker: Worker, queue: QueueRef, node: str, share: float
    ) -> None:
        """Read from the master at an offset that is this share of the way into the queue."""
        bounds = await worker.do("bounds", lambda: client.bounds(queue), queue=queue)
        if bounds.ok and bounds.answer.maximum > bounds.answer.minimum >= 0:
            length = bounds.answer.maximum - bounds.answer.minimum
            await self._pull(load, client, worker, queue, bounds.answer.minimum + int(share * length))

    async def _at_the_boundary(
        self, load: Load, client: Client, worker: Worker, queue: QueueRef, node: str, share: float
    ) -> None:
        """Read across the offset where a replica's local log begins: first from the tier, then from the log. To find
        that offset, ask for local data at offset 0: a replica that has deleted it refuses, and says where it begins."""
        start = self._local_start.get((node, queue.index), 0)
        read = await self._pull(load, client, worker, queue, start, node=node, demand="local")
        if not read.ok and read.answer.following > start:
            start = self._local_start[node, queue.index] = read.answer.following
        back = max(0, start - int(share * self.options.limit))
        await self._pull(load, client, worker, queue, back, node=node)
        await self._pull(load, client, worker, queue, start, node=node)

    async def _both_sources(
        self, load: Load, client: Client, worker: Worker, queue: QueueRef, node: str, share: float
    ) -> None:
        """Read one range on every replica, from its own log and through the tier."""
        start = max(0, self._local_start.get((node, queue.index), 0) + int(share * self.options.limit))
        for replica in load.brokers:
            for demand in ("local", "tier"):
                if load.stopping:
                    return
                read = await self._pull(load, client, worker, queue, start, node=replica, demand=demand)
                if demand == "local" and not read.ok and read.answer.following > start:
                    self._local_start[replica, queue.index] = read.answer.following

    async def _drain(self, load: Load, queue: QueueRef) -> None:
        name = f"tier-drain-{queue.index}"
        client, worker = load.client(name), Worker(load, name)
        deadline_ns = load.now_ns() + round(self.options.drain_s * 1e9)
        offset, tries = 0, 0
        try:
            bounds = await worker.do("bounds", lambda: client.bounds(queue), queue=queue)
            end = bounds.answer.maximum if bounds.ok else 0
            while tries < DRAIN_TRIES and load.now_ns() < deadline_ns:
                read = await self._pull(load, client, worker, queue, offset, demand="tier")
                if read.ok and not read.answer.messages and offset >= end:
                    return
                before = offset
                offset = max(offset, read.answer.following)
                if offset == before:
                    tries += not read.ok
                    await load.sleep(RETRY_S)
        finally:
            client.close()

    async def _pull(
        self,
        load: Load,
        client: Client,
        worker: Worker,
        queue: QueueRef,
        offset: int,
        *,
        node: str = "",
        demand: str = "",
    ) -> Outcome:
        most: dict[str, int] = {"limit": self.options.limit}
        if self.options.max_bytes:
            most["max_bytes"] = self.options.max_bytes
        value: dict[str, Any] = {**most}
        if node:
            value["from"] = node
        if demand:
            value["demand"] = demand
        read = await worker.do(
            "pull",
            lambda: client.pull(queue, offset, **most, node=node, source=demand),
            queue=queue,
            offset=offset,
            **value,
        )
        if read.answer.messages:
            note(load, "seen", queue, read.answer.messages[-1].offset)
        return read


def create(options: Options) -> TierRead:
    return TierRead(options)
