"""How many operations a second the harness's clients carry: against a system that answers each request at once.

The workload ``queue`` sends through the driver's client, over real sockets and the links' proxies, and records as in
every run. The null system is a program that keeps nothing. The processor time of the harness's own process and of all
others says more than the rate on a busy machine.
``python -m benchmarks.null_system [--json] [--clients N] [--duration-s S] [--profile]``
"""

from __future__ import annotations

import asyncio
import cProfile
import json
import pstats
import struct
import sys
import tempfile
import time
from collections.abc import Coroutine
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, cast

from benchmarks._common import Figure, parser, percentile, show
from benchmarks.sends import processor_s
from chaos.deployments import process
from chaos.driver import Client, ClusterSpec
from chaos.history.recorder import Recorder
from chaos.node import NodeSpec
from chaos.ops import QueueRef
from chaos.program import Program
from chaos.tasks import gather
from chaos.workload import Load
from drivers.reference.client import QueueClient
from drivers.reference.driver import Options, Reference
from reference import codec
from reference.wire.codes import Request
from workloads import queue

ROOT = Path(__file__).parents[1]
NODE = "null-0"
CLIENTS, DURATION_S, QUEUES = 32, 8.0, 4
#: Before it counts.
WARM_S = 2.0
AIM = 10_000.0
#: More than any client can send.
RATE_PER_S = 1e9
#: So many functions are printed with ``--profile``.
PROFILED = 25
_WORDS = struct.Struct(">II")
_ROUTE = json.dumps({"brokerDatas": [{"brokerAddrs": {"0": NODE}}]}).encode()


class NullServer(asyncio.Protocol):
    """Answers each request as it comes: a route leads to itself, and a send gets the next offset."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._offset = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        answers, at = [], 0
        while len(self._buffer) - at >= _WORDS.size:
            length, word = _WORDS.unpack_from(self._buffer, at)
            if len(self._buffer) - at < 4 + length:
                break
            answers.append(self._answer(json.loads(self._buffer[at + 8 : at + 8 + (word & 0xFFFFFF)])))
            at += 4 + length
        del self._buffer[:at]
        assert self._transport is not None
        self._transport.write(b"".join(answers))

    def _answer(self, asked: dict[str, Any]) -> bytes:
        body, fields = b"", '"incarnation":"1","epoch":"1"'
        if asked["code"] == Request.GET_ROUTEINFO_BY_TOPIC:
            body = _ROUTE
        else:
            self._offset += 1
            fields += f',"queueOffset":"{self._offset}","position":"{100 * self._offset}"'
        header = f'{{"code":0,"flag":1,"opaque":{asked["opaque"]},"extFields":{{{fields}}}}}'.encode()
        return _WORDS.pack(4 + len(header) + len(body), len(header)) + header + body


async def serve(ip: str, port: int) -> None:
    server = await asyncio.get_running_loop().create_server(NullServer, ip, port)
    await server.serve_forever()


@dataclass(slots=True)
class Bench:
    """Implements :class:`chaos.workload.Load`, and counts the operations that it records while it is ``counting``."""

    deployment: process.ProcessDeployment
    recorder: Recorder
    queues: tuple[QueueRef, ...]
    stopping: bool = False
    brokers: tuple[str, ...] = (NODE,)
    shared: dict[str, dict[int, int]] = field(default_factory=lambda: {"acked": {}, "seen": {}, "sequence": {}})
    counting: bool = False
    outcomes: dict[str, int] = field(default_factory=dict)
    latencies_s: list[float] = field(default_factory=list)
    seconds: float = 0.0
    own_s: float = 0.0
    all_s: float = 0.0
    _began: dict[int, float] = field(default_factory=dict)

    def record(self, kind: str, **columns: Any) -> int:
        index = self.recorder.record(kind, **columns)
        if (asked := columns.get("op", -1)) >= 0:
            began_s = self._began.pop(asked)
            if self.counting:
                self.outcomes[columns["type"]] = self.outcomes.get(columns["type"], 0) + 1
                self.latencies_s.append(time.perf_counter() - began_s)
        else:
            self._began[index] = time.perf_counter()
        return index

    def client(self, name: str) -> Client:
        return QueueClient(self.deployment, name, [NODE])

    def rng(self, name: str) -> Random:
        return Random(name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def gather(self, *coroutines: Coroutine[Any, Any, None]) -> None:
        await gather(*coroutines)

    def now_ns(self) -> int:
        return self.deployment.now_ns()

    async def main(self, clients: int, duration_s: float, profile: cProfile.Profile | None) -> int:
        argv = [sys.executable, "-P", "-m", "benchmarks.null_system", "--serve", "{ip}", "{port}"]
        program = Program(argv=argv, env={"PYTHONPATH": str(ROOT)}, ports={"main": 0})
        nodes = [NodeSpec(name=NODE, role="null", program=program)]
        load = queue.Queue(queue.Options(producers=clients, consumers=0, rate_per_s=RATE_PER_S))
        try:
            await self.deployment.start(ClusterSpec(nodes=nodes, codec=codec("")), lambda row: None)
            await gather(load.run(cast(Load, self)), self._count(duration_s, profile))
        finally:
            await self.deployment.stop()
        return 0

    async def _count(self, duration_s: float, profile: cProfile.Profile | None) -> None:
        await asyncio.sleep(WARM_S)
        if profile is not None:
            profile.enable()
        began_s, own_s, all_s = time.perf_counter(), time.process_time(), processor_s()
        self.counting = True
        await asyncio.sleep(duration_s)
        self.counting = False
        self.seconds = time.perf_counter() - began_s
        self.own_s, self.all_s = time.process_time() - own_s, processor_s() - all_s
        if profile is not None:
            profile.disable()
        self.stopping = True


def measure(clients: int, duration_s: float, profile: cProfile.Profile | None = None) -> Bench:
    with tempfile.TemporaryDirectory() as folder:
        deployment = process.create(run_id=Path(folder).name, directory=Path(folder), seed=1)
        with closing(Recorder(Path(folder), deployment.now_ns)) as recorder:
            bench = Bench(deployment, recorder, Reference(Options(queues=QUEUES)).queues())
            deployment.execute(bench.main(clients, duration_s, profile))
    return bench


def main() -> int:
    arguments = parser("null_system", __doc__)
    arguments.add_argument("--clients", type=int, default=CLIENTS, help="(default: %(default)s)")
    arguments.add_argument("--duration-s", type=float, default=DURATION_S, help="(default: %(default)s)")
    arguments.add_argument("--profile", action="store_true", help="print where the harness's process spends its time")
    arguments.add_argument("--serve", nargs=2, metavar=("IP", "PORT"), help="be the null system")
    given = arguments.parse_args()
    if given.serve:
        asyncio.run(serve(given.serve[0], int(given.serve[1])))
        return 0
    profile = cProfile.Profile() if given.profile else None
    bench = measure(given.clients, given.duration_s, profile)
    if set(bench.outcomes) != {"ok"}:
        print(f"not every operation ended in ok: {bench.outcomes}", file=sys.stderr)
        return 1
    count = len(bench.latencies_s)
    figures = [
        Figure(name="operations_per_s", value=round(count / bench.seconds), unit="", aim=AIM, more_is_better=True),
        Figure(name="harness_per_operation", value=round(bench.own_s / count * 1e6), unit="µs"),
        Figure(name="others_per_operation", value=round((bench.all_s - bench.own_s) / count * 1e6), unit="µs"),
        Figure(name="p50", value=round(percentile(bench.latencies_s, 50) * 1e3, 1), unit="ms"),
        Figure(name="p99", value=round(percentile(bench.latencies_s, 99) * 1e3, 1), unit="ms"),
    ]
    show("null_system", figures, as_json=given.json)
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(PROFILED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
