"""One cluster of controllers under load, phase by phase."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from benchmarks.controllers import requests
from benchmarks.controllers.cluster import Cluster
from benchmarks.controllers.load import Call, Connection, Tally, call, keep_asking, leader_of
from benchmarks.controllers.requests import REPLICAS, Standing
from chaos.tasks import Group
from reference.controller.dispatch import PARALLEL
from reference.wire.codes import Response

HEARTBEAT, REGISTER, ALTER, ELECT, INFO, MIXED = "heartbeat", "register", "alter", "elect", "info", "mixed"
PHASES = (HEARTBEAT, REGISTER, ALTER, ELECT, INFO, MIXED)
IN_FLIGHT = 64
MIXED_WRITES, MIXED_READS_PER_S = 32, 50
CONNECTIONS = 8
SETUP_AT_ONCE = 256
#: Heartbeats to one controller in a second, at most.
HEARTBEATS_PER_S = 300
#: How often a request is repeated that nobody answers.
PATIENCE = 3
#: A leader that has just been woken, or has just begun, is left alone for so long.
SETTLE_S = 1.0


@dataclass(slots=True)
class Phase:
    """What one cluster did in one phase, over all slices. ``processor_s``: of each controller."""

    tally: Tally = field(default_factory=Tally)
    load_s: float = 0.0
    processor_s: dict[str, float] = field(default_factory=dict)
    generator_s: float = 0.0

    @property
    def per_s(self) -> float:
        return len(self.tally.latencies_s) / self.load_s

    @property
    def processor_us(self) -> float:
        """Processor time of the three controllers for one request."""
        return 1e6 * sum(self.processor_s.values()) / max(1, len(self.tally.latencies_s))


class Bench:
    """One cluster and its clients. Each of ``groups`` has a master, and a second replica in its SyncStateSet."""

    def __init__(self, cluster: Cluster, groups: int) -> None:
        self.cluster = cluster
        self.groups = [f"group-{number}" for number in range(groups)]
        self.phases: dict[str, Phase] = {}
        self.group_bytes = 0.0
        self.leader = ""
        self._lives = count(int(time.time()))  # new ones, also for a state that was kept
        self._turn = count()
        self._standings: dict[str, Standing] = {}
        self.links: dict[str, list[Connection]] = {}

    async def begin(self, kept: Path | None = None) -> None:
        """Start the controllers, and have all groups registered; or let them go on from a state that was kept."""
        if kept is not None:
            shutil.copytree(kept, self.cluster.directory, dirs_exist_ok=True)
        self.cluster.start()
        await leader_of(self.cluster)
        await asyncio.sleep(SETTLE_S)  # who is elected while others still start may lose it again
        self.leader = await leader_of(self.cluster)
        for node in self.cluster.addresses:
            names = [f"load-{number}" for number in range(CONNECTIONS)]
            self.links[node] = [await Connection.open(self.cluster, node, name) for name in names]
        if kept is None:
            empty = self.cluster.group_memory()
            await self._at_once(self._set_up)
            self.group_bytes = (self.cluster.group_memory() - empty) / len(self.groups)
        else:
            await self._at_once(self._revive)
            for group, standing in (await self.standings(self.groups)).items():
                self._standings[group] = standing

    @property
    def writers(self) -> list[Connection]:
        return self.links[self.leader]

    @property
    def readers(self) -> list[Connection]:
        """All controllers' where all answer, else the leader's."""
        if self.cluster.kind != PARALLEL:
            return self.writers
        return [link for links in zip(*self.links.values(), strict=True) for link in links]

    async def wake(self) -> None:
        """There may be another leader then."""
        if self.cluster.wake():
            await asyncio.sleep(SETTLE_S)
            self.leader = await leader_of(self.cluster)

    async def _at_once(self, do: Callable[[str, Connection], object]) -> None:
        """Do something for each group, many at a time."""

        async def some(waiting: Iterator[str], link: Connection) -> None:
            for group in waiting:
                await do(group, link)  # type: ignore[misc]

        waiting = iter(self.groups)
        async with Group() as tasks:
            for number in range(min(SETUP_AT_ONCE, len(self.groups))):
                tasks.start(some(waiting, self.writers[number % CONNECTIONS]))

    async def _set_up(self, group: str, link: Connection) -> None:
        for replica in range(1, REPLICAS + 1):
            await must(link, requests.apply_id(group, replica))
            await must(link, requests.register(group, replica, 1))
        await self._revive(group, link)
        epochs = requests.epochs(await must(link, requests.elect(group, 1, designate=False)))
        standing = Standing(1, epochs["masterEpoch"], epochs["syncStateSetEpoch"], (1,))
        await self._alter(group, standing, link, requests.MASTERS, Tally())

    async def _revive(self, group: str, link: Connection) -> None:
        for replica in range(1, REPLICAS + 1):
            await must(link, self._heartbeat(group, replica))

    def _heartbeat(self, group: str, replica: int) -> Call:
        return requests.heartbeat(group, replica, self.cluster.broker_timeout_ms)

    async def standings(self, groups: Sequence[str]) -> Mapping[str, Standing]:
        """Return what the leader knows of these groups."""
        found: dict[str, Standing] = {}
        for at in range(0, len(groups), 200):
            answer = await must(self.writers[0], requests.standings(groups[at : at + 200]))
            found |= requests.read_standings(answer)
        return found

    async def admit(self, groups: Mapping[str, Standing]) -> None:
        """Have the masters of these groups take their other replicas into their SyncStateSets, as far as they can."""

        async def some(waiting: Iterator[tuple[str, Standing]], link: Connection) -> None:
            for group, standing in waiting:
                with suppress(TimeoutError):  # asked again later
                    await call(link, requests.alter(group, standing, requests.MASTERS), Tally())

        waiting = iter(groups.items())
        async with Group() as tasks:
            for link in self.writers:
                tasks.start(some(waiting, link))

    # Phases

    async def run(self, name: str, seconds: float, *, counts: bool = True, readers: Sequence[Connection] = ()) -> None:
        """One slice of a phase; one that doesn't count warms up. ``readers``: instead of those of this kind."""
        phase = self.phases.setdefault(name, Phase()) if counts else Phase()
        before_s, own_s, begin_s = self.cluster.processor_s(), time.process_time(), time.perf_counter()
        end_s = begin_s + seconds
        async with Group() as tasks:
            tasks.start(self._heartbeats(end_s))
            if name in (ALTER, ELECT):
                await self._change_masters(name, phase.tally, end_s)
            elif name == MIXED:
                for number in range(MIXED_WRITES):
                    tasks.start(keep_asking(self.writers[number % CONNECTIONS], self._write, Tally(), end_s))
                tasks.start(self._steady_reads(phase.tally, end_s))
            else:
                make = {HEARTBEAT: self._beat, REGISTER: self._write, INFO: self._read}[name]
                links = (readers or self.readers) if name == INFO else self.writers
                for number in range(IN_FLIGHT):
                    tasks.start(keep_asking(links[number % len(links)], make, phase.tally, end_s))
        phase.load_s += time.perf_counter() - begin_s
        phase.generator_s += time.process_time() - own_s
        for node, after_s in self.cluster.processor_s().items():
            phase.processor_s[node] = phase.processor_s.get(node, 0.0) + after_s - before_s[node]

    def _next_group(self) -> str:
        return self.groups[next(self._turn) % len(self.groups)]

    def _beat(self) -> Call:
        return self._heartbeat(self._next_group(), 1)

    def _write(self) -> Call:
        """Return a request by which the last replica of some group registers again: it is in no SyncStateSet, so
        nothing else follows."""
        return requests.register(self._next_group(), REPLICAS, next(self._lives))

    def _read(self) -> Call:
        return requests.replica_info(self._next_group())

    async def _change_masters(self, name: str, tally: Tally, end_s: float) -> None:
        """Each worker has groups of its own, since the next change of a group needs the epochs of the one before."""

        async def work(groups: Sequence[str], link: Connection) -> None:
            for turn in count():
                if time.perf_counter() >= end_s:
                    return
                await self._change(name, groups[turn % len(groups)], link, tally)

        workers = min(IN_FLIGHT, len(self.groups))
        async with Group() as tasks:
            for number in range(workers):
                tasks.start(work(self.groups[number::workers], self.writers[number % CONNECTIONS]))

    async def _change(self, name: str, group: str, link: Connection, tally: Tally) -> None:
        """Let a set lose the other replica, or get it back; or do that and have the other replica made master."""
        standing = self._standings[group]
        if name == ALTER:
            members = (standing.master,) if standing.other in standing.members else requests.MASTERS
            await self._alter(group, standing, link, members, tally)
            return
        if standing.other not in standing.members:
            await self._alter(group, standing, link, requests.MASTERS, Tally())
            standing = self._standings[group]
        answer = await call(link, requests.elect(group, standing.other, designate=True), tally)
        if answer is not None:
            epochs = requests.epochs(answer)
            members = (standing.other,)
            self._standings[group] = Standing(
                standing.other, epochs["masterEpoch"], epochs["syncStateSetEpoch"], members
            )

    async def _alter(
        self, group: str, standing: Standing, link: Connection, members: Sequence[int], tally: Tally
    ) -> None:
        answer = await call(link, requests.alter(group, standing, members), tally)
        if answer is None:
            raise RuntimeError(f"{self.cluster.kind}: the SyncStateSet of {group} can't be {members}: {tally.refused}")
        set_epoch = requests.epochs(answer)["newSyncStateSetEpoch"]
        self._standings[group] = Standing(standing.master, standing.master_epoch, set_epoch, tuple(members))

    async def _steady_reads(self, tally: Tally, end_s: float) -> None:
        """So many reads a second, however long each takes."""
        links, turn = self.readers, count()
        async with Group() as tasks:
            due_s = time.perf_counter()
            while due_s < end_s:
                tasks.start(call(links[next(turn) % len(links)], self._read(), tally))
                due_s += 1 / MIXED_READS_PER_S
                await asyncio.sleep(due_s - time.perf_counter())

    async def _heartbeats(self, end_s: float) -> None:
        """Each broker's to each controller, evenly over the time."""
        brokers = [(group, replica) for group in self.groups for replica in range(1, REPLICAS + 1)]
        per_s, sent, begin_s = min(HEARTBEATS_PER_S, len(brokers)), 0, time.perf_counter()
        while (now_s := time.perf_counter()) < end_s:
            while sent < (now_s - begin_s) * per_s:
                beat = self._heartbeat(*brokers[sent % len(brokers)])
                for links in self.links.values():
                    links[0].send_oneway(beat)
                sent += 1
            await asyncio.sleep(0.01)

    def end(self) -> None:
        for links in self.links.values():
            for link in links:
                link.close()
        self.cluster.stop()


async def must(link: Connection, what: Call) -> bytes:
    """Ask again while there is no answer. Raises ``RuntimeError`` when the controllers refuse, and ``TimeoutError``
    when they never answer."""
    tally, patience = Tally(), PATIENCE
    while True:
        try:
            answer = await call(link, what, tally)
        except TimeoutError:
            patience -= 1
            if not patience:
                raise
            continue
        if answer is not None:
            return answer
        if any(code != Response.SYSTEM_BUSY for code in tally.refused):
            raise RuntimeError(f"request {what.code} {dict(what.fields)} was refused: {tally.refused}")
