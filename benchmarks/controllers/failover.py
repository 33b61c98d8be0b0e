"""How long controllers take to notice that masters have gone, and to make others master: many at once.

Each replica that may be master has a connection with the leader of the controllers, and sends a heartbeat a second on
it. Then some masters end at the same moment: their connections are closed (``killed``), or stay open without a word
(``silent``). A client asks who is master of the groups that have lost theirs, one request after the other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.controllers import requests
from benchmarks.controllers.bench import Bench, must
from benchmarks.controllers.load import Connection
from benchmarks.controllers.requests import MASTERS, Standing
from chaos.tasks import Group

KILLED, SILENT = "killed", "silent"
HOWS = (KILLED, SILENT)
#: Masters that go at once.
COUNTS = (1, 10, 100, 1000)
GROUPS = 1000
BROKER_TIMEOUT_MS = 3000
BEAT_S = 1.0
#: Of heartbeats: so many brokers' leave together.
TOGETHER = 20
#: Between trials, so that one's end is not the next one's beginning.
QUIET_S = 2.5
MOST_S = 45.0
ASKED_AT_ONCE = 100
_POLL_S = 0.005

Broker = tuple[str, int]


@dataclass(slots=True, kw_only=True)
class Trial:
    """``seconds``: of each group that had another master within :data:`MOST_S`, when a client first knew."""

    how: str
    count: int
    seconds: list[float] = field(default_factory=list)


class Failover:
    """All brokers of one cluster of controllers."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._links: dict[Broker, Connection] = {}
        self._gone: set[Broker] = set()

    async def run(self) -> list[Trial]:
        """All trials. Raises ``RuntimeError`` when the groups don't become whole again."""
        for group in self._bench.groups:
            for replica in MASTERS:
                await self._connect((group, replica))
        trials = []
        async with Group() as tasks:
            tasks.start(self._beat())
            for how in HOWS:
                for number in COUNTS:
                    trials.append(await self._trial(how, self._bench.groups[:number]))
            tasks.cancel()
        for link in self._links.values():
            link.close()
        return trials

    async def _connect(self, broker: Broker) -> None:
        name = f"{broker[0]}/{broker[1]}"
        self._links[broker] = await Connection.open(self._bench.cluster, self._bench.leader, name)

    async def _beat(self) -> None:
        """Everyone's heartbeat, evenly over :data:`BEAT_S`."""
        brokers = sorted(self._links)
        due_s = time.perf_counter()
        while True:
            for at in range(0, len(brokers), TOGETHER):
                for broker in brokers[at : at + TOGETHER]:
                    if broker not in self._gone:
                        self._links[broker].send_oneway(requests.heartbeat(*broker, BROKER_TIMEOUT_MS))
                due_s += BEAT_S * TOGETHER / len(brokers)
                await asyncio.sleep(due_s - time.perf_counter())

    async def _trial(self, how: str, groups: Sequence[str]) -> Trial:
        before = await self._whole()
        await asyncio.sleep(QUIET_S)
        going = [(group, before[group].master) for group in groups]
        begin_s = time.perf_counter()
        self._gone.update(going)
        if how == KILLED:
            for broker in going:
                self._links[broker].close()
        trial = Trial(how=how, count=len(groups))
        waiting = dict(going)
        while waiting and time.perf_counter() < begin_s + MOST_S:
            asked = list(waiting)[:ASKED_AT_ONCE]
            answer = await must(self._bench.writers[0], requests.standings(asked))
            for group, standing in requests.read_standings(answer).items():
                old = waiting.pop(group)
                if standing.master in (0, old):
                    waiting[group] = old  # asked again after the others
                else:
                    trial.seconds.append(time.perf_counter() - begin_s)
            await asyncio.sleep(_POLL_S)
        if how == KILLED:
            for broker in going:
                await self._connect(broker)
        self._gone.clear()
        return trial

    async def _whole(self) -> dict[str, Standing]:
        """Wait until each group has a master, and its other replica is in the SyncStateSet again."""
        deadline_s = time.perf_counter() + MOST_S
        while True:
            standings = dict(await self._bench.standings(self._bench.groups))
            lacking = [group for group, standing in standings.items() if set(standing.members) != set(MASTERS)]
            if not lacking and all(standing.master for standing in standings.values()):
                return standings
            if time.perf_counter() > deadline_s:
                raise RuntimeError(f"{self._bench.cluster.kind}: {lacking[:5]} did not become whole")
            await self._bench.admit({group: standings[group] for group in lacking if standings[group].master})
            await asyncio.sleep(BEAT_S)
