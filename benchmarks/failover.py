"""How long clients are without service when the master goes, on processes: killed with ``kill -9``, by a planned
switch, and stopped with its connections open, so that only its silence shows it.

A client begins a send every 5 ms, whatever became of those before. The time without service is the longest time
between two acknowledgements around the fault. Each round begins and ends with a cluster that is whole.
``python -m benchmarks.failover [--json] [--rounds N]``
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from bisect import bisect_left
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks._common import Figure, parser, percentile, show
from chaos.deployments import process
from chaos.deployments.process import ProcessDeployment
from chaos.driver import Client, ReplicaGroup
from chaos.fault import Undo, Verb
from chaos.ops import Failed, QueueRef, Unknown
from chaos.run.runner import bring_up
from chaos.tasks import Group
from drivers.reference.driver import Options, Reference

ROUNDS = 20
EVERY_S = 0.005
#: Quiet time before a fault, so that one round's end is not the next one's beginning.
QUIET_S = 0.5
BACK_S = 20.0
WHOLE_S = 60.0
POLL_S = 0.1
#: Seconds, for a kill and a switch. Apache RocketMQ 5.5.0 took 6 to 10 s and 1.7 s on two such cores.
AIMS = {"kill": 2.0, "switch": 0.5}
UNDO = {"kill": Verb.START, "silence": Verb.RESUME}

Fault = Callable[["Bench", ReplicaGroup], Awaitable[None]]


class Sender:
    """Sends without a pause and keeps the times of the acknowledgements."""

    def __init__(self, client: Client, queue: QueueRef) -> None:
        self._client = client
        self._queue = queue
        self._sent = 0
        self.acked_s: list[float] = []

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        async with Group() as group:
            while True:
                group.start(self._send())
                due_s = max(due_s + EVERY_S, loop.time())
                await asyncio.sleep(due_s - loop.time())

    async def _send(self) -> None:
        self._sent += 1
        key = f"{self._sent:032X}"
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
    """A running cluster, one sender, and rounds of faults."""

    def __init__(self, deployment: ProcessDeployment, driver: Reference) -> None:
        self.deployment = deployment
        self.driver = driver
        self.sender = Sender(driver.client(deployment, "sender"), driver.queues()[0])

    async def main(self, rounds: int, found: dict[str, list[float]]) -> int:
        try:
            await bring_up(self.deployment, self.driver)
            async with Group() as group:
                group.start(self.sender.run())
                for name, fault in FAULTS.items():
                    found[name] = [await self.round(fault, UNDO.get(name)) for _ in range(rounds)]
                group.cancel()
        finally:
            await self.deployment.stop()
        return 0

    async def round(self, fault: Fault, undo: Verb | None) -> float:
        group = await self._whole()
        await asyncio.sleep(QUIET_S)
        loop = asyncio.get_running_loop()
        begin_s, acked = loop.time(), len(self.sender.acked_s)
        await fault(self, group)
        struck_s = loop.time()
        while not (len(self.sender.acked_s) > acked and self.sender.acked_s[-1] > struck_s + QUIET_S):
            if loop.time() > begin_s + BACK_S:
                raise TimeoutError(f"no service {BACK_S:g} s after the fault")
            await asyncio.sleep(POLL_S)
        if undo is not None:
            await self.deployment.undo(Undo(verb=undo, subject=group.leader))
        if (await self._whole()).leader == group.leader:
            raise RuntimeError(f"{group.leader} is still the master: this round proves nothing")
        return self.sender.gap_s(begin_s)

    async def _whole(self) -> ReplicaGroup:
        """Wait until every replica is in sync; the one group as it is then."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + WHOLE_S
        while not (view := await self.driver.view(self.deployment)).settled:
            if loop.time() > deadline_s:
                raise TimeoutError(f"the cluster is not whole after {WHOLE_S:g} s: {view}")
            await asyncio.sleep(POLL_S)
        return view.groups[0]


async def _kill(bench: Bench, group: ReplicaGroup) -> None:
    await bench.deployment.kill(group.leader)


async def _switch(bench: Bench, group: ReplicaGroup) -> None:
    target = next(name for name in group.in_sync if name != group.leader)
    await bench.driver.switch(bench.deployment, target, group.name)


async def _silence(bench: Bench, group: ReplicaGroup) -> None:
    await bench.deployment.pause(group.leader)


FAULTS: dict[str, Fault] = {"kill": _kill, "switch": _switch, "silence": _silence}


def measure(rounds: int) -> dict[str, list[float]]:
    """Seconds without service, by fault and round."""
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        deployment = process.create(run_id=Path(folder).name, directory=Path(folder), seed=1)
        bench = Bench(deployment, Reference(Options()))
        deployment.execute(bench.main(rounds, found))
    return found


def main() -> int:
    arguments = parser("failover", __doc__)
    arguments.add_argument("--rounds", type=int, default=ROUNDS, help="faults of each kind (default: %(default)s)")
    given = arguments.parse_args()
    figures = []
    for name, gaps_s in measure(given.rounds).items():
        figures += [
            Figure(name=f"{name}_p50", value=round(percentile(gaps_s, 50), 3), unit="s", aim=AIMS.get(name)),
            Figure(name=f"{name}_p99", value=round(percentile(gaps_s, 99), 3), unit="s", aim=AIMS.get(name)),
        ]
    show("failover", figures, as_json=given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
