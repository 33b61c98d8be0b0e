"""Topics that are created, and deleted, while faults strike, and looked for at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from chaos.ops import OpType
from chaos.services import CanCreateTopics, CanDeleteTopics, Topics
from chaos.workload import Load, Use, Worker

RETRY_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``rate_per_s`` topics are created, ``most`` in all, in turn with 1 to ``queues`` queues each. A creation that
    didn't end in ok is tried again, at most ``attempts`` times in all. With ``delete_each`` every so-many-th topic
    (0: none) is deleted again ``lives_s`` later, and that is tried as often; with ``again_s`` it is made once more so
    long after its deletion was acknowledged (0: never). At the end a topic that isn't there, or
    one that was deleted and is, is waited for as long as ``drain_s``. With ``looks`` another client asks for the newest
    name all the time, as often as that in a second (0: never), and what it was shown is looked for at the end, too."""

    rate_per_s: float = 1.0
    most: int = field(default=200, metadata={"within": range(1, 1001)})
    queues: int = field(default=2, metadata={"within": range(1, 17)})
    attempts: int = field(default=3, metadata={"within": range(1, 101)})
    delete_each: int = field(default=0, metadata={"within": range(1001)})
    lives_s: float = 5.0
    again_s: float = 0.0
    drain_s: float = 10.0
    looks: int = field(default=0, metadata={"within": range(101)})


@dataclass(slots=True)
class Creator:
    options: Options
    uses: Sequence[Use] = (Use.TOPICS,)
    needs: Sequence[type] = (CanCreateTopics,)
    #: Those whose creation was acknowledged, and those that a client was shown.
    _created: list[str] = field(default_factory=list)
    #: Those that are to be deleted or made again, when, and with how many queues; and those whose deletion was asked
    #: for, and whether it was acknowledged.
    _doomed: list[tuple[int, str, int]] = field(default_factory=list)
    _missed: list[tuple[int, str, int]] = field(default_factory=list)
    _deleted: dict[str, bool] = field(default_factory=dict)
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
            if (name := self._newest) and not load.stopping and await _finds(topics, worker, name):
                self._exists(name)

    def _exists(self, name: str) -> None:
        if name not in self._created:
            self._created.append(name)

    async def _make(self, load: Load) -> None:
        topics, worker, rng = load.topics("topics"), Worker(load, "topics"), load.rng("topics")
        deleter = Worker(load, "topic-deleter")
        for number in range(self.options.most):
            await load.sleep((0.5 + rng.random()) / self.options.rate_per_s)
            if load.stopping:
                return
            while self._doomed and self._doomed[0][0] <= load.now_ns():
                await self._delete(load, deleter, *self._doomed.pop(0)[1:])
            while self._missed and self._missed[0][0] <= load.now_ns():
                await self._make_again(load, topics, worker, *self._missed.pop(0)[1:])
            name, each, queues = f"made-{number}", self.options.delete_each, 1 + number % self.options.queues
            made = await self._create(load, topics, worker, name, queues)
            if made and each and number % each == each - 1:
                self._doomed.append((load.now_ns() + round(self.options.lives_s * 1e9), name, queues))

    async def _make_again(self, load: Load, topics: Topics, worker: Worker, name: str, queues: int) -> None:
        """Make a topic under the name of one that is gone. Until that is acknowledged, nothing is to be seen of it."""
        self._deleted[name] = False
        if await self._create(load, topics, worker, name, queues):
            del self._deleted[name]

    async def _delete(self, load: Load, worker: Worker, name: str, queues: int) -> None:
        topics = load.deleting_topics("topic-deleter")
        self._deleted[name] = False
        for _ in range(self.options.attempts):
            gone = await worker.do("delete_topic", lambda: topics.delete(name), topic=name)
            self._deleted[name] = gone.ok
            if gone.ok and self.options.again_s:
                self._missed.append((load.now_ns() + round(self.options.again_s * 1e9), name, queues))
            if gone.ok or load.stopping:
                return
            await load.sleep(RETRY_PAUSE_S)

    async def _create(self, load: Load, topics: Topics, worker: Worker, name: str, queues: int) -> bool:
        """Create it; return whether it was acknowledged, and no other attempt may still make it."""
        self._newest = name
        sure = True
        for _ in range(self.options.attempts):
            made = await worker.do("create_topic", lambda: topics.create(name, queues), topic=name, queues=queues)
            if made.ok:
                self._exists(name)
                return sure
            sure = sure and made.type is OpType.FAIL
            if load.stopping:
                break
            await load.sleep(RETRY_PAUSE_S)
        return False

    async def drain(self, load: Load) -> None:
        """Ask for each topic whose creation was acknowledged, until it is there; for one whose deletion was, until it
        is gone. Of one whose deletion is unclear nothing is to be seen."""
        topics, worker = load.topics("topic-reader"), Worker(load, "topic-reader")
        deadline_ns = load.now_ns() + round(self.options.drain_s * 1e9)
        wrong = [name for name in self._created if self._deleted.get(name, True)]
        while wrong:
            late = load.now_ns() >= deadline_ns
            wrong = [name for name in wrong if await _finds(topics, worker, name) is not (name not in self._deleted)]
            if late:
                return
            if wrong:
                await load.sleep(RETRY_PAUSE_S)


async def _finds(topics: Topics, worker: Worker, name: str) -> bool | None:
    """Return whether a topic is said to be there; None where nobody says anything."""
    asked = await worker.do("find_topic", lambda: topics.find(name), topic=name)
    return bool(asked.answer.value.get("queues")) if asked.ok else None


def create(options: Options) -> Creator:
    return Creator(options, needs=(CanCreateTopics, CanDeleteTopics) if options.delete_each else (CanCreateTopics,))
