"""Unique messages to all queues, and consumer groups that read them and commit their offsets."""

from __future__ import annotations

from dataclasses import dataclass, field

from chaos.driver import Client
from chaos.ops import QueueRef
from chaos.workload import Load, Worker
from workloads._drain import IDLE_S, PULL_LIMIT, after, drain, pull
from workloads._producers import produce


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``producers`` together send ``rate_per_s`` messages of about ``body_bytes`` each (every hundredth has
    ``large_bytes``, if set). A send that didn't end in ok is tried again with probability ``retry``, at most
    ``attempts`` times in all. Each of the ``groups`` has ``consumers``, which own disjoint queues, pass them on every
    ``rotate_s`` seconds, and commit after each batch, but not within ``commit_s`` seconds of the last time.
    ``drain_s`` bounds the reading of each queue at the end."""

    producers: int = field(default=3, metadata={"within": range(1, 1001)})
    consumers: int = field(default=2, metadata={"within": range(1001)})
    groups: int = field(default=1, metadata={"within": range(1, 101)})
    rate_per_s: float = 100.0
    body_bytes: int = field(default=100, metadata={"within": range(4_000_001)})
    large_bytes: int = field(default=0, metadata={"within": range(4_000_001)})
    retry: float = 0.5
    attempts: int = field(default=3, metadata={"within": range(1, 101)})
    rotate_s: float = 20.0
    commit_s: float = 0.0
    drain_s: float = 45.0


@dataclass(slots=True)
class _Position:
    """A consumer's place in a queue that it owns; -1 until the group's committed offset was read. It commits no
    sooner than ``commit_at_ns``."""

    owner: str
    following: int = -1
    commit_at_ns: int = 0


@dataclass(slots=True)
class Queue:
    options: Options
    _owned: dict[tuple[str, int], _Position] = field(default_factory=dict)

    @property
    def sends_per_s(self) -> float:
        """How many messages the producers send together each second."""
        return self.options.rate_per_s if self.options.producers else 0.0

    async def run(self, load: Load) -> None:
        groups = [f"group-{number}" for number in range(self.options.groups)]
        await load.gather(
            *(produce(load, self.options, number) for number in range(self.options.producers)),
            *(self._consume(load, group, number) for group in groups for number in range(self.options.consumers)),
        )

    async def drain(self, load: Load) -> None:
        drain_s = self.options.drain_s
        await load.gather(*(drain(load, queue, f"drain-{queue.index}", "queue", drain_s) for queue in load.queues))

    # Consumers

    async def _consume(self, load: Load, group: str, number: int) -> None:
        name = f"{group}-consumer-{number}"
        client, worker = load.client(name), Worker(load, name)
        begun_ns = load.now_ns()
        try:
            while not load.stopping:
                turn = int((load.now_ns() - begun_ns) / 1e9 / self.options.rotate_s)
                progress = False
                for queue in load.queues:
                    if load.stopping:
                        break
                    mine = (queue.index + turn) % self.options.consumers == number
                    place = self._claim(group, queue, name, mine)
                    if place is not None:
                        progress |= await self._consume_some(load, client, worker, group, queue, place)
                if not progress:
                    await load.sleep(IDLE_S)
        finally:
            client.close()

    def _claim(self, group: str, queue: QueueRef, name: str, mine: bool) -> _Position | None:
        """Own the queue when it is this consumer's turn and nobody else still has it; let go of it otherwise."""
        place = self._owned.get((group, queue.index))
        if place is not None and place.owner == name and not mine:
            del self._owned[group, queue.index]
            return None
        if place is None and mine:
            place = self._owned[group, queue.index] = _Position(name)
        return place if place is not None and place.owner == name else None

    async def _consume_some(
        self, load: Load, client: Client, worker: Worker, group: str, queue: QueueRef, place: _Position
    ) -> bool:
        """Read one batch and commit it. Returns whether there is more to read at once: the batch was full, or left
        something out."""
        owner = place.owner
        if place.following < 0:
            committed = await worker.do(
                "committed", lambda: client.committed(queue, group), queue=queue, group=group, owner=owner
            )
            if not committed.ok:
                return False
            place.following = max(0, committed.answer.offset)
        begin = place.following
        read = await pull(load, client, worker, queue, begin, group=group, owner=owner)
        place.following = after(begin, read)
        if not (read.ok and read.answer.messages):
            return place.following > begin
        more = len(read.answer.messages) >= PULL_LIMIT
        if load.now_ns() < place.commit_at_ns:
            return more
        place.commit_at_ns = load.now_ns() + round(self.options.commit_s * 1e9)
        await worker.do(
            "commit",
            lambda: client.commit(queue, group, place.following),
            queue=queue,
            offset=place.following,
            group=group,
            owner=owner,
        )
        return more


def create(options: Options) -> Queue:
    return Queue(options)
