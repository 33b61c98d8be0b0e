"""How many messages a second are acknowledged on processes, by pipelined clients: each has so many sends under way.

Three controllers, a name server, three brokers and an object store, every trace row written. The processor time is
that of all processes, clients and proxies included; it says more than the rate on a busy machine.
``python -m benchmarks.sends [--json] [--clients N] [--depth N] [--duration-s S]``
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks._common import Figure, parser, percentile, show
from chaos.deployments import process
from chaos.deployments.process import ProcessDeployment
from chaos.driver import Driver
from chaos.ops import Failed
from chaos.run.runner import READY_S, bring_up
from chaos.tasks import Group
from drivers.reference.driver import Options, Reference

CLIENTS, DEPTH, DURATION_S = 4, 32, 8.0
#: Before it counts.
WARM_S = 2.0
BODY = b"x" * 100
AIM = 2500.0
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Bench:
    """``latencies_s`` are those of the sends that were acknowledged while it counted."""

    deployment: ProcessDeployment
    driver: Driver
    counting: bool = False
    latencies_s: list[float] = field(default_factory=list)
    seconds: float = 0.0
    processor_s: float = 0.0

    async def main(self, clients: int, depth: int, duration_s: float) -> int:
        loop = asyncio.get_running_loop()
        try:
            await bring_up(self.deployment, self.driver)
            await served(self.deployment, self.driver)
            async with Group() as group:
                for client in range(clients):
                    for lane in range(depth):
                        group.start(self._send(client, lane))
                await asyncio.sleep(WARM_S)
                self.counting, began_s, used_s = True, loop.time(), processor_s()
                await asyncio.sleep(duration_s)
                self.counting = False
                self.seconds, self.processor_s = loop.time() - began_s, processor_s() - used_s
                group.cancel()
        finally:
            await self.deployment.stop()
        return 0

    async def _send(self, client: int, lane: int) -> None:
        """One send after the other; any that fails ends the benchmark."""
        sender = self.driver.client(self.deployment, f"sender-{client}")
        queues = self.driver.queues()
        loop = asyncio.get_running_loop()
        number = (client << 16 | lane) << 64
        while True:
            number += 1
            began_s = loop.time()
            await sender.send(queues[(lane + number) % len(queues)], f"{number:032X}", BODY)
            if self.counting:
                self.latencies_s.append(loop.time() - began_s)


async def served(deployment: ProcessDeployment, driver: Driver) -> None:
    """Wait until a send is acknowledged: a moment after the brokers are ready the name server has not heard of the
    topic yet."""
    probe = driver.client(deployment, "probe")
    async with asyncio.timeout(READY_S):
        while True:
            try:
                await probe.send(driver.queues()[0], f"{1:032X}", BODY)
                break
            except Failed:
                await asyncio.sleep(0.05)
    probe.close()


def processor_s() -> float:
    """Return the processor time of this process and all that descend from it, so far."""
    used: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text("ascii", "replace").rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        pid = int(stat.parent.name)
        used[pid] = (int(fields[11]) + int(fields[12])) / _TICK
        children.setdefault(int(fields[1]), []).append(pid)
    total, pids = 0.0, [os.getpid()]
    while pids:
        pid = pids.pop()
        total += used.get(pid, 0.0)
        pids += children.get(pid, [])
    return total


def measure(driver: Driver, clients: int, depth: int, duration_s: float) -> Bench:
    """Start the driver's system, load it, stop it."""
    with tempfile.TemporaryDirectory() as folder:
        deployment = process.create(run_id=Path(folder).name, directory=Path(folder), seed=1)
        bench = Bench(deployment, driver)
        deployment.execute(bench.main(clients, depth, duration_s))
    return bench


def main() -> int:
    arguments = parser("sends", __doc__)
    arguments.add_argument("--clients", type=int, default=CLIENTS, help="(default: %(default)s)")
    arguments.add_argument("--depth", type=int, default=DEPTH, help="sends under way, each (default: %(default)s)")
    arguments.add_argument("--duration-s", type=float, default=DURATION_S, help="(default: %(default)s)")
    given = arguments.parse_args()
    bench = measure(Reference(Options()), given.clients, given.depth, given.duration_s)
    count = len(bench.latencies_s)
    per_s = count / bench.seconds
    figures = [
        Figure(name="acknowledged_per_s", value=round(per_s), unit="", aim=AIM, more_is_better=True),
        Figure(name="processor_per_send", value=round(bench.processor_s / count * 1e6), unit="µs"),
        Figure(name="p50", value=round(percentile(bench.latencies_s, 50) * 1e3, 1), unit="ms"),
        Figure(name="p99", value=round(percentile(bench.latencies_s, 99) * 1e3, 1), unit="ms"),
    ]
    show("sends", figures, as_json=given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
