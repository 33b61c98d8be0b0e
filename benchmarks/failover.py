"""How long clients are without service when the node that serves them goes, on processes.

The reference system's master is killed with ``kill -9``, goes by a planned switch, and is stopped with its connections
open, so that only its silence shows it. Of the split system (``--system split``) a broker is killed, which owns slices,
is stopped likewise, and a store is killed that leads groups.

A client of each queue begins a send every few ms, whatever became of those before. The time without service is the
longest time between two acknowledgements of one queue around the fault. Each round begins and ends with a cluster that
is whole. ``python -m benchmarks.failover [--json] [--rounds N] [--system NAME]``
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks._common import Figure, parser, percentile, show
from chaos.deployments import process
from chaos.deployments.process import ProcessDeployment
from chaos.driver import CanSwitch, Client, ClusterView, Driver, ReplicaGroup
from chaos.fault import Undo, Verb
from chaos.ops import Failed, QueueRef, Unknown
from chaos.run.runner import bring_up
from chaos.tasks import Group
from drivers.reference.driver import Options, Reference
from drivers.split import Options as SplitOptions
from drivers.split.driver import Split
from reference.split.layout import slice_name

ROUNDS = 20
#: So often a send begins, of all queues together.
EVERY_S = 0.005
#: Quiet time before a fault, so that one round's end is not the next one's beginning.
QUIET_S = 0.5
BACK_S = 20.0
WHOLE_S = 60.0
POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Which group loses the member that serves it, how, what brings that back, and the most seconds that it should
    cost."""

    group: str
    strike: Callable[[Bench, ReplicaGroup], Awaitable[None]]
    undo: Verb | None
    aim_s: float | None = None


class Sender:
    """Sends to a queue without a pause and keeps the times of the acknowledgements."""

    def __init__(self, client: Client, queue: QueueRef, every_s: float) -> None:
        self._client = client
        self._queue = queue
        self._every_s = every_s
        self._sent = 0
        self.acked_s: list[float] = []

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        async with Group() as group:
            while True:
                group.start(self._send())
                due_s = max(due_s + self._every_s, loop.time())
                await asyncio.sleep(due_s - loop.time())

    async def _send(self) -> None:
        self._sent += 1
        key = f"{self._queue.index:08X}{self._sent:024X}"
        try:
            await self._client.send(self._queue, key, key.encode())
        except (Failed, Unknown):
            return
        self.acked_s.append(asyncio.get_running_loop().time())

    def gap_s(self, begin_s: float) -> float:
        """Return the longest time between two acknowledgements, the later of which came after ``begin_s``."""
        first = max(1, bisect_left(self.acked_s, begin_s))
        later = range(first, len(self.acked_s))
        return max((self.acked_s[at] - self.acked_s[at - 1] for at in later), default=0.0)


class Bench:
    """A running cluster, a sender for each queue, and rounds of faults."""

    def __init__(self, deployment: ProcessDeployment, driver: Driver) -> None:
        self.deployment = deployment
        self.driver = driver
        queues = driver.queues()
        self.senders = [
            Sender(driver.client(deployment, f"sender-{queue.index}"), queue, EVERY_S * len(queues)) for queue in queues
        ]

    async def main(self, faults: Mapping[str, Fault], rounds: int, found: dict[str, list[float]]) -> int:
        try:
            await bring_up(self.deployment, self.driver)
            async with Group() as group:
                for sender in self.senders:
                    group.start(sender.run())
                for name, fault in faults.items():
                    found[name] = [await self.round(fault) for _ in range(rounds)]
                group.cancel()
        finally:
            await self.deployment.stop()
        return 0

    async def round(self, fault: Fault) -> float:
        """Return the seconds without service of the queue that was longest without."""
        group = group_of(await self._whole(), fault.group)
        await asyncio.sleep(QUIET_S)
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        await fault.strike(self, group)
        struck_s = loop.time()
        while any(not sender.acked_s or sender.acked_s[-1] <= struck_s + QUIET_S for sender in self.senders):
            if loop.time() > begin_s + BACK_S:
                raise TimeoutError(f"no service {BACK_S:g} s after the fault")
            await asyncio.sleep(POLL_S)
        if fault.undo is not None:
            await self.deployment.undo(Undo(verb=fault.undo, subject=group.leader))
        if group_of(await self._whole(), fault.group).epoch == group.epoch:
            raise RuntimeError(f"{group.leader} has led {group.name} all the time: this round proves nothing")
        return max(sender.gap_s(begin_s) for sender in self.senders)

    async def _whole(self) -> ClusterView:
        """Wait until every replica is in sync; the cluster as it is then."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + WHOLE_S
        while not (view := await self.driver.view(self.deployment)).settled:
            if loop.time() > deadline_s:
                raise TimeoutError(f"the cluster is not whole after {WHOLE_S:g} s: {view}")
            await asyncio.sleep(POLL_S)
        return view


def group_of(view: ClusterView, name: str) -> ReplicaGroup:
    """Return the group of this name; "" is the only one."""
    return next(group for group in view.groups if name in ("", group.name))


async def _kill(bench: Bench, group: ReplicaGroup) -> None:
    await bench.deployment.kill(group.leader)


async def _switch(bench: Bench, group: ReplicaGroup) -> None:
    target = next(name for name in group.in_sync if name != group.leader)
    assert isinstance(bench.driver, CanSwitch)
    await bench.driver.switch(bench.deployment, target, group.name)


async def _silence(bench: Bench, group: ReplicaGroup) -> None:
    await bench.deployment.pause(group.leader)


OWNED, LED = slice_name(0), "group-0"
#: A store's followers stand for election after 250 to 500 ms.
ELECTIONS = {"election_ms": 250, "heartbeat_ms": 50}
#: By system, its driver and its faults. A killed and a switched master: Apache RocketMQ 5.5.0 took 6 to 10 s and 1.7 s
#: on two such cores. Silence costs its timeout besides.
SYSTEMS: dict[str, tuple[Callable[[], Driver], dict[str, Fault]]] = {
    "reference": (
        lambda: Reference(Options(queues=1)),
        {
            "kill": Fault(group="", strike=_kill, undo=Verb.START, aim_s=2.0),
            "switch": Fault(group="", strike=_switch, undo=None, aim_s=0.5),
            "silence": Fault(group="", strike=_silence, undo=Verb.RESUME),
        },
    ),
    "split": (
        lambda: Split(
            SplitOptions(stores=3, brokers=2, groups=64, slices=4, queues=4, store_options=ELECTIONS),
        ),
        {
            "broker_kill": Fault(group=OWNED, strike=_kill, undo=Verb.START, aim_s=1.0),
            "broker_silence": Fault(group=OWNED, strike=_silence, undo=Verb.RESUME),
            "store_kill": Fault(group=LED, strike=_kill, undo=Verb.START, aim_s=1.0),
        },
    ),
}


def measure(system: str, rounds: int) -> dict[str, list[float]]:
    """Seconds without service, by fault and round."""
    make, faults = SYSTEMS[system]
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        deployment = process.create(run_id=Path(folder).name, directory=Path(folder), seed=1)
        bench = Bench(deployment, make())
        deployment.execute(bench.main(faults, rounds, found))
    return found


def main() -> int:
    arguments = parser("failover", __doc__)
    arguments.add_argument("--rounds", type=int, default=ROUNDS, help="faults of each kind (default: %(default)s)")
    arguments.add_argument("--system", choices=[*SYSTEMS], default="reference", help="(default: %(default)s)")
    given = arguments.parse_args()
    figures = []
    for name, gaps_s in measure(given.system, given.rounds).items():
        aim = SYSTEMS[given.system][1][name].aim_s
        figures += [
            Figure(name=f"{name}_p50", value=round(percentile(gaps_s, 50), 3), unit="s", aim=aim),
            Figure(name=f"{name}_p99", value=round(percentile(gaps_s, 99), 3), unit="s", aim=aim),
        ]
    show("failover", figures, as_json=given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
