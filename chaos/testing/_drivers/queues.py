"""What a driver's clients of queues may not do: they are used while all is well, and while answers get lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import count, product

from chaos.driver import CanReadThroughNodes, Client
from chaos.effects.links import HARNESS
from chaos.ops import Answer, Delivered, OpType, QueueRef, message_id
from chaos.testing._drivers.bench import Bench, Ended, Result
from chaos.testing._drivers.forwarder import Loss
from chaos.workload import body_hash

GROUP = "check-group"
PAUSE_S = 0.05
RETRY_S = 0.2
#: So many of a call's first requests are lost, one at a time: the lookup of a leader may come before the real one.
REQUESTS = (1, 2, 3)
LIMIT = 32
#: Nobody needs more pulls than this for the few messages of a check.
MOST_PULLS = 2_000
#: How often one call that fails is asked again.
TRIES = 25


@dataclass(slots=True)
class Queues:
    """``sent``: each message that was sent, with how the call ended, by queue."""

    bench: Bench
    queues: Sequence[QueueRef]
    sent: dict[int, list[tuple[Delivered, Result, str]]] = field(default_factory=dict)
    _numbers: dict[int, count[int]] = field(default_factory=dict)

    async def while_all_is_well(self, seconds: float) -> None:
        """Send to every queue, read everything back, and store an offset."""
        await self.send_for(seconds)
        client = self.bench.driver.client(self.bench.network, "check-consumer")
        for queue in self.queues:
            ended = [result for _, result, _ in self.sent[queue.index]]
            if not any(result.ok for result in ended):
                text = f"no send to queue {queue.index} was acknowledged by a settled system"
                self.bench.require(False, f"{text}; the last one ended with: {ended[-1].reason}")
                raise Ended
            await self.offsets(client, queue)
        client.close()
        await self.read_back()

    async def send_for(self, seconds: float) -> None:
        """Send to every queue, again and again."""
        client = self.bench.driver.client(self.bench.network, "check-producer")
        loop = asyncio.get_running_loop()
        end_s = loop.time() + seconds
        while loop.time() < end_s:
            for queue in self.queues:
                await self.send(client, queue, "send")
            await asyncio.sleep(PAUSE_S)
        client.close()

    async def send(self, client: Client, queue: QueueRef, what: str) -> Result:
        number = next(self._numbers.setdefault(queue.index, count()))
        message = message_id(queue.index, number)
        body = f"{message}:check".encode()
        result = await self.bench.ask(what, client.send(queue, f"{message:032X}", body))
        if result.ok:
            text = "send ended well without an offset: Answer.offset must say where the message stands"
            self.bench.require(result.answer.offset >= 0, text)
        stored = Delivered(offset=result.answer.offset, message=message, hash=body_hash(body))
        self.sent.setdefault(queue.index, []).append((stored, result, what))
        return result

    async def offsets(self, client: Client, queue: QueueRef) -> None:
        """Check a group's offset: none, then the one that was stored. And the bounds of the queue."""
        require = self.bench.require
        found = await self.persist("committed", lambda: client.committed(queue, GROUP))
        require(not found or found.answer.offset == -1, "committed of a new group must end with the offset -1")
        stored = await self.persist("commit", lambda: client.commit(queue, GROUP, 1))
        if stored:
            found = await self.persist("committed", lambda: client.committed(queue, GROUP))
            shown = found.answer.offset if found else 1
            require(shown == 1, f"committed says {shown} after a commit of 1 ended well")
        bounds = await self.persist("bounds", lambda: client.bounds(queue))
        if bounds:
            low, high = bounds.answer.minimum, bounds.answer.maximum
            require(0 <= low <= high, f"bounds says minimum {low} and maximum {high}; both are offsets of the queue")
            known = 1 + max(stored.offset for stored, result, _ in self.sent[queue.index] if result.ok)
            text = (
                f"bounds says maximum {high}, the next offset to be written, after offset {known - 1} was acknowledged"
            )
            require(high >= known, text)

    async def persist(self, what: str, call: Callable[[], Awaitable[Answer]]) -> Result | None:
        """Ask until it ends well; None, and a problem noted, if that takes too many tries."""
        for _ in range(TRIES):
            result: Result = await self.bench.ask(what, call())
            if result.ok:
                return result
            await asyncio.sleep(RETRY_S)
        self.bench.require(False, f"{what} never ended well on a settled system; the last time: {result.reason}")
        return None

    # Losing answers

    async def while_answers_get_lost(self) -> None:
        """Lose one request of each call, as it may happen in any run. Where client libraries open connections, the
        first requests on them are greetings: so also of a client whose connections are open."""
        network = self.bench.network
        for loss, which, is_open in product(Loss, REQUESTS, (False, True)):
            if is_open and not network.has_endpoints:
                continue
            name = f"check-{loss.name.lower()}-{which}{'-open' if is_open else ''}"
            client = self.bench.driver.client(network, name)
            if is_open:
                await self.bench.ask("bounds", client.bounds(self.queues[0]))
            network.lose(name, which, loss)
            await self.send(client, self.queues[0], f"send, with request {which} of it lost ({loss})")
            client.close()
            if not is_open:
                await self._commit_and_pull(loss, which)
        if not network.hit:
            self.bench.unchecked.append("lost answers: the client opens no connection of the network that it is given")
        await self.bench.settled("after answers were lost")
        await self.read_back()

    async def _commit_and_pull(self, loss: Loss, which: int) -> None:
        network, queue = self.bench.network, self.queues[0]
        name = f"check-reader-{loss.name.lower()}-{which}"
        client = self.bench.driver.client(network, name)
        network.lose(name, which, loss)
        await self.bench.ask(f"pull, with request {which} of it lost ({loss})", client.pull(queue, 0, limit=1))
        group = f"{GROUP}-{name}"
        network.lose(name, which, loss)
        what = f"commit, with request {which} of it lost ({loss})"
        result = await self.bench.ask(what, client.commit(queue, group, 1))
        network.lose(name, 0, loss)
        found = await self.persist("committed", lambda: client.committed(queue, group))
        if found and result.type is OpType.FAIL:
            text = f"{what} ended as Failed, but the offset was stored; raise Unknown when nobody can know"
            self.bench.require(found.answer.offset != 1, text)
        client.close()

    # Reading back

    async def read_back(self) -> None:
        """Compare what stands in each queue with how the sends ended."""
        client = self.bench.driver.client(self.bench.network, HARNESS)
        for queue in self.queues:
            await self._read_back(client, queue)

    async def through_nodes(self, driver: CanReadThroughNodes) -> None:
        """Compare the same, through each node that holds a copy; all of them are in sync."""
        for queue in self.queues:
            holders = tuple(driver.holders(queue))
            text = f"holders of queue {queue.index} names {', '.join(holders) or 'nobody'}; one copy can't be compared"
            self.bench.require(len(set(holders)) > 1, text)
            strange = sorted(set(holders) - self.bench.nodes)
            if not self.bench.require(not strange, f"holders names {', '.join(strange)}, which is not a node"):
                continue
            for node in holders:
                client = self.bench.driver.client(self.bench.network, f"check-{node}")
                await self._caught_up(client, queue, node)
                await self._read_back(client, queue, node)
                client.close()

    async def _caught_up(self, client: Client, queue: QueueRef, node: str) -> None:
        """Wait, within a bound, until a node shows as much as readers of the queue may read: as in the final read of a
        run, a copy may lag."""
        end = await self.persist("bounds", lambda: client.bounds(queue))
        for _ in range(TRIES):
            shown = await self.bench.ask("bounds", client.bounds(queue, node=node))
            if end is None or (shown.ok and shown.answer.maximum >= end.answer.maximum):
                return
            await asyncio.sleep(RETRY_S)

    async def _read_back(self, client: Client, queue: QueueRef, node: str = "") -> None:
        found = await self._read(client, queue, node)
        places: dict[int, list[int]] = {}
        for offset, one in found.items():
            places.setdefault(one.message, []).append(offset)
        low = min(found, default=0)
        through = f", read through {node}" if node else ""
        for stored, result, what in self.sent.get(queue.index, ()):
            self._compare(stored, result, what + through, found, places.get(stored.message, []), low)

    def _compare(
        self,
        stored: Delivered,
        result: Result,
        what: str,
        found: dict[int, Delivered],
        places: list[int],
        low: int,
    ) -> None:
        require = self.bench.require
        if result.type is OpType.FAIL:
            text = f"{what} ended as Failed, but the message stands in the queue; raise Unknown when nobody can know"
            require(not places, text)
        if result.type is not None:
            require(len(places) < 2, f"{what} stored the message more than once: one call must be one attempt")
        if not result.ok or stored.offset < low:  # it may have been retained away
            return
        there = found.get(stored.offset)
        if not require(there is not None, f"{what} was acknowledged at an offset that pull doesn't deliver"):
            return
        assert there is not None
        text = f"pull delivers message {there.message} where {stored.message} was acknowledged ({what});"
        require(there.message == stored.message, f"{text} Delivered.message is the number that the key stands for")
        require(
            there.hash == stored.hash, "pull delivers another hash; Delivered.hash is chaos.workload.body_hash(body)"
        )

    async def _read(self, client: Client, queue: QueueRef, node: str) -> dict[int, Delivered]:
        """Return all messages of a queue by offset, as clients read them; through this node, unless that is ""."""
        found: dict[int, Delivered] = {}
        bounds = await self.persist("bounds", lambda: client.bounds(queue, node=node))
        offset = max(0, bounds.answer.minimum) if bounds else 0
        for _ in range(MOST_PULLS):
            begin = offset
            result = await self.persist("pull", lambda: client.pull(queue, begin, limit=LIMIT, node=node))  # noqa: B023
            if result is None:
                return found
            answer = result.answer
            text = f"pull with node={node!r} was answered by {answer.node or 'nobody that the answer names'}"
            self.bench.require(node in ("", answer.node), text)
            text = "pull ended well without Answer.maximum: nobody could know when a queue has been read to its end"
            self.bench.require(answer.maximum >= 0, text)
            if not answer.messages:
                text = f"pull at {offset} ended well without messages, though the queue goes on to {answer.maximum}"
                self.bench.require(answer.maximum <= offset or answer.following > offset, text)
                if answer.following <= offset:
                    return found
            offsets = [one.offset for one in answer.messages]
            text = f"pull from {offset} delivers the offsets {offsets}, which must grow, and not begin below"
            self.bench.require(offsets == sorted(set(offsets)) and (not offsets or offsets[0] >= offset), text)
            text = f"pull delivers {len(offsets)} messages where {LIMIT} were asked for at most"
            self.bench.require(len(offsets) <= LIMIT, text)
            found.update((one.offset, one) for one in answer.messages)
            last = max((*offsets, offset - 1)) + 1
            following = answer.following
            text = f"pull says to go on at {following}, though it delivered up to {last - 1}"
            self.bench.require(following == -1 or following >= last, text)
            offset = max(last, following)
        self.bench.require(False, f"pull of queue {queue.index} does not come to an end")
        return found
