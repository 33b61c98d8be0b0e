"""Topics that are created while faults strike, and looked for at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from chaos.services import CanCreateTopics, Topics
from chaos.workload import Load, Use, Worker

RETRY_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``rate_per_s`` topics are created, ``most`` in all, in turn with 1 to ``queues`` queues each. A creation that
    didn't end in ok is tried again, at most ``attempts`` times in all. At the end a topic that isn't there is waited
    for as long as ``drain_s``. With ``looks`` another client asks for the newest name all the time, as often as that in
    a second (0: never), and what it was shown is looked for at the end, too."""

    rate_per_s: float = 1.0
    most: int = field(default=200, metadata={"within": range(1, 1001)})
    queues: int = field(default=2, metadata={"within": range(1, 17)})
    attempts: int = field(default=3, metadata={"within": range(1, 101)})
    drain_s: float = 10.0
    looks: int = field(default=0, metadata={"within": range(101)})


@dataclass(slots=True)
class Creator:
    options: Options
    uses: Sequence[Use] = (Use.TOPICS,)
    needs: Sequence[type] = (CanCreateTopics,)
    #: Those whose creation was acknowledged, and those that a client was shown.
    _created: list[str] = field(default_factory=list)
    _newest: str = ""

    async def run(self, load: Load) -> None:
        if self.options.looks:
            await load.gather(self._make(load), self._look(load))
        else:
            await self._make(load)

    async def _look(self, load: Load) -> None:
        topics, worker = load.topics("topic-looker"), Worker(load, "topic-looker")
        while not load.stopping:
            await load.sleep(1 / self.options.looks)
            if (name := self._newest) and not load.stopping and await _is_there(topics, worker, name):
                self._there(name)

    def _there(self, name: str) -> None:
        if name not in self._created:
            self._created.append(name)

    async def _make(self, load: Load) -> None:
        topics, worker, rng = load.topics("topics"), Worker(load, "topics"), load.rng("topics")
        for number in range(self.options.most):
            await load.sleep((0.5 + rng.random()) / self.options.rate_per_s)
            if load.stopping:
                return
            await self._create(load, topics, worker, f"made-{number}", 1 + number % self.options.queues)

    async def _create(self, load: Load, topics: Topics, worker: Worker, name: str, queues: int) -> None:
        self._newest = name
        for _ in range(self.options.attempts):
            made = await worker.do("create_topic", lambda: topics.create(name, queues), topic=name, queues=queues)
            if made.ok:
                self._there(name)
                return
            if load.stopping:
                return
            await load.sleep(RETRY_PAUSE_S)

    async def drain(self, load: Load) -> None:
        """Ask for each topic whose creation was acknowledged, until it is there."""
        topics, worker = load.topics("topic-reader"), Worker(load, "topic-reader")
        deadline_ns = load.now_ns() + round(self.options.drain_s * 1e9)
        missing = list(self._created)
        while missing:
            late = load.now_ns() >= deadline_ns
            found = []
            for name in missing:
                found += [name] if await _is_there(topics, worker, name) else []
            missing = [name for name in missing if name not in found]
            if late:
                return
            if missing:
                await load.sleep(RETRY_PAUSE_S)


async def _is_there(topics: Topics, worker: Worker, name: str) -> bool:
    asked = await worker.do("find_topic", lambda: topics.find(name), topic=name)
    return asked.ok and bool(asked.answer.value.get("queues"))


def create(options: Options) -> Creator:
    return Creator(options)
