"""How many messages a second three replicas of Apache RocketMQ acknowledge to our client, and to RocketMQ's own
benchmark producer (``org.apache.rocketmq.example.benchmark.Producer``), in turns against the same cluster.

Both have as many sends under way and bodies of the same size; every replica in sync must have a message before it is
acknowledged. Our client asks for each message's outcome, and goes through the proxies of the harness; the producer goes
to the broker itself. ``stormproof install rocketmq@5.5.0`` has to be run before; Maven fetches the producer's jar.
``python -m benchmarks.rocketmq_sends [--json] [--turns N] [--clients N] [--depth N] [--duration-s S]``
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks._common import Figure, parser, show
from benchmarks.sends import BODY, served
from chaos.deployments import process
from chaos.deployments.process import ProcessDeployment
from chaos.driver import Client
from chaos.errors import MachineError
from chaos.ops import Failed, Unknown
from chaos.recipe import Recipe, Step
from chaos.run.runner import bring_up
from chaos.tasks import Group
from drivers._java.recipes import VERSIONS
from drivers.rocketmq.driver import Options, RocketMQ
from stormproof.install import install

TURNS, CLIENTS, DEPTH, DURATION_S = 3, 4, 32, 15.0
#: Before a turn counts. The producer reports the rate of its last ten seconds, once a second.
WARM_S = 5.0
AIM = 2000.0
NAMESERVER = "nameserver-0"
_LIB = "lib"
_PROJECT = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>stormproof</groupId>
  <artifactId>rocketmq-producer</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.rocketmq</groupId>
      <artifactId>rocketmq-example</artifactId>
      <version>{VERSIONS[0]}</version>
    </dependency>
  </dependencies>
</project>
"""
PRODUCER = Recipe(
    system="rocketmq-producer",
    version=VERSIONS[0],
    tools={"mvn": "install Maven (Debian: apt-get install maven)"},
    files={"pom.xml": _PROJECT},
    steps=(
        Step(
            command=("mvn", "-B", "-q", "-C", "dependency:copy-dependencies", f"-DoutputDirectory={_LIB}"),
            does="fetch RocketMQ's benchmark producer with Maven (79 MiB)",
            mend="it needs a Maven registry",
        ),
    ),
    makes=(f"{_LIB}/rocketmq-example-{VERSIONS[0]}.jar",),
)
_MAIN = "org.apache.rocketmq.example.benchmark.Producer"
_RATE = re.compile(rb"TPS: (\d+)")


@dataclass(slots=True)
class Bench:
    """Rates are acknowledged sends per second, one of each contender for a turn."""

    deployment: ProcessDeployment
    driver: RocketMQ
    clients: int
    depth: int
    duration_s: float
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    acknowledged: int = 0
    refused: int = 0
    number: int = 0

    async def main(self, turns: int) -> int:
        try:
            await bring_up(self.deployment, self.driver)
            await served(self.deployment, self.driver)
            for _ in range(turns):
                self.ours.append(await self._our_turn())
                self.theirs.append(await self._their_turn())
        finally:
            await self.deployment.stop()
        return 0

    async def _our_turn(self) -> float:
        loop = asyncio.get_running_loop()
        async with Group() as group:
            for client in range(self.clients):
                sender = self.driver.client(self.deployment, f"sender-{client}")
                for lane in range(self.depth):
                    group.start(self._send(sender, lane))
            await asyncio.sleep(WARM_S)
            began_s, before = loop.time(), self.acknowledged
            await asyncio.sleep(self.duration_s)
            rate = (self.acknowledged - before) / (loop.time() - began_s)
            group.cancel()
        return rate

    async def _send(self, sender: Client, lane: int) -> None:
        """One send after the other. A busy broker refuses some (flow control), as it does the producer's."""
        queues = self.driver.queues()
        while True:
            self.number += 1
            try:
                await sender.send(queues[(lane + self.number) % len(queues)], f"{self.number:032X}", BODY)
                self.acknowledged += 1
            except (Failed, Unknown):
                self.refused += 1

    async def _their_turn(self) -> float:
        """Return the rate over the last ten seconds before the turn ends."""
        host, port = await self.deployment.endpoint("producer", NAMESERVER)
        command = (
            *("java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{PRODUCER.program(_LIB)}/*", _MAIN),
            *("-n", f"{host}:{port}", "-t", self.driver.options.topic, "-s", str(len(BODY))),
            *("-w", str(self.clients * self.depth), "-ri", "1000"),
        )
        with tempfile.TemporaryFile() as log:
            producer = await asyncio.create_subprocess_exec(
                *command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
            try:
                await asyncio.sleep(WARM_S + self.duration_s)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(producer.pid, signal.SIGKILL)
                await producer.wait()
            log.seek(0)
            output = log.read()
        if not (rates := _RATE.findall(output)):
            raise MachineError(f"RocketMQ's producer reported no rate: {output[-300:].decode('utf-8', 'replace')}")
        return float(rates[-1])


def measure(turns: int, clients: int, depth: int, duration_s: float) -> Bench:
    install(PRODUCER, lambda text: print(text, file=sys.stderr))
    with tempfile.TemporaryDirectory() as folder:
        deployment = process.create(run_id=Path(folder).name, directory=Path(folder), seed=1)
        bench = Bench(deployment, RocketMQ(Options()), clients, depth, duration_s)
        deployment.execute(bench.main(turns))
    return bench


def main() -> int:
    arguments = parser("rocketmq_sends", __doc__)
    arguments.add_argument("--turns", type=int, default=TURNS, help="of each (default: %(default)s)")
    arguments.add_argument("--clients", type=int, default=CLIENTS, help="(default: %(default)s)")
    arguments.add_argument("--depth", type=int, default=DEPTH, help="sends under way, each (default: %(default)s)")
    arguments.add_argument("--duration-s", type=float, default=DURATION_S, help="of a turn (default: %(default)s)")
    given = arguments.parse_args()
    bench = measure(given.turns, given.clients, given.depth, given.duration_s)
    ratio = statistics.median(our / their for our, their in zip(bench.ours, bench.theirs, strict=True))
    figures = [
        Figure(
            name="our_client", value=round(statistics.median(bench.ours)), unit="per s", aim=AIM, more_is_better=True
        ),
        Figure(name="benchmark_producer", value=round(statistics.median(bench.theirs)), unit="per s"),
        Figure(name="refused", value=bench.refused, unit=""),
        Figure(name="ratio", value=round(ratio, 2), unit=""),
    ]
    show("rocketmq_sends", figures, as_json=given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
