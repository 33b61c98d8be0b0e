"""The runner against a toy system in the simulator: phases, faults, proofs, and that everything is undone."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from chaos.deployments.sim import create
from chaos.driver import ClusterSpec, ClusterView, Disconnected, Network, Profile, Record, ReplicaGroup
from chaos.errors import DeploymentError
from chaos.experiment.model import Bounds, Experiment, FaultSpec, PluginUse, Schedule, Trigger
from chaos.node import Env, NodeSpec
from chaos.ops import Answer, Delivered, Failed, QueueRef, Unknown
from chaos.plain import PlainMessage
from chaos.plugins import PluginKind, load, options_class
from chaos.run.journal import JOURNAL
from chaos.run.runner import RunSummary, after_role, run
from chaos.workload import Load, body_hash
from tests.chaos.run.journals import pending
from tests.free_events import Free
from tests.views import one_group

SEND, PULL, BOUNDS, COMMIT, COMMITTED, STATE = range(1, 7)
TOY = "stormproof_toy"


class ToyBroker:
    """One durable queue. ``broker-0`` is the master for ever; the others only exist."""

    def __init__(self) -> None:
        self.log: list[tuple[int, bytes]] = []
        self.offsets: dict[str, int] = {}
        self.end = 0

    def start(self, env: Env) -> None:
        data = env.disk.read("log") if env.disk.size("log") >= 0 else b""
        self.log = [(int(key, 16), bytes.fromhex(body)) for key, body in (line.split() for line in _lines(data))]
        self.end = sum(len(line) + 1 for line in _lines(data))

    def message(self, env: Env, source: str, message: PlainMessage) -> None:
        code, fields = message.kind, message.fields
        if code == SEND:  # durable before it is acknowledged
            line = f"{fields['key']} {message.body.hex()}\n".encode()
            env.disk.write("log", self.end, line)
            self.end += len(line)
            self.log.append((int(fields["key"], 16), message.body))
            env.trace(Free("stored", queue=0, offset=len(self.log) - 1))
            env.send(source, message.reply(fields={"offset": str(len(self.log) - 1)}), after=env.disk.sync(["log"]))
        elif code == PULL:
            start = int(fields["offset"])
            found = [[start + i, key, body.hex()] for i, (key, body) in enumerate(self.log[start : start + 32])]
            env.send(source, message.reply(body=json.dumps({"found": found, "end": len(self.log)}).encode()))
        elif code == COMMIT:
            self.offsets[fields["group"]] = int(fields["offset"])
            env.send(source, message.reply())
        elif code == COMMITTED:
            env.send(source, message.reply(fields={"offset": str(self.offsets.get(fields["group"], -1))}))
        else:
            env.send(source, message.reply(fields={"end": str(len(self.log))}))

    def timer(self, env: Env, name: str) -> None: ...

    def done(self, env: Env, token: int) -> None: ...

    def closed(self, env: Env, peer: str) -> None: ...


def _lines(data: bytes) -> list[str]:
    return data.rstrip(b"\0").decode().split("\n")[:-1]


def build(spec: NodeSpec) -> ToyBroker:
    return ToyBroker()


sys.modules[TOY] = sys.modules[__name__]


@dataclass
class ToyClient:
    network: Network
    name: str

    async def ask(self, code: int, body: bytes = b"", **fields: object) -> PlainMessage:
        message = PlainMessage(kind=code, fields={name: str(text) for name, text in fields.items()}, body=body)
        try:
            return await self.network.connect(self.name, "broker-0").request(message, 1.0)
        except TimeoutError as error:
            raise Unknown("timeout") from error
        except Disconnected as error:
            raise (Unknown("lost") if error.sent else Failed("refused")) from error

    async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
        answer = await self.ask(SEND, body, key=key)
        return Answer(node="broker-0", offset=int(answer.fields["offset"]))

    async def pull(
        self, queue: QueueRef, offset: int, *, limit: int, max_bytes: int = 0, node: str = "", source: str = ""
    ) -> Answer:
        told = json.loads((await self.ask(PULL, offset=offset)).body)
        found = tuple(
            Delivered(offset=at, message=key, hash=body_hash(bytes.fromhex(body))) for at, key, body in told["found"]
        )
        following = found[-1].offset + 1 if found else offset
        return Answer(minimum=0, maximum=told["end"], following=following, messages=found)

    async def commit(self, queue: QueueRef, group: str, offset: int) -> Answer:
        await self.ask(COMMIT, group=group, offset=offset)
        return Answer(offset=offset)

    async def committed(self, queue: QueueRef, group: str) -> Answer:
        return Answer(offset=int((await self.ask(COMMITTED, group=group)).fields["offset"]))

    async def bounds(self, queue: QueueRef, node: str = "") -> Answer:
        return Answer(minimum=0, maximum=int((await self.ask(BOUNDS)).fields["end"]))

    def close(self) -> None: ...


@dataclass
class ToyDriver:
    """``heals`` = False: the system never settles again once it has taken load."""

    heals: bool = True
    loaded: bool = False
    brokers: tuple[str, ...] = ("broker-0", "broker-1", "broker-2")

    def cluster(self, mutant: str) -> ClusterSpec:
        nodes = [NodeSpec(name=name, role="broker", package=TOY) for name in self.brokers]
        return ClusterSpec(nodes=nodes, codec=None)

    def queues(self) -> tuple[QueueRef, ...]:
        return (QueueRef(index=0, topic="t", queue_id=0),)

    def profile(self) -> Profile:
        return Profile()

    def client(self, network: Network, name: str) -> ToyClient:
        self.loaded |= name.startswith("producer")
        return ToyClient(network, name)

    async def view(self, network: Network, record: Record | None = None) -> ClusterView:
        try:
            await network.connect("harness", "broker-0").request(PlainMessage(kind=STATE), 0.5)
            settled = self.heals or not self.loaded
        except (TimeoutError, Disconnected):
            settled = False
        return one_group(brokers=self.brokers, master="broker-0", epoch=1, in_sync=self.brokers, settled=settled)

    async def collect(self, network: Network, record: Record) -> None:
        record("final", f="complete", node="broker-0")

    async def switch(self, network: Network, target: str, group: str) -> Mapping[str, object]:
        raise Failed("a toy never switches")


@dataclass
class Rows:
    """A recorder that keeps its rows."""

    now_ns: Callable[[], int]
    rows: list[dict[str, Any]] = field(default_factory=list)

    def record(self, kind: str, **columns: Any) -> int:
        self.rows.append({"kind": kind, "time_ns": self.now_ns(), **columns})
        return len(self.rows) - 1

    def record_trace(self, row: Mapping[str, Any]) -> int:
        return self.record("trace", **{name: value for name, value in row.items() if name != "kind"})

    def where(self, **columns: object) -> list[dict[str, Any]]:
        return [row for row in self.rows if all(row.get(name) == value for name, value in columns.items())]


def use(kind: PluginKind, name: str, **options: Any) -> PluginUse:
    return PluginUse(kind=kind, name=name, options=options_class(load(kind, name))(**options))


def fault(name: str, schedule: Schedule, for_s: float = 1.0, **options: Any) -> FaultSpec:
    return FaultSpec(use=use(PluginKind.FAULT, name, **options), schedule=schedule, for_s=for_s)


def experiment(*faults: FaultSpec, duration_s: float = 8.0, recover_s: float = 10.0) -> Experiment:
    return Experiment(
        name="toy",
        system=PluginUse(kind=PluginKind.DRIVER, name="toy", options=None),
        duration_s=duration_s,
        bounds=Bounds(recover_s=recover_s),
        workloads=[use(PluginKind.WORKLOAD, "queue", rate_per_s=50.0, producers=2)],
        faults=faults,
    )


def play(
    plan: Experiment, directory: Path, *, seed: int = 1, driver: ToyDriver | None = None
) -> tuple[RunSummary, Rows]:
    deployment = create(run_id="toy", directory=directory, seed=seed)
    rows = Rows(deployment.now_ns)
    summary = run(
        plan, deployment=deployment, driver=driver or ToyDriver(), directory=directory, seed=seed, recorder=rows
    )
    return summary, rows


def test_phases_follow_one_another_and_the_drain_proves_the_end(tmp_path: Path) -> None:
    summary, rows = play(experiment(), tmp_path)
    assert summary.phases == ("setup", "ready", "load", "heal", "recover", "drain", "collect", "stop")
    assert [row["value"]["phase"] for row in rows.where(kind="harness", f="phase")] == list(summary.phases)
    assert summary.recovered and rows.where(kind="harness", f="recovered")
    acked = [row["offset"] for row in rows.where(kind="op", f="send", type="ok")]
    (drained,) = rows.where(kind="op", f="drain", type="ok")
    assert len(acked) > 200 and drained["offset"] == max(acked) + 1
    read = {row["offset"] for row in rows.where(f="delivered", process="drain-0-reader.0")}
    assert read == set(range(drained["offset"]))


def test_faults_strike_on_time_are_proven_and_undone(tmp_path: Path) -> None:
    plan = experiment(
        fault("kill", Schedule(at_s=(1.0, 5.0)), target="master"),
        fault("pause", Schedule(at_s=(3.0,)), target="broker-0"),
        fault("partition", Schedule(every_s=6.5), for_s=0.0, shape="isolate", target="master"),
    )
    summary, rows = play(plan, tmp_path)
    assert summary.effective_faults == ("kill", "partition", "pause") and summary.recovered
    (load,) = [row["time_ns"] for row in rows.where(f="phase") if row["value"]["phase"] == "load"]
    begun = [(row["f"], round((row["time_ns"] - load) / 1e9, 1)) for row in rows.where(kind="fault", type="invoke")]
    assert begun == [("kill", 1.0), ("pause", 3.0), ("kill", 5.0), ("partition", 6.5)]
    undone = [row for row in rows.where(kind="fault", type="ok") if row["value"]["phase"] == "undo"]
    assert len(undone) == 4 and all(row["value"]["effective"] for row in undone)
    assert undone[-1]["value"]["proof"]["hits"] > 0
    assert (tmp_path / JOURNAL).read_text().count("\n") == 8 and pending(tmp_path) == []


def test_a_trace_event_is_hit_before_the_messages_of_its_step_leave(tmp_path: Path) -> None:
    on_store = Schedule(when=Trigger(event="stored", node="broker-0", skip=20, times=1))
    _, rows = play(experiment(fault("kill", on_store, target="broker-0")), tmp_path)
    stored = rows.where(f="stored")
    twenty_first = stored[21]  # the probe before the load doesn't count
    (killed,) = rows.where(kind="fault", type="invoke")
    assert killed["time_ns"] == twenty_first["time_ns"]
    acked = [row["offset"] for row in rows.where(f="send", type="ok") if row["time_ns"] < killed["time_ns"] + 10**8]
    assert twenty_first["offset"] not in acked


def test_a_refused_fault_is_retried_and_recorded_but_not_effective(tmp_path: Path) -> None:
    plan = experiment(
        fault("switch", Schedule(at_s=(1.0,)), target="slave"), fault("kill", Schedule(at_s=(1.0,)), target="nobody")
    )
    summary, rows = play(plan, tmp_path)
    refusals = rows.where(kind="fault", f="switch", type="fail")
    assert len(refusals) > 10 and refusals[0]["value"]["reason"] == "a toy never switches"
    assert len(refusals) == len({row["process"] for row in refusals})
    (unplanned,) = rows.where(kind="fault", f="kill", type="fail")
    (began,) = rows.where(kind="fault", f="kill", type="invoke")
    assert began["value"] == {"targets": [], "effects": {}}, "what never began is known to have done nothing"
    assert "nobody" in unplanned["value"]["reason"] and summary.effective_faults == ()


def test_a_system_that_does_not_settle_has_not_recovered(tmp_path: Path) -> None:
    summary, rows = play(experiment(duration_s=2.0, recover_s=3.0), tmp_path, driver=ToyDriver(heals=False))
    assert not summary.recovered and summary.recovered_s == -1
    assert rows.where(kind="harness", f="not_recovered") and not rows.where(kind="harness", f="recovered")
    assert summary.phases[-3:] == ("drain", "collect", "stop")


def test_an_error_of_the_harness_still_undoes_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: ToyDriver, network: Network, target: str, group: str) -> Mapping[str, object]:
        raise DeploymentError("the supervisor is gone")

    monkeypatch.setattr(ToyDriver, "switch", broken)
    plan = experiment(
        fault("pause", Schedule(at_s=(1.0,)), for_s=0.0, target="broker-1"), fault("switch", Schedule(at_s=(2.0,)))
    )
    with pytest.raises(DeploymentError, match="supervisor"):
        play(plan, tmp_path)
    assert pending(tmp_path) == [] and '"resume","broker-1"' in (tmp_path / JOURNAL).read_text()


def test_ctrl_c_heals_and_leaves_a_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from workloads.queue import Queue

    async def interrupt(self: Queue, load: Load) -> None:
        await load.sleep(2.0)
        os.kill(os.getpid(), signal.SIGINT)
        await load.sleep(100.0)

    monkeypatch.setattr(Queue, "run", interrupt)
    plan = experiment(fault("kill", Schedule(at_s=(1.0,)), for_s=0.0, target="broker-1"))
    summary, rows = play(plan, tmp_path)
    assert summary.interrupted and summary.phases[-1] == "stop" and "drain" not in summary.phases
    assert pending(tmp_path) == [] and rows.where(kind="harness", f="end")


def test_one_seed_is_one_history_and_another_seed_another(tmp_path: Path) -> None:
    plan = experiment(
        fault("kill", Schedule(mean_s=2.0), for_s=0.5, target="one"),
        fault("loss", Schedule(at_s=(2.0,)), target="broker-0", mode="reset", per_mille=100),
    )
    one, again, other = (
        play(plan, _made(tmp_path / name), seed=s)[1].rows for name, s in (("a", 1), ("b", 1), ("c", 2))
    )
    assert one == again and one != other


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


# Following the leaders of several groups


PARTITIONS = ClusterView(
    groups=(
        ReplicaGroup(name="p-0", replicas=("a", "b"), leader="a", epoch=3, in_sync=("a", "b")),
        ReplicaGroup(name="p-1", replicas=("b", "c"), leader="b", epoch=7, in_sync=("b", "c")),
    ),
    settled=True,
)


def led(node: str, epoch: int, **value: str) -> list[str]:
    row = {"f": "role", "node": node, "epoch": epoch, "value": {"role": "master", **value}}
    return [group.leader for group in after_role(PARTITIONS, row).groups]


def test_a_role_that_a_node_traces_changes_the_leader_of_its_group() -> None:
    assert led("c", 8) == ["a", "c"], "c is in one group only"
    assert led("b", 8, group="p-0") == ["b", "b"]
    assert led("b", 8) == ["a", "b"], "nobody can tell which of its groups is meant"
    assert led("c", 7) == ["a", "b"], "an old epoch"
    assert not after_role(PARTITIONS, {"node": "c", "epoch": 8, "value": {"role": "master"}}).settled
    assert after_role(PARTITIONS, {"node": "c", "epoch": 8, "value": {"role": "slave"}}) is PARTITIONS
