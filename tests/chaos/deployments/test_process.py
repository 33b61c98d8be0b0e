"""Nodes as processes: what holds in the simulator holds for them, and nothing of them is ever left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from toy_nodes import COUNT, DROP_ME, ECHO, FAIL, FORWARD, READ, SYNC_FIRST, SYNC_NOT, WRITE

from chaos.deployment import CanKill, CanPause, CanRuleLinks, CanWipe, Deployment
from chaos.deployments import docker, netns, process, sim
from chaos.driver import ClusterSpec, Disconnected
from chaos.effects.links import HARNESS, Delay, Drop, LinkRule, Reset, Stall
from chaos.errors import DeploymentError
from chaos.fault import NotNow, Undo, Verb
from chaos.machines import procfs
from chaos.node import NodeSpec
from chaos.plain import PlainCodec, PlainMessage
from chaos.tasks import gather

pytestmark = pytest.mark.process
ALL = frozenset({"*"})


def toys() -> ClusterSpec:
    names = ("toy-0", "toy-1")
    specs = [NodeSpec(name=name, role="toy", package="toy_nodes") for name in names]
    return ClusterSpec(nodes=specs, codec=PlainCodec())


class World:
    """A cluster of toys on any deployment, and its trace."""

    def __init__(self, kind: str, directory: Path) -> None:
        module = {"sim": sim, "process": process, "netns": netns, "docker": docker}[kind]
        self.run_id = directory.name
        self.directory = directory
        self.deployment: Any = module.create(run_id=self.run_id, directory=directory, seed=1)
        self.rows: list[dict[str, Any]] = []

    def run(self, script: Callable[[World], Coroutine[Any, Any, None]], cluster: ClusterSpec | None = None) -> World:
        async def main() -> int:
            try:
                await self.deployment.start(cluster or toys(), lambda row: self.rows.append(dict(row)))
                await script(self)
            finally:
                await self.deployment.stop()
            return 7

        assert self.deployment.execute(main()) == 7
        return self

    def of(self, f: str, node: str = "") -> list[dict[str, Any]]:
        return [row for row in self.rows if row["f"] == f and node in ("", row["node"])]

    async def ask(self, node: str, code: int, body: bytes = b"", *, by: str = "client", **fields: str) -> PlainMessage:
        message = PlainMessage(kind=code, body=body, fields=fields)
        answer: PlainMessage = await self.deployment.connect(by, node).request(message, 2.0)
        return answer

    async def silent(self, node: str, *, by: str = "client") -> bool:
        try:
            await self.deployment.connect(by, node).request(PlainMessage(kind=ECHO), 0.3)
        except TimeoutError:
            return True
        return False

    async def undo(self, verb: Verb, subject: str) -> None:
        await self.deployment.undo(Undo(verb=verb, subject=subject))


NETNS = pytest.param("netns", marks=[pytest.mark.netns, pytest.mark.full])


@pytest.fixture(params=["sim", "process", NETNS, pytest.param("docker", marks=pytest.mark.docker)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    if request.param == "docker":
        request.getfixturevalue("engine")
    return World(request.param, tmp_path / f"run-{os.getpid()}-{time.monotonic_ns()}")


@pytest.fixture
def processes(tmp_path: Path) -> World:
    return World("process", tmp_path / f"run-{os.getpid()}-{time.monotonic_ns()}")


def left_of(directory: Path) -> list[procfs.Process]:
    return procfs.of_run(directory)


# The same on all deployments


def test_requests_timers_forwards_and_traces(world: World) -> None:
    async def script(world: World) -> None:
        answer = await world.ask("toy-0", ECHO, b"hello", word="ü")
        assert (answer.body, dict(answer.fields)) == (b"hello", {"word": "ü", "node": "toy-0"})
        assert (await world.ask("toy-0", FORWARD, b"far", to="toy-1")).body == b"far"
        assert len({(await world.ask("toy-0", ECHO, str(i).encode())).body for i in range(20)}) == 20
        await asyncio.sleep(0.2)

    world.run(script)
    assert [row["source"] for row in (r["value"] for r in world.of("echo", "toy-1"))] == ["toy-0"]
    assert [row["value"]["name"] for row in world.of("timer", "toy-0")] == ["tick"] * 3
    steps = [(row["incarnation"], row["step"]) for row in world.rows if row["node"] == "toy-0"]
    assert steps == sorted(steps) and steps[0] == (1, 1)


def test_a_kill_loses_what_was_not_synced_and_keeps_what_was(world: World) -> None:
    async def script(world: World) -> None:
        await world.ask("toy-0", WRITE, b"kept.", sync=SYNC_FIRST)
        proof = await world.deployment.kill("toy-0")
        assert proof["alive"] is False and proof["incarnation"] == 1
        with pytest.raises(NotNow):
            await world.deployment.kill("toy-0")
        with pytest.raises(Disconnected) as refused:
            await world.ask("toy-0", READ, by="newcomer")
        assert not refused.value.sent
        await world.undo(Verb.START, "toy-0")
        await world.undo(Verb.START, "toy-0")
        assert (await world.ask("toy-0", READ)).body == b"kept."
        await asyncio.sleep(0.1)

    world.run(script)
    assert [row["incarnation"] for row in world.of("start", "toy-0")] == [1, 2]


@pytest.mark.parametrize("kind", ["sim", "process"])
def test_a_node_told_to_end_keeps_all_that_it_wrote(kind: str, tmp_path: Path) -> None:
    async def script(world: World) -> None:
        for round in range(20):
            await world.ask("toy-0", WRITE, b"more.", sync=SYNC_NOT)
            if round % 5 == 0:
                proof = await world.deployment.terminate("toy-0")
                assert proof["orderly"] is True and proof["alive"] is False
                with pytest.raises(NotNow, match="not running"):
                    await world.deployment.terminate("toy-0")
                await world.undo(Verb.START, "toy-0")
        assert (await world.ask("toy-0", READ)).body == b"more." * 20
        await world.deployment.pause("toy-0")
        with pytest.raises(NotNow, match="paused"):
            await world.deployment.terminate("toy-0")
        assert not world.deployment.crashes

    World(kind, tmp_path / f"run-{os.getpid()}-{time.monotonic_ns()}").run(script)


def test_a_request_under_way_hears_of_the_kill(world: World) -> None:
    async def script(world: World) -> None:
        await world.deployment.set_rule("slow", LinkRule(frozenset({"toy-0"}), ALL, Drop()))
        await world.ask("toy-1", ECHO)
        waiting = asyncio.ensure_future(world.ask("toy-1", FORWARD, to="toy-0"))
        await asyncio.sleep(0.1)
        await world.deployment.kill("toy-1")
        with pytest.raises(Disconnected) as broken:
            await waiting
        assert broken.value.sent

    world.run(script)


def test_a_paused_node_is_silent_until_it_is_resumed(world: World) -> None:
    async def script(world: World) -> None:
        assert not await world.silent("toy-0")
        assert (await world.deployment.pause("toy-0"))["node"] == "toy-0"
        with pytest.raises(NotNow):
            await world.deployment.pause("toy-0")
        assert await world.silent("toy-0")
        await world.undo(Verb.RESUME, "toy-0")
        await world.undo(Verb.RESUME, "toy-0")
        assert not await world.silent("toy-0")

    world.run(script)


def test_a_dropped_link_is_silent_open_or_not_and_speaks_again_when_cleared(world: World) -> None:
    async def script(world: World) -> None:
        await world.ask("toy-0", ECHO)
        await world.deployment.set_rule("cut", LinkRule(frozenset({"client"}), frozenset({"toy-0", "toy-1"}), Drop()))
        assert await world.silent("toy-0") and await world.silent("toy-1")
        assert not await world.silent("toy-0", by="other")
        assert await world.deployment.rule_hits("cut") >= 2
        await world.undo(Verb.CLEAR_RULE, "cut")
        await world.undo(Verb.CLEAR_RULE, "cut")
        assert await world.deployment.rule_hits("cut") == 0
        assert not await world.silent("toy-0") and not await world.silent("toy-1")

    world.run(script)


def test_a_one_way_cut_lets_the_request_in_and_no_answer_out(world: World) -> None:
    async def script(world: World) -> None:
        await world.ask("toy-0", ECHO)
        await world.deployment.set_rule("cut", LinkRule(frozenset({"toy-0"}), frozenset({"client"}), Drop()))
        assert await world.silent("toy-0")
        await asyncio.sleep(0.1)
        await world.undo(Verb.CLEAR_RULE, "cut")

    assert len(world.run(script).of("echo", "toy-0")) == 2


def test_no_rule_touches_the_harness(world: World) -> None:
    async def script(world: World) -> None:
        await world.deployment.set_rule("cut", LinkRule(ALL, ALL, Drop()))
        assert not await world.silent("toy-0", by=HARNESS)
        assert await world.silent("toy-0")

    world.run(script)


def test_delays_and_stalls_make_answers_late_and_resets_break(world: World) -> None:
    async def script(world: World) -> None:
        async def took_s() -> float:
            begin_ns = world.deployment.now_ns()
            await world.ask("toy-0", ECHO)
            return float(world.deployment.now_ns() - begin_ns) / 1e9

        pair = frozenset({"client"}), frozenset({"toy-0"})
        assert await took_s() < 1
        for action in (Delay(300_000_000, 1_000_000), Stall(1000, 300_000_000)):
            await world.deployment.set_rule("slow", LinkRule(*pair, action))
            assert 0.29 < await took_s() < 1.5
        await world.deployment.set_rule("slow", LinkRule(*pair, Reset()))
        with pytest.raises(Disconnected):
            await world.ask("toy-0", ECHO)
        assert await world.deployment.rule_hits("slow") >= 3
        await world.undo(Verb.CLEAR_RULE, "slow")
        assert await took_s() < 1

    world.run(script)


def test_a_node_hears_that_its_peer_is_gone_and_can_drop_a_client(world: World) -> None:
    async def script(world: World) -> None:
        assert (await world.ask("toy-0", FORWARD, b"1", to="toy-1")).error == ""
        await world.deployment.kill("toy-1")
        answer = await world.ask("toy-0", FORWARD, b"2", to="toy-1")
        assert answer.error == "toy-1 is gone"
        await world.undo(Verb.START, "toy-1")
        assert (await world.ask("toy-0", FORWARD, b"3", to="toy-1")).body == b"3"
        with pytest.raises(Disconnected):
            await world.ask("toy-0", DROP_ME)
        assert (await world.ask("toy-0", ECHO, b"again")).body == b"again"

    world.run(script)


def test_what_two_nodes_tell_each_other_at_once_comes_whole_and_in_order(world: World) -> None:
    async def script(world: World) -> None:
        for _ in range(3):
            await gather(world.ask("toy-0", COUNT, to="toy-1"), world.ask("toy-1", COUNT, to="toy-0"))
        await asyncio.sleep(0.3)

    world.run(script)
    for node in ("toy-0", "toy-1"):
        assert [row["offset"] for row in world.of("number", node)] == [*range(100)] * 3


def test_a_wiped_node_starts_empty(world: World) -> None:
    async def script(world: World) -> None:
        await world.ask("toy-0", WRITE, b"gone.", sync=SYNC_FIRST)
        proof = await world.deployment.wipe("toy-0")
        assert proof["was_alive"] is True and proof["files_removed"] == 1
        await world.undo(Verb.START, "toy-0")
        assert (await world.ask("toy-0", READ)).body == b""

    world.run(script)


def test_an_added_node_reaches_all_and_all_reach_it_under_the_rules_that_stand(world: World) -> None:
    spec = NodeSpec(name="toy-2", role="toy", package="toy_nodes")

    async def script(world: World) -> None:
        it = world.deployment
        await it.set_rule("cut", LinkRule(frozenset({"toy-0"}), ALL, Drop()))
        await it.pause("toy-1")
        proof = await it.add(spec)
        assert proof["alive"] is True and proof["incarnation"] == 1
        with pytest.raises(NotNow, match="already"):
            await it.add(spec)
        assert (await world.ask("toy-2", WRITE, b"kept.", sync=SYNC_FIRST)).error == ""
        assert not await it.reaches("toy-0", "toy-2") and not await it.reaches("toy-2", "toy-0")
        await world.undo(Verb.RESUME, "toy-1")
        assert await it.reaches("toy-1", "toy-2") and await it.reaches("toy-2", "toy-1")
        assert (await world.ask("toy-1", FORWARD, b"far", to="toy-2")).body == b"far", "who was paused knows it too"
        await world.undo(Verb.CLEAR_RULE, "cut")
        assert await it.reaches("toy-0", "toy-2") and await it.reaches("toy-2", "toy-0")
        assert (await world.ask("toy-0", FORWARD, b"far", to="toy-2")).body == b"far"
        assert (await it.kill("toy-2"))["alive"] is False
        for node in ("toy-2", "toy-2", "toy-1"):
            await world.undo(Verb.START, node)
        assert (await world.ask("toy-2", READ)).body == b"kept."
        assert (await world.ask("toy-2", FORWARD, b"back", to="toy-1")).body == b"back"
        await asyncio.sleep(0.2)

    world.run(script)
    assert [row["incarnation"] for row in world.of("start", "toy-2")] == [1, 2]
    assert left_of(world.directory) == []


def test_a_node_that_fails_by_itself_is_a_crash(world: World) -> None:
    async def script(world: World) -> None:
        with pytest.raises(Disconnected):
            await world.ask("toy-0", FAIL)
        deadline_s = time.monotonic() + 5
        while not (crashes := world.deployment.crashes) and time.monotonic() < deadline_s:
            await asyncio.sleep(0)  # whoever holds the process hears of its end a moment later
        assert [(crash.node, crash.incarnation) for crash in crashes] == [("toy-0", 1)]
        assert "asked to fail" in str(crashes[0])
        await world.undo(Verb.START, "toy-0")
        assert (await world.ask("toy-0", ECHO, b"back")).body == b"back"

    world.run(script)
    assert [row["value"]["error"] for row in world.of("crash")] == ["ValueError: asked to fail"]
    assert len(world.deployment.crashes) == 1


# Only on processes


def test_it_has_the_powers_of_a_deployment_of_processes(processes: World) -> None:
    for power in (Deployment, CanKill, CanPause, CanWipe, CanRuleLinks):
        assert isinstance(processes.deployment, power)


def test_unsynced_bytes_are_lost_on_kill(processes: World) -> None:
    async def script(world: World) -> None:
        await world.ask("toy-0", WRITE, b"kept.", sync=SYNC_FIRST)
        await world.ask("toy-0", WRITE, b"lost.", sync=SYNC_NOT)
        assert (await world.ask("toy-0", READ)).body == b"kept.lost."
        await world.deployment.kill("toy-0")
        await world.undo(Verb.START, "toy-0")
        assert (await world.ask("toy-0", READ)).body == b"kept."

    processes.run(script)


def test_stop_leaves_no_process_and_no_port(processes: World) -> None:
    found: list[procfs.Process] = []
    address: list[tuple[str, int]] = []

    async def script(world: World) -> None:
        await world.deployment.pause("toy-1")
        found.extend(left_of(world.directory))
        address.append(world.deployment.expose("outsider", "toy-0"))

    processes.run(script)
    assert len(found) == 3 and left_of(processes.directory) == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address[0], timeout=1)


def test_a_client_that_knows_no_proxy_reaches_a_node_by_its_port(processes: World) -> None:
    async def script(world: World) -> None:
        library = await world.deployment.endpoint("library", "toy-0")
        assert library == await world.deployment.endpoint("library", "toy-0")
        for where in (world.deployment.expose("outsider", "toy-0"), library):
            reader, writer = await asyncio.open_connection(*where)
            writer.write(PlainCodec().encode(PlainMessage(kind=ECHO, number=5, body=b"hi")))
            buffer = bytearray()
            while not (answers := PlainCodec().decode(buffer)):
                buffer += await asyncio.wait_for(reader.read(4096), 2)
            assert (answers[0].number, answers[0].body) == (5, b"hi")
            writer.close()
        await asyncio.sleep(0.1)
        with pytest.raises(DeploymentError, match="node toy-0 has no port 'main' for library: its ports are none"):
            await world.deployment.endpoint("library", "toy-0", "main")

    assert [row["value"]["source"] for row in processes.run(script).of("echo")] == ["outsider/1", "library/2"]


def test_a_node_that_cannot_start_is_named_with_its_log(processes: World) -> None:
    async def script(world: World) -> None:
        raise AssertionError("it never gets here")

    specs = [NodeSpec(name="bad", role="no such role", package="toy_nodes")]
    with pytest.raises(DeploymentError, match=r"(?s)node bad ended at its start.*no such role"):
        processes.run(script, ClusterSpec(nodes=specs, codec=PlainCodec()))
    assert left_of(processes.directory) == []


def harness_environment() -> dict[str, str]:
    """Return the environment of a harness that is a program of its own and finds what this one finds."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


HARNESS_SCRIPT = """
import asyncio, sys
from pathlib import Path
from tests.chaos.deployments.test_process import toys
from chaos.deployments import process

async def main():
    directory = Path({directory!r})
    deployment = process.create(run_id=directory.name, directory=directory, seed=1)
    try:
        await deployment.start(toys(), lambda row: None)
        await deployment.pause("toy-0")
        print("paused", flush=True)
        await asyncio.sleep(60)
    finally:
        await deployment.stop()
        print("stopped", flush=True)
    return 0

process.create(run_id="x", directory=Path({directory!r}), seed=1).execute(main())
"""


def harness(directory: Path) -> subprocess.Popen[str]:
    """A harness of its own, in the middle of a pause when this returns."""
    script = HARNESS_SCRIPT.format(directory=str(directory))
    popen = subprocess.Popen(
        [sys.executable, "-c", script],
        env=harness_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert popen.stdout is not None
    assert popen.stdout.readline() == "paused\n"
    return popen


@pytest.mark.parametrize("known", [True, False])
def test_heal_ends_what_a_killed_harness_left(tmp_path: Path, known: bool) -> None:
    directory = tmp_path / f"run-{os.getpid()}-{time.monotonic_ns()}"
    popen = harness(directory)
    assert process.heal(directory) == [f"run {directory.name} is still driven by process {popen.pid}; stop that first"]
    popen.kill()
    popen.communicate()
    states = sorted(found.state() for found in left_of(directory))
    assert len(states) == 3 and "T" in states
    if not known:
        (directory / "supervisor.json").unlink()
    done = process.heal(directory)
    assert left_of(directory) == []
    assert (
        len(done) == 3 and sum("ended the node toy-0" in sentence and "stopped" in sentence for sentence in done) == 1
    )
    assert any("supervisor" in line for line in done)
    assert process.heal(directory) == []


def test_heal_all_finds_runs_without_their_directories(tmp_path: Path) -> None:
    directory = tmp_path / "runs" / f"run-{os.getpid()}-{time.monotonic_ns()}"
    popen = harness(directory)
    popen.kill()
    popen.communicate()
    directory.rename(tmp_path / "gone")
    assert process.heal_all(tmp_path / "elsewhere") == [], "they are of another folder"
    assert len(process.leftovers(tmp_path / "runs")) == len(left_of(directory)) == 3
    assert len(process.heal_all(tmp_path / "runs")) == 3
    assert left_of(directory) == [] and process.heal_all(tmp_path) == []


def test_two_runs_of_one_name_do_not_touch_each_other(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        other = World("process", tmp_path / "b" / "same")
        await other.deployment.start(toys(), lambda row: None)
        assert len(left_of(other.directory)) == 3
        await other.deployment.stop()
        assert left_of(other.directory) == [] and process.heal(other.directory) == []
        assert (await world.ask("toy-0", ECHO, b"here")).body == b"here" and len(left_of(world.directory)) == 3

    World("process", tmp_path / "a" / "same").run(script)


def test_stop_clears_up_after_a_supervisor_that_was_killed(processes: World) -> None:
    async def script(world: World) -> None:
        text = (world.directory / "supervisor.json").read_text()
        os.kill(procfs.Process.parse(json.loads(text)["process"]).pid, signal.SIGKILL)
        with pytest.raises(Disconnected):
            await world.ask("toy-0", ECHO)
        with pytest.raises(DeploymentError, match="the supervisor"):
            await world.deployment.kill("toy-0")

    processes.run(script)
    assert left_of(processes.directory) == []


def test_an_interrupted_harness_stops_its_cluster(tmp_path: Path) -> None:
    directory = tmp_path / f"run-{os.getpid()}-{time.monotonic_ns()}"
    popen = harness(directory)
    popen.send_signal(signal.SIGINT)
    out, errors = popen.communicate(timeout=20)
    assert out == "stopped\n" and "KeyboardInterrupt" in errors
    assert left_of(directory) == []


def test_a_recycled_process_id_is_never_touched() -> None:
    me = procfs.Process.of(os.getpid())
    stranger = procfs.Process(me.pid, me.started - 1)
    assert me.state() and not stranger.state()
    assert not stranger.signal(signal.SIGKILL)
