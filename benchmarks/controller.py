"""The controller's two modes on the same machine with the same load: ``classic`` (one request at a time, on the leader
only, as RocketMQ's controller works) and ``parallel`` (the default).

Each has a cluster of three processes with real connections and real syncs. Short phases of load alternate between them:

* writes: 64 at a time, each a replica that registers anew;
* reads: 64 at a time, each of one group's replicas (``parallel``: over all three controllers);
* mixed: 50 reads a second beside 32 writes at a time.

The brokers of all groups (three each) send heartbeats to each controller meanwhile: once a second up to 100 groups, and
300 a second in all where there are more. A read is linearizable in both: ``classic`` logs an entry for it.

``python -m benchmarks.controller [--groups N] [--seconds S] [--rounds N] [--json]``. ``seconds`` is how long each mode
is loaded. ``ratio_writes`` and ``ratio_reads`` are throughputs, ``ratio_p99`` the p99 of the mixed phase's reads, each
``parallel`` over ``classic``.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path

from benchmarks._common import Figure, machine, parser, percentile, show
from benchmarks._controller_cluster import Cluster
from benchmarks._controller_load import Call, Connection, Tally, call, keep_asking, leader_of
from chaos.tasks import Group
from reference.controller.dispatch import CLASSIC, PARALLEL
from reference.wire.codes import Request, Response

MODES = (CLASSIC, PARALLEL)
PHASES = ("writes", "reads", "mixed")
IN_FLIGHT = 64
MIXED_WRITES, MIXED_READS_PER_S = 32, 50
CONNECTIONS = 8
REPLICAS = 3
SETUP_AT_ONCE = 256
#: Heartbeats to one controller in a second, at most.
HEARTBEATS_PER_S = 300
ROUNDS = 2
AIMS = {"ratio_writes": (10.0, True), "ratio_reads": (10.0, True), "ratio_p99": (0.2, False)}


@dataclass(slots=True)
class Phase:
    """What one mode did in one phase, over all rounds."""

    tally: Tally = field(default_factory=Tally)
    load_s: float = 0.0
    processor_s: float = 0.0

    @property
    def per_s(self) -> float:
        return len(self.tally.latencies_s) / self.load_s

    @property
    def processor_us(self) -> float:
        """Processor time of the three controllers for one request."""
        return 1e6 * self.processor_s / max(1, len(self.tally.latencies_s))


class Bench:
    """One cluster and its clients."""

    def __init__(self, cluster: Cluster, groups: int) -> None:
        self.cluster = cluster
        self.groups = [f"group-{number}" for number in range(groups)]
        self.phases = {name: Phase() for name in PHASES}
        self.group_bytes = 0.0
        self._generations = count(2)
        self._turn = count()
        self._writers: list[Connection] = []
        self._by_node: dict[str, list[Connection]] = {}

    async def begin(self) -> None:
        """Start the controllers, and have all groups registered, each with a master."""
        self.cluster.start()
        leader = await leader_of(self.cluster)
        for node in self.cluster.addresses:
            names = [f"load-{number}" for number in range(CONNECTIONS)]
            self._by_node[node] = [await Connection.open(self.cluster, node, name) for name in names]
        self._writers = self._by_node[leader]
        before = self.cluster.resident_bytes()
        waiting = iter(self.groups)
        async with Group() as tasks:
            for number in range(min(SETUP_AT_ONCE, len(self.groups))):
                tasks.start(self._set_up(waiting, self._writers[number % CONNECTIONS]))
        self.group_bytes = (self.cluster.resident_bytes() - before) / len(self.groups)

    async def _set_up(self, waiting: Iterator[str], connection: Connection) -> None:
        for group in waiting:
            for replica in range(1, REPLICAS + 1):
                await _must(connection, _apply_id(group, replica))
                await _must(connection, _register(group, replica, 1))
                connection.tell(Request.BROKER_HEARTBEAT, _heartbeat(group, replica))
            await _must(connection, _elect(group))

    def _write(self) -> Call:
        """The last replica of some group registers anew: it is in no SyncStateSet, so nothing else follows."""
        return _register(self.groups[next(self._turn) % len(self.groups)], REPLICAS, next(self._generations))

    def _read(self) -> Call:
        group = self.groups[next(self._turn) % len(self.groups)]
        return Call(code=Request.CONTROLLER_GET_REPLICA_INFO, fields={"brokerName": group})

    def _readers(self) -> list[Connection]:
        if self.cluster.mode == CLASSIC:
            return self._writers
        return [connection for links in zip(*self._by_node.values(), strict=True) for connection in links]

    async def run(self, name: str, seconds: float) -> None:
        """One slice of a phase."""
        phase, begin_s, processor_s = self.phases[name], time.perf_counter(), self.cluster.processor_s()
        end_s = begin_s + seconds
        async with Group() as tasks:
            tasks.start(self._heartbeats(end_s))
            if name == "mixed":
                for number in range(MIXED_WRITES):
                    tasks.start(keep_asking(self._writers[number % CONNECTIONS], self._write, Tally(), end_s))
                tasks.start(self._steady_reads(phase.tally, end_s))
            else:
                make, links = (self._write, self._writers) if name == "writes" else (self._read, self._readers())
                for number in range(IN_FLIGHT):
                    tasks.start(keep_asking(links[number % len(links)], make, phase.tally, end_s))
        phase.load_s += time.perf_counter() - begin_s
        phase.processor_s += self.cluster.processor_s() - processor_s

    async def _steady_reads(self, tally: Tally, end_s: float) -> None:
        """So many reads a second, however long each takes."""
        links, turn = self._readers(), count()
        async with Group() as tasks:
            due_s = time.perf_counter()
            while due_s < end_s:
                tasks.start(call(links[next(turn) % len(links)], self._read(), tally))
                due_s += 1 / MIXED_READS_PER_S
                await asyncio.sleep(due_s - time.perf_counter())

    async def _heartbeats(self, end_s: float) -> None:
        """Each broker's to each controller, evenly over the time."""
        brokers = [(group, replica) for group in self.groups for replica in range(1, REPLICAS + 1)]
        per_s, told, begin_s = min(HEARTBEATS_PER_S, len(brokers)), 0, time.perf_counter()
        while (now_s := time.perf_counter()) < end_s:
            while told < (now_s - begin_s) * per_s:
                fields = _heartbeat(*brokers[told % len(brokers)])
                for links in self._by_node.values():
                    links[0].tell(Request.BROKER_HEARTBEAT, fields)
                told += 1
            await asyncio.sleep(0.01)

    def end(self) -> None:
        for links in self._by_node.values():
            for connection in links:
                connection.close()
        self.cluster.stop()


def _apply_id(group: str, replica: int) -> Call:
    fields = {"clusterName": "load", "brokerName": group, "appliedBrokerId": str(replica)}
    fields |= {"registerCheckCode": f"{group}/{replica};0"}
    return Call(code=Request.CONTROLLER_APPLY_BROKER_ID, fields=fields)


def _register(group: str, replica: int, generation: int) -> Call:
    fields = {"clusterName": "load", "brokerName": group, "brokerId": str(replica), "life": str(generation)}
    fields |= {"brokerAddress": f"{group}/{replica}", "generation": str(generation)}
    return Call(code=Request.CONTROLLER_REGISTER_BROKER, fields=fields)


def _elect(group: str) -> Call:
    fields = {"clusterName": "load", "brokerName": group, "brokerId": "1", "designateElect": "false"}
    done = frozenset({Response.SUCCESS, Response.CONTROLLER_MASTER_STILL_EXIST})
    return Call(code=Request.CONTROLLER_ELECT_MASTER, fields=fields, done=done)


def _heartbeat(group: str, replica: int) -> dict[str, str]:
    fields = {"clusterName": "load", "brokerName": group, "brokerId": str(replica), "maxOffset": "100", "epoch": "1"}
    return fields | {"brokerAddr": f"{group}/{replica}", "generation": "1"}


async def _must(connection: Connection, what: Call) -> None:
    """Raises ``RuntimeError`` when the controllers refuse."""
    tally = Tally()
    while not tally.latencies_s:
        await call(connection, what, tally)
        if any(code != Response.SYSTEM_BUSY for code in tally.refused):
            raise RuntimeError(f"request {what.code} {dict(what.fields)} was refused: {tally.refused}")


async def _measure(groups: int, seconds: float, rounds: int, folder: Path) -> dict[str, Bench]:
    benches = {mode: Bench(Cluster(mode, folder / mode, window=1024), groups) for mode in MODES}
    async with AsyncExitStack() as stack:
        for bench in benches.values():
            stack.callback(bench.end)
            await bench.begin()
        for _ in range(rounds):
            for name in PHASES:
                for bench in benches.values():
                    await bench.run(name, seconds / rounds / len(PHASES))
    return benches


def measure(groups: int, seconds: float, rounds: int) -> dict[str, Bench]:
    """Both modes under the same load; ``seconds`` of load each. Raises ``RuntimeError`` if a controller ends."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(groups, seconds, rounds, Path(folder)))


def figures(benches: dict[str, Bench]) -> list[Figure]:
    """Raises ``RuntimeError`` if nothing was answered in some phase."""
    found = []
    for mode, bench in benches.items():
        for name, phase in bench.phases.items():
            found += _of_phase(f"{mode}_{name}", phase)
        found.append(Figure(name=f"{mode}_group_memory", value=round(bench.group_bytes / 1024, 1), unit="KiB"))
    classic, parallel = (benches[mode].phases for mode in MODES)
    p99 = percentile(parallel["mixed"].tally.latencies_s, 99) / percentile(classic["mixed"].tally.latencies_s, 99)
    ratios = {name: parallel[name].per_s / classic[name].per_s for name in ("writes", "reads")} | {"p99": p99}
    for name, value in ratios.items():
        aim, more_is_better = AIMS[f"ratio_{name}"]
        found.append(
            Figure(name=f"ratio_{name}", value=round(value, 3), unit="", aim=aim, more_is_better=more_is_better)
        )
    return found


def _of_phase(name: str, phase: Phase) -> list[Figure]:
    if not phase.tally.latencies_s:
        raise RuntimeError(
            f"{name}: no request was answered as it should be, but with {phase.tally.refused or 'nothing'}"
        )
    told = [
        Figure(name=f"{name}_per_s", value=round(phase.per_s, 1), unit="/s"),
        Figure(name=f"{name}_refused", value=sum(phase.tally.refused.values()), unit=""),
    ]
    if not name.endswith("mixed"):  # there the writes have their share
        told.append(Figure(name=f"{name}_processor", value=round(phase.processor_us), unit="us"))
    for percent in (50, 99):
        value = round(1000 * percentile(phase.tally.latencies_s, percent), 2)
        told.append(Figure(name=f"{name}_p{percent}", value=value, unit="ms"))
    return told


def _json(found: Sequence[Figure]) -> str:
    """One object, with the ratios as members of their own."""
    ratios = {figure.name: figure.value for figure in found if figure.name in AIMS}
    told = [{**asdict(figure), "reached": figure.reached} for figure in found]
    return json.dumps({"benchmark": "controller", "machine": machine(), **ratios, "figures": told})


def main() -> int:
    arguments = parser("controller", __doc__)
    arguments.add_argument("--groups", type=int, default=100, help="broker groups (default: %(default)s)")
    arguments.add_argument("--seconds", type=float, default=10, help="load for each mode (default: %(default)s)")
    arguments.add_argument("--rounds", type=int, default=ROUNDS, help="slices of each phase (default: %(default)s)")
    given = arguments.parse_args()
    if given.groups < 1 or given.seconds <= 0 or given.rounds < 1:
        arguments.error("--groups and --rounds must be 1 or more, --seconds more than 0")
    found = figures(measure(given.groups, given.seconds, given.rounds))
    if given.json:
        print(_json(found))
    else:
        show("controller", found, as_json=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
