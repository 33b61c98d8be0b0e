"""Consumer groups whose members come and go: they join, leave, crash, and stand still beyond their session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, cast

from chaos.log_services import CanHaveGroups
from chaos.ops import Answer
from chaos.workload import Load, Outcome, Use, Worker
from workloads._drain import IDLE_S, drain
from workloads._logs import Positions
from workloads._producers import produce

RETRY_S = 0.2
#: A member sends so many heartbeats in a session.
BEATS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``producers`` together send ``rate_per_s`` messages of about ``body_bytes`` each (every hundredth has
    ``large_bytes``, if set). A send that didn't end in ok is tried again with probability ``retry``, at most
    ``attempts`` times in all. Each of the ``groups`` has ``members``, which poll for up to ``limit`` messages and
    commit after each poll. Every ``change_s`` seconds on average a member leaves (a share of ``leaves``), crashes
    (``crashes``), or stands still for up to ``pause_sessions`` of its sessions, and then goes on as if nothing had
    happened. One that left or crashed is away for up to ``away_s``. ``drain_s`` bounds the reading of each queue at the
    end."""

    producers: int = field(default=3, metadata={"within": range(1, 1001)})
    rate_per_s: float = 100.0
    body_bytes: int = field(default=100, metadata={"within": range(4_000_001)})
    large_bytes: int = field(default=0, metadata={"within": range(4_000_001)})
    retry: float = 0.5
    attempts: int = field(default=3, metadata={"within": range(1, 101)})
    groups: int = field(default=1, metadata={"within": range(1, 101)})
    members: int = field(default=3, metadata={"within": range(1, 1001)})
    limit: int = field(default=32, metadata={"within": range(1, 10_001)})
    change_s: float = 8.0
    leaves: float = 0.3
    crashes: float = 0.3
    pause_sessions: float = 2.0
    away_s: float = 2.0
    drain_s: float = 45.0


@dataclass(slots=True)
class Group:
    options: Options
    needs: Sequence[type] = (CanHaveGroups,)
    uses: Sequence[Use] = (Use.QUEUES, Use.LOGS)

    @property
    def sends_per_s(self) -> float:
        """How many messages the producers send together each second."""
        return self.options.rate_per_s

    async def run(self, load: Load) -> None:
        groups = [f"members-{number}" for number in range(self.options.groups)]
        await load.gather(
            *(produce(load, self.options, number, of="group-") for number in range(self.options.producers)),
            *(self._be_member(load, group, number) for group in groups for number in range(self.options.members)),
        )

    async def drain(self, load: Load) -> None:
        drain_s = self.options.drain_s
        await load.gather(
            *(drain(load, queue, f"group-drain-{queue.index}", "group", drain_s) for queue in load.queues)
        )

    async def _be_member(self, load: Load, group: str, number: int) -> None:
        """Be one member after another."""
        name = f"{group}-{number}"
        worker, rng = Worker(load, name), load.rng(name)
        while not load.stopping:
            member = _Member(load, worker, name, group)
            try:
                await self._consume(load, member, rng)
            finally:
                member.client.close()
            await _stand_still(load, self.options.away_s * rng.random())

    async def _consume(self, load: Load, member: _Member, rng: Random) -> None:
        """Consume as a member, until it leaves, crashes, or the load ends."""
        options = self.options
        gap_ns = round(1e9 * options.change_s)
        change_ns = load.now_ns() + round(gap_ns * rng.expovariate(1.0))
        while not load.stopping:
            await member.stay()
            if load.now_ns() >= change_ns:
                change_ns = load.now_ns() + round(gap_ns * rng.expovariate(1.0))
                what = rng.random()
                if what < options.crashes:
                    return
                if what < options.crashes + options.leaves:
                    break
                await _stand_still(load, member.session_s * options.pause_sessions * rng.random())
            if not await member.consume(options.limit):
                await load.sleep(min(IDLE_S, member.session_s / BEATS))
        await member.leave()


class _Member:
    """A member and what it knows of itself. ``queues`` are its own; ``generation``: -1 where it must join."""

    def __init__(self, load: Load, worker: Worker, name: str, group: str) -> None:
        self.client = load.group_member(name, group)
        self.session_s = self.client.session_s
        self._load = load
        self._worker = worker
        self._group = group
        self._topics = sorted({queue.topic for queue in load.queues})
        self._positions = Positions(load)
        self._queues: list[int] = []
        self._generation = -1
        self._must_join = True
        self._beat_ns = 0

    @property
    def _who(self) -> dict[str, Any]:
        return {"group": self._group, "generation": self._generation}

    async def stay(self) -> None:
        """Join if it must; else send a heartbeat when one is due."""
        if self._must_join:
            told = await self._hear("join", topics=self._topics)
            if not told.ok:
                await self._load.sleep(RETRY_S)
        elif self._load.now_ns() >= self._beat_ns:
            await self._hear("heartbeat", generation=self._generation)

    async def _hear(self, f: str, **value: object) -> Outcome:
        """Ask the group what is this member's, and record what no longer is."""

        async def call() -> Answer:
            answer = await (self.client.join(self._topics) if f == "join" else self.client.heartbeat())
            now = _queues(answer)
            return replace(answer, value={**answer.value, "lost": [one for one in self._queues if one not in now]})

        told = self._positions.learn(await self._worker.do(f, call, group=self._group, **value))
        answer = told.answer.value
        if told.ok:
            self._queues = _queues(told.answer)
            self._generation = cast(int, answer.get("generation", -1))
            self._beat_ns = self._load.now_ns() + round(1e9 * self.session_s / BEATS)
            self._must_join = bool(answer.get("rejoin"))
        else:
            self._must_join = f == "join" or bool(answer.get("fenced"))
        return told

    async def consume(self, limit: int) -> bool:
        """Poll once, and commit where it is to go on. Return whether there was anything."""
        at = self._positions.following
        if self._must_join or not at:
            return False
        polled = await self._worker.do("poll", lambda: self.client.poll(limit), positions=at, limit=limit, **self._who)
        following = self._positions.note_seen(polled).following
        for queue in sorted({one.queue for one in polled.answer.messages}):
            await self._commit(queue, following[str(queue)])
        return bool(polled.answer.messages)

    async def _commit(self, queue: int, offset: int) -> None:
        ref = self._load.queues[queue]
        done = await self._worker.do(
            "commit", lambda: self.client.commit({ref: offset}), queue=ref, offset=offset, **self._who
        )
        self._must_join = self._must_join or bool(done.answer.value.get("fenced"))

    async def leave(self) -> None:
        if self._generation >= 0:
            await self._worker.do("leave", self.client.leave, **self._who)


async def _stand_still(load: Load, seconds: float) -> None:
    """Wait so long, but not beyond the end of the load."""
    until_ns = load.now_ns() + round(seconds * 1e9)
    while not load.stopping and (left_ns := until_ns - load.now_ns()) > 0:
        await load.sleep(min(RETRY_S, left_ns / 1e9))


def _queues(answer: Answer) -> list[int]:
    queues = answer.value.get("queues")
    return list(queues) if isinstance(queues, Sequence) else []


def create(options: Options) -> Group:
    return Group(options)
