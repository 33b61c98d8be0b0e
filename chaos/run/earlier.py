"""A cluster that ran before the run: what others have written to it must not be taken for what this run did.

Queues that are not empty are refused. Objects and locks get names that nobody has used before, in the system; rows of
the history have the workloads' own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.driver import Client, Driver, Network
from chaos.effects.links import HARNESS
from chaos.errors import BadInput, DeploymentError
from chaos.ops import Answer, Failed, QueueRef, Unknown
from chaos.services import Locks, Objects

#: How long a queue may take to say what it holds.
ANSWER_S = 30.0
RETRY_S = 0.2


async def check_empty(driver: Driver, network: Network) -> None:
    """Check that all queues are empty. Raises :class:`BadInput` where a queue holds messages of somebody else, which
    look like invented ones."""
    client = driver.client(network, HARNESS) if driver.queues() else None
    if client is None:
        return
    try:
        for queue in driver.queues():
            deadline_s = asyncio.get_running_loop().time() + ANSWER_S
            while (end := await _end(client, queue)) < 0:
                if asyncio.get_running_loop().time() >= deadline_s:
                    raise DeploymentError(
                        f"queue {queue.topic}/{queue.queue_id} did not say within {ANSWER_S:g} s what it holds"
                    )
                await asyncio.sleep(RETRY_S)
            if end > 0:
                raise BadInput(
                    f"queue {queue.topic}/{queue.queue_id} holds messages from before this run (its end is {end});"
                    " they would be taken for the run's own: empty it, or use another (an option of the driver may name"
                    " one)"
                )
    finally:
        client.close()


async def _end(client: Client, queue: QueueRef) -> int:
    """Return the offset after the last message, -1 while it is unknown."""
    try:
        return max(0, (await client.bounds(queue)).maximum)
    except (Failed, Unknown):
        return -1


@dataclass(frozen=True, slots=True)
class FreshObjects:
    """Implements :class:`chaos.services.Objects` with ``prefix`` before each name."""

    inner: Objects
    prefix: str

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.inner.nodes

    async def create(self, name: str, node: str, *, numbers: int) -> Answer:
        return await self.inner.create(self.prefix + name, node, numbers=numbers)

    async def read(self, key: str, node: str) -> Answer:
        return await self.inner.read(self.prefix + key, node)

    async def write(self, key: str, node: str, value: str) -> Answer:
        return await self.inner.write(self.prefix + key, node, value)

    async def compare_and_set(self, key: str, node: str, *, expected: int, value: Sequence[int]) -> Answer:
        return await self.inner.compare_and_set(self.prefix + key, node, expected=expected, value=value)


@dataclass(frozen=True, slots=True)
class FreshLocks:
    """The same for :class:`chaos.services.Locks`."""

    inner: Locks
    prefix: str

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.inner.nodes

    async def acquire(self, name: str, node: str, *, lease_s: float) -> Answer:
        return await self.inner.acquire(self.prefix + name, node, lease_s=lease_s)

    async def renew(self, name: str, node: str) -> Answer:
        return await self.inner.renew(self.prefix + name, node)

    async def release(self, name: str, node: str) -> Answer:
        return await self.inner.release(self.prefix + name, node)
