"""Messages whose keys are drawn by Zipf's law, and readers that move about in several queues, each from positions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random

from chaos.log_services import CanReadLogs
from chaos.ops import QueueRef
from chaos.workload import Load, Use
from workloads._drain import IDLE_S, drain
from workloads._logs import Reading
from workloads._producers import Choose, produce


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``producers`` together send ``rate_per_s`` messages of about ``body_bytes`` each (every hundredth has
    ``large_bytes``, if set), whose key is one of ``keys``: the n-th is drawn 1 / n^``zipf`` times as often as the
    first. A key stands for a queue. A send that didn't end in ok is tried again with probability ``retry``, at most
    ``attempts`` times in all. Each of the ``readers`` polls for up to ``limit`` messages of the queues that it owns.
    Before a poll it takes others with probability ``assign``, and goes to another place in one of them with probability
    ``seek``: its end, its beginning, one that the reader has passed, or the offset that it has committed, as a group of
    its own. It does that after a poll with probability ``commit``, unless it has committed a higher one. ``drain_s``
    bounds the reading at the end."""

    producers: int = field(default=3, metadata={"within": range(1, 1001)})
    rate_per_s: float = 100.0
    body_bytes: int = field(default=100, metadata={"within": range(4_000_001)})
    large_bytes: int = field(default=0, metadata={"within": range(4_000_001)})
    keys: int = field(default=1000, metadata={"within": range(1, 1_000_001)})
    zipf: float = 1.0
    retry: float = 0.5
    attempts: int = field(default=3, metadata={"within": range(1, 101)})
    readers: int = field(default=3, metadata={"within": range(1, 1001)})
    limit: int = field(default=32, metadata={"within": range(1, 10_001)})
    assign: float = 0.05
    seek: float = 0.05
    commit: float = 0.1
    drain_s: float = 45.0


@dataclass(slots=True)
class Log:
    options: Options
    needs: Sequence[type] = (CanReadLogs,)
    uses: Sequence[Use] = (Use.QUEUES, Use.LOGS)

    @property
    def sends_per_s(self) -> float:
        """How many messages the producers send together each second."""
        return self.options.rate_per_s

    async def run(self, load: Load) -> None:
        choose = _by_zipf(load.queues, self.options)
        await load.gather(
            *(produce(load, self.options, number, choose, "log-") for number in range(self.options.producers)),
            *(self._read(load, number) for number in range(self.options.readers)),
        )

    async def drain(self, load: Load) -> None:
        """Read each queue to its end, and then all of them once more as one reader."""
        drain_s = self.options.drain_s
        await load.gather(*(drain(load, queue, f"log-drain-{queue.index}", "log", drain_s) for queue in load.queues))
        await self._read_all(load)

    async def _read(self, load: Load, number: int) -> None:
        reader, rng = _Reader(load, f"log-reader-{number}"), load.rng(f"log-reader-{number}")
        options = self.options
        try:
            while not load.stopping:
                if not reader.positions.following or rng.random() < options.assign:
                    await reader.assign(rng.sample(load.queues, rng.randint(1, len(load.queues))))
                elif rng.random() < options.seek:
                    await reader.move(rng)
                read = await reader.poll(options.limit)
                if rng.random() < options.commit:
                    await reader.commit(rng)
                if not read.answer.messages:
                    await load.sleep(IDLE_S)
        finally:
            reader.close()

    async def _read_all(self, load: Load) -> None:
        """Poll until all that was acknowledged or read has been passed, within the time."""
        reading = Reading(load, "log-final-reader")
        deadline_ns = load.now_ns() + round(self.options.drain_s * 1e9)
        wanted = {str(queue.index): 1 + load.shared["seen"].get(queue.index, -1) for queue in load.queues}
        try:
            await reading.assign(load.queues)
            while load.now_ns() < deadline_ns:
                read = await reading.poll(self.options.limit)
                following = reading.positions.following
                if not following:
                    await reading.assign(load.queues)
                elif all(following.get(queue, -1) >= end for queue, end in wanted.items()):
                    break
                if not read.answer.messages:
                    await load.sleep(IDLE_S)
        finally:
            reading.client.close()


class _Reader(Reading):
    """A reader that commits offsets, as a group of its own."""

    def __init__(self, load: Load, name: str) -> None:
        super().__init__(load, name)
        self._load = load
        self._group = name
        self._committing = load.client(name)
        self._committed: dict[int, int] = {}

    def _drawn(self, rng: Random) -> tuple[QueueRef, int]:
        """Return one of the queues that it owns, and the position in it."""
        name, position = rng.choice(sorted(self.positions.following.items()))
        return self._load.queues[int(name)], max(0, position)

    async def move(self, rng: Random) -> None:
        queue, position = self._drawn(rng)
        place = rng.choice(("end", "beginning", "passed", "committed"))
        places = {"end": -1, "beginning": 0, "passed": rng.randint(0, position)}
        await self.seek(queue, places[place] if place in places else await self._stored(queue))

    async def _stored(self, queue: QueueRef) -> int:
        """Return the offset that is committed, the beginning where none is."""
        stored = await self.worker.do(
            "committed", lambda: self._committing.committed(queue, self._group), queue=queue, group=self._group
        )
        return max(0, stored.answer.offset)

    async def commit(self, rng: Random) -> None:
        if not self.positions.following:
            return
        queue, position = self._drawn(rng)
        if position > self._committed.get(queue.index, 0):
            self._committed[queue.index] = position
            await self.worker.do(
                "commit",
                lambda: self._committing.commit(queue, self._group, position),
                queue=queue,
                offset=position,
                group=self._group,
            )

    def close(self) -> None:
        self.client.close()
        self._committing.close()


def _by_zipf(queues: Sequence[QueueRef], options: Options) -> Choose:
    """Return a function that draws a key, and with it a queue."""
    weights = [*accumulate(1.0 / rank**options.zipf for rank in range(1, options.keys + 1))]

    def choose(rng: Random) -> tuple[QueueRef, dict[str, object]]:
        key = min(bisect_left(weights, rng.random() * weights[-1]), options.keys - 1)
        return queues[key % len(queues)], {"key": key}

    return choose


def create(options: Options) -> Log:
    return Log(options)
