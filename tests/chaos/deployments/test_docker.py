"""Nodes in containers: links that the kernel cuts, faults that compose, and an engine that is left as it was found.

What holds on every deployment is in ``test_process.py``; scenarios on all of them are in ``test_agreement.py``.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest
from toy_nodes import ECHO, FORWARD, READ, SYNC_FIRST, SYNC_NOT, WRITE

from chaos.deployment import CanKill, CanPause, CanProbe, CanRuleLinks, CanWipe, Deployment
from chaos.deployments import docker
from chaos.driver import ClusterSpec
from chaos.effects.links import HARNESS, Delay, Drop, LinkRule, Pass, Reach, Reset, Stall, Throttle
from chaos.errors import DeploymentError
from chaos.fault import NotNow, Undo, Verb, pressed
from chaos.history.directory import runs
from chaos.machines.docker import engine as dockerengine
from chaos.machines.docker.heal import heal
from chaos.node import NodeSpec
from chaos.plain import PlainCodec, PlainMessage
from chaos.program import LogSays, Program
from tests.chaos.deployments import damage
from tests.chaos.deployments.storms import (
    EFFECTIVE,
    ROOT,
    STORM,
    command,
    effective,
    judged,
    said,
    stormproof,
    wait_for_fault,
)
from tests.stormproof.machine_state import CLOCK_S, of_containers, state, wall_clock_s

ZERO, ONE = frozenset({"toy-0"}), frozenset({"toy-1"})
#: TCP sends again what a cut has held back after as long a time as the cut has lasted, at most.
AGAIN_S = 5.0

Script = Callable[["World"], Coroutine[Any, Any, None]]


def toys() -> ClusterSpec:
    names = ("toy-0", "toy-1")
    specs = [NodeSpec(name=name, role="toy", package="toy_nodes") for name in names]
    return ClusterSpec(nodes=specs, codec=PlainCodec())


class World:
    """A cluster of toys in containers."""

    def __init__(self, engine: Any, directory: Path) -> None:
        self.engine = engine
        self.directory = directory
        self.deployment = docker.create(run_id=directory.name, directory=directory, seed=1)

    def run(self, script: Script, cluster: ClusterSpec | None = None) -> None:
        async def main() -> int:
            try:
                await self.deployment.start(cluster or toys(), lambda row: None)
                await script(self)
            finally:
                await self.deployment.stop()
            return 0

        self.deployment.execute(main())

    async def ask(
        self, node: str, code: int, body: bytes = b"", *, within_s: float = 2.0, **fields: str
    ) -> PlainMessage:
        message = PlainMessage(kind=code, body=body, fields=fields)
        return await self.deployment.connect("client", node).request(message, within_s)

    async def forwards(self, within_s: float = 0.5) -> bool:
        """Whether toy-0 can ask toy-1."""
        try:
            return (await self.ask("toy-0", FORWARD, to="toy-1", within_s=within_s)).error == ""
        except TimeoutError:
            return False

    async def undo(self, verb: Verb, subject: str) -> None:
        await self.deployment.undo(Undo(verb=verb, subject=subject))

    def containers(self) -> list[Any]:
        return dockerengine.of_run(self.engine, self.directory)[0]


@pytest.fixture
def world(engine: Any, tmp_path: Path) -> World:
    return World(engine, tmp_path / f"run-{os.getpid()}-{time.monotonic_ns()}")


def left_of(engine: Any, directory: Path) -> list[str]:
    containers, networks = dockerengine.of_run(engine, directory)
    return [item.name for item in (*containers, *networks)]


async def never(world: World) -> None:
    raise AssertionError("it never gets here")


# Links and faults


@pytest.mark.docker
def test_a_cut_between_two_nodes_holds_until_it_goes_and_the_harness_still_sees_both(world: World) -> None:
    async def script(world: World) -> None:
        it = world.deployment
        for power in (Deployment, CanKill, CanPause, CanWipe, CanRuleLinks, CanProbe):
            assert isinstance(it, power)
        assert await world.forwards()
        await it.set_rule("cut", LinkRule(ZERO, ONE, Drop()))
        assert not await world.forwards()
        assert await it.rule_hits("cut") > 0
        for way in (("toy-0", "toy-1"), ("toy-1", "toy-0")):
            assert not await it.reaches(*way) and await it.try_link(*way) is Reach.CUT
        assert await it.reaches(HARNESS, "toy-0") and await it.answers("toy-1")
        await world.undo(Verb.CLEAR_RULE, "cut")
        await world.undo(Verb.CLEAR_RULE, "cut")
        assert await it.reaches("toy-0", "toy-1") and await it.reaches("toy-1", "toy-0")
        assert await world.forwards(AGAIN_S) and await it.rule_hits("cut") == 0

    world.run(script)


@pytest.mark.full
@pytest.mark.docker
def test_overlapping_rules_go_one_by_one_in_any_order(world: World) -> None:
    rules = {
        "out": LinkRule(ZERO, frozenset({"*"}), Drop()),
        "in": LinkRule(frozenset({"*"}), ZERO, Drop()),
        "pair": LinkRule(ZERO, ONE, Drop()),
        "clients": LinkRule(frozenset({"client"}), ONE, Drop()),
    }

    async def script(world: World) -> None:
        it, rng = world.deployment, Random(7)
        for _ in range(3):
            up = rng.sample(sorted(rules), len(rules))
            for rule_id in up:
                await it.set_rule(rule_id, rules[rule_id])
            for rule_id in rng.sample(up, len(up)):
                assert await it.reaches("toy-0", "toy-1") is not ({"out", "in", "pair"} & set(up) != set())
                assert await it.reaches("client", "toy-1") is ("clients" not in up)
                await world.undo(Verb.CLEAR_RULE, rule_id)
                up.remove(rule_id)
            assert await it.reaches("toy-0", "toy-1") and await it.reaches("client", "toy-1")

    world.run(script)


@pytest.mark.full
@pytest.mark.docker
def test_resets_break_connections_between_nodes_and_losses_only_hold_them_up(world: World) -> None:
    async def script(world: World) -> None:
        it = world.deployment
        assert await world.forwards()
        await it.set_rule("loss", LinkRule(ZERO, ONE, Stall(400, 1)))
        for _ in range(40):  # by chance few packets may all come through
            assert await world.forwards(2 * AGAIN_S)
            if await it.rule_hits("loss"):
                break
        assert await it.rule_hits("loss") > 0
        await world.undo(Verb.CLEAR_RULE, "loss")
        await it.set_rule("reset", LinkRule(ZERO, ONE, Reset()))
        answer = await world.ask("toy-0", FORWARD, to="toy-1", within_s=AGAIN_S)
        assert answer.error == "toy-1 is gone" and await it.rule_hits("reset") > 0
        await world.undo(Verb.CLEAR_RULE, "reset")
        assert await world.forwards(AGAIN_S)
        with pytest.raises(DeploymentError, match="can't carry out Delay"):
            await it.set_rule("slow", LinkRule(ZERO, ONE, Delay(1_000_000)))

    world.run(script)


@pytest.mark.full
@pytest.mark.docker
def test_a_node_that_is_told_to_end_loses_nothing(world: World) -> None:
    async def script(world: World) -> None:
        it = world.deployment
        await world.ask("toy-0", WRITE, b"kept.", sync=SYNC_NOT)
        proof = await it.terminate("toy-0")
        assert proof["alive"] is False and proof["orderly"] is True
        with pytest.raises(NotNow):
            await it.terminate("toy-0")
        await world.undo(Verb.START, "toy-0")
        assert (await world.ask("toy-0", READ)).body == b"kept." and it.crashes == ()

    world.run(script)


@pytest.mark.full
@pytest.mark.docker
def test_a_node_with_a_part_of_a_processor_is_slow_over_its_lives_until_it_is_released(world: World) -> None:
    async def throttled(world: World) -> bool:
        """Whether the kernel holds the node back while it works."""
        (program,) = [found for found in world.containers() if found.name.endswith("-toy-0")]
        before = _held_back(program)
        for _ in range(20):
            await world.ask("toy-0", ECHO, bytes(1_000_000), within_s=4 * AGAIN_S)
        return _held_back(program) > before

    async def script(world: World) -> None:
        it = world.deployment
        assert not await throttled(world)
        assert (await it.slow_processor("toy-0", 5))["share_percent"] == 5
        with pytest.raises(NotNow):
            await it.slow_processor("toy-0", 5)
        assert await throttled(world)
        await it.kill("toy-0")
        await world.undo(Verb.START, "toy-0")
        assert await throttled(world)
        for _ in range(2):
            await world.undo(Verb.RELEASE, pressed("toy-0", "cpu"))
        assert not await throttled(world)

    world.run(script)


def _held_back(program: Any) -> int:
    """How often the kernel has held the container's processes back."""
    told = program.client.api.stats(program.id, stream=False, one_shot=True)
    return int(told["cpu_stats"]["throttling_data"]["throttled_periods"])


@pytest.mark.full
@pytest.mark.docker
def test_a_throttled_link_takes_its_time(world: World) -> None:
    async def took_s(world: World) -> float:
        begin_s = time.monotonic()
        for _ in range(10):
            await world.ask("toy-0", FORWARD, bytes(8_000), to="toy-1", within_s=30)
        return time.monotonic() - begin_s

    async def script(world: World) -> None:
        it = world.deployment
        before_s = await took_s(world)
        await it.set_rule("slow", LinkRule(ZERO, ONE, Throttle(20_000)))
        assert 2 < await took_s(world) < 20 and before_s < 2
        hits = await it.rule_hits("slow")
        assert hits > 0
        await it.set_rule("slow", LinkRule(ZERO, ONE, Pass()))
        assert await took_s(world) < 2 and await it.rule_hits("slow") == hits

    world.run(script)


@pytest.mark.docker
def test_faults_on_one_node_compose(world: World) -> None:
    """A rule outlives the node's death, a paused node can be cut off and killed, and every undo stands alone."""

    async def script(world: World) -> None:
        it = world.deployment
        assert (await it.pause("toy-1"))["state"] == "paused" and not await it.answers("toy-1")
        await it.set_rule("cut", LinkRule(ZERO, ONE, Drop()))
        proof = await it.kill("toy-1")
        assert proof["alive"] is False and proof["incarnation"] == 1
        await world.undo(Verb.START, "toy-1")
        assert await it.answers("toy-1") and not await it.reaches("toy-0", "toy-1")
        await world.undo(Verb.RESUME, "toy-1")
        await world.undo(Verb.CLEAR_RULE, "cut")
        assert await it.reaches("toy-0", "toy-1") and await world.forwards(AGAIN_S)
        assert it.crashes == ()

    world.run(script)


@pytest.mark.docker
def test_a_node_is_a_normal_user_that_loses_what_it_did_not_sync(world: World) -> None:
    async def script(world: World) -> None:
        it = world.deployment
        await world.ask("toy-0", WRITE, b"kept.", sync=SYNC_FIRST)
        await world.ask("toy-0", WRITE, b"lost.", sync=SYNC_NOT)
        (program,) = [found for found in world.containers() if found.name.endswith("-toy-0")]
        _, told = program.exec_run(["cat", "/proc/1/status"])
        status = dict(line.split(":", 1) for line in told.decode().splitlines())
        assert status["Uid"].split()[0] != "0" and int(status["CapEff"], 16) == 0 == int(status["CapBnd"], 16)
        assert program.exec_run(["touch", "/opt/stormproof/x"]).exit_code != 0
        await it.kill("toy-0")
        await world.undo(Verb.START, "toy-0")
        assert (await world.ask("toy-0", READ)).body == b"kept."

    world.run(script)


@pytest.mark.full
@pytest.mark.docker
def test_a_disk_changes_behind_the_back_of_its_node(world: World) -> None:
    world.run(damage.all_of_it)
    assert world.deployment.crashes == ()


# What is left behind


@pytest.mark.docker
def test_stop_leaves_no_container_and_no_network_but_the_logs(world: World) -> None:
    found: list[str] = []

    async def script(world: World) -> None:
        await world.deployment.pause("toy-1")
        await world.deployment.kill("toy-0")
        found.extend(left_of(world.engine, world.directory))
        await world.ask("toy-1", ECHO, within_s=0.1)

    with pytest.raises(TimeoutError):
        world.run(script)
    assert len(found) == 5 and left_of(world.engine, world.directory) == []
    assert sorted(path.name for path in (world.directory / "logs").iterdir()) == ["toy-0.log", "toy-1.log"]


@pytest.mark.docker
def test_two_runs_of_one_name_do_not_touch_each_other(engine: Any, tmp_path: Path) -> None:
    async def script(world: World) -> None:
        other = World(engine, tmp_path / "b" / "same")
        await other.deployment.start(toys(), lambda row: None)
        await other.deployment.stop()
        assert left_of(engine, other.directory) == [] and len(left_of(engine, world.directory)) == 5
        assert (await world.ask("toy-0", ECHO, b"here")).body == b"here"

    World(engine, tmp_path / "a" / "same").run(script)


@pytest.mark.docker
def test_a_node_that_cannot_start_is_named_with_its_log_and_all_is_taken_down(world: World) -> None:
    specs = [
        NodeSpec(name="good", role="toy", package="toy_nodes"),
        NodeSpec(name="bad", role="no such role", package="toy_nodes"),
    ]
    with pytest.raises(DeploymentError, match=r"(?s)node bad ended at its start \(exit code 1\).*no such role"):
        world.run(never, ClusterSpec(nodes=specs, codec=PlainCodec()))
    assert left_of(world.engine, world.directory) == []


@pytest.mark.full
@pytest.mark.docker
def test_a_program_has_the_image_the_memory_and_the_environment_that_it_asks_for(world: World) -> None:
    other = ("stormproof-other", "tests")
    world.engine.images.get(dockerengine.image_name()).tag(*other)
    program = Program(
        argv=["sh", "-c", "echo $GREETING; exec sleep 60"],
        env={"GREETING": "hello from {name}"},
        ready=LogSays(pattern="^hello from prog-0$"),
        image=":".join(other),
        memory_mb=64,
    )

    async def script(world: World) -> None:
        (config,) = [one.attrs for one in world.containers() if one.attrs["Config"]["Image"] == ":".join(other)]
        assert config["HostConfig"]["Memory"] == 64 << 20

    try:
        world.run(script, ClusterSpec(nodes=[NodeSpec(name="prog-0", role="broker", program=program)]))
    finally:
        world.engine.images.remove(":".join(other))
    assert left_of(world.engine, world.directory) == []


@pytest.mark.docker
def test_a_name_that_is_taken_is_one_sentence_with_the_way_out(world: World) -> None:
    async def script(taken: World) -> None:
        (network,) = dockerengine.of_run(world.engine, taken.directory)[1]
        again = docker.create(run_id=taken.directory.name, directory=taken.directory, seed=1)
        with pytest.raises(DeploymentError, match=f"{network.name} already exists; `stormproof heal --machine`"):
            await again.start(toys(), lambda row: None)

    World(world.engine, world.directory.with_name("taken")).run(script)


@pytest.mark.full
@pytest.mark.docker
@pytest.mark.parametrize("scenario", ["storm", "quickstart"])
def test_a_storm_in_containers_is_valid_with_every_fault_proven(engine: Any, tmp_path: Path, scenario: str) -> None:
    text = STORM if scenario == "storm" else (ROOT / "examples" / "start" / "quickstart.yaml").read_text()
    found = judged(tmp_path, text, "--on", "docker")
    assert found["verdict"] == "VALID", said(found)
    (run,) = runs(tmp_path / "runs")
    assert effective(run) == EFFECTIVE
    assert left_of(engine, run.resolve()) == []


@pytest.mark.docker
@pytest.mark.full  # test_ssh.py heals containers, too
@pytest.mark.parametrize("moment", range(5))
def test_heal_removes_what_a_killed_harness_left(engine: Any, abandoned: None, tmp_path: Path, moment: int) -> None:
    (tmp_path / "storm.yaml").write_text(STORM)
    before, clock_s = state(str(tmp_path), tmp_path), wall_clock_s()
    words = ("run", "storm.yaml", "--on", "docker", "--engine", "local")
    line, environment = command(*words, TMPDIR=str(tmp_path))
    popen = subprocess.Popen(line, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    try:
        run = wait_for_fault(tmp_path, popen)
        assert heal(run) == [f"run {run.name} is still driven by process {popen.pid}; stop that first"]
        time.sleep(Random(f"moment/{moment}").uniform(0, 8))
    finally:
        popen.kill()
        popen.wait()
    assert len(left_of(engine, run)) == 17
    ids = [item.id for items in dockerengine.of_run(engine, run) for item in items]
    assert all(of_containers(ids).values()), "what is looked for is there, as long as the run is"
    done = stormproof(tmp_path, "heal")
    assert done.returncode == 0 and done.stdout.count("removed the containers of node") == 8, done.stderr
    assert left_of(engine, run) == [] and len(list((run / "logs").iterdir())) == 8
    assert of_containers(ids) == {"control groups": [], "rules": [], "disciplines": []}
    assert state(str(tmp_path), tmp_path) == before and abs(wall_clock_s() - clock_s) < CLOCK_S
    assert "nothing to heal" in stormproof(tmp_path, "heal").stdout
    verdict = json.loads(stormproof(tmp_path, "check", run.name, "--engine", "local", "--json").stdout)
    assert verdict["verdict"] == "UNKNOWN" and any("did not come to its end" in why for why in verdict["why"])


# An engine that isn't there


def run_without(tmp_path: Path, **environment: str) -> str:
    """What a run says when it can't use the engine; it ends with exit code 3 and leaves no node's file."""
    (tmp_path / "storm.yaml").write_text(STORM)
    tmp_path.chmod(0o777)
    done = stormproof(tmp_path, "run", "storm.yaml", "--on", "docker", "--engine", "local", **environment)
    assert done.returncode == 3 and "Traceback" not in done.stderr
    return done.stderr


def test_no_engine_is_one_sentence(tmp_path: Path) -> None:
    told = run_without(tmp_path, DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert f"error: no Docker engine: {tmp_path}/none.sock is not there; install one and start it" in told


def test_an_engine_that_does_not_run_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    told = run_without(tmp_path, DOCKER_HOST=f"unix://{path}")
    assert "does not answer" in told and "Connection refused" in told and "start it" in told


def test_an_engine_of_another_machine_is_one_sentence(tmp_path: Path) -> None:
    told = run_without(tmp_path, DOCKER_HOST="tcp://127.0.0.1:1")
    assert "error: DOCKER_HOST is tcp://127.0.0.1:1, but containers must run on this machine" in told


def test_no_permission_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own, which gives up what root may do."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        path.chmod(0)
        tmp_path.chmod(stat.S_IRWXU | stat.S_IXOTH | stat.S_IROTH)
        script = (
            "import os\n"
            "from chaos.machines.docker import engine\n"
            "from chaos.errors import MachineError\n"
            "if os.getuid() == 0: os.setuid(65534)\n"
            "try: engine.connect()\n"
            "except MachineError as error: print(error)\n"
        )
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "DOCKER_HOST": f"unix://{path}"}
        words = [sys.executable, "-c", script]
        done = subprocess.run(words, env=environment, cwd="/", capture_output=True, text=True, check=False)
    assert done.stdout.startswith(f"no permission to use Docker's engine at {path}: add your user to the group docker")


@pytest.mark.docker
def test_an_image_that_is_missing_is_one_sentence(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dockerengine.image_problem(engine) == ""
    monkeypatch.setattr(dockerengine, "IMAGE", "stormproof-node:none")
    told = dockerengine.image_problem(engine)
    assert told.startswith("the image stormproof-node:none-") and told.endswith("`stormproof image` builds it")


@pytest.mark.docker
def test_the_image_of_a_program_that_is_missing_is_one_sentence(engine: Any) -> None:
    told = dockerengine.image_problem(engine, {"queue-0": "nobody/has:this"})
    assert told == "the image nobody/has:this of node queue-0 is not there: `docker pull nobody/has:this`, or build it"
