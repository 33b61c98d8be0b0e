"""Pressure on nodes of hosts: it is felt in each life until it is released, and gone with the run."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from toy_nodes import ECHO, SYNC_FIRST, SYNC_NOT, WRITE

from chaos.deployment import CanLimitDescriptors, CanLimitMemory, CanSkewClocks, CanSlowProcessors
from chaos.driver import Disconnected
from chaos.errors import MachineError
from chaos.fault import NotNow, Verb, pressed
from chaos.history.directory import runs
from chaos.machines.real_time import ask_clocks
from chaos.machines.ssh.host import SshHost
from tests.chaos.deployments.ssh_hosts import Hosts
from tests.chaos.deployments.storms import STORM, command, effective, judged, said, stormproof, wait_for_fault
from tests.chaos.deployments.test_ssh import AGAIN_S, NOTHING, World, never, on

pytestmark = pytest.mark.ssh

S = 10**9
#: Faults that start processes of their own, limit others, or hold them up.
PRESSURE = (
    STORM[: STORM.index("faults:")]
    + """\
faults:
  - cpu: {target: one, share_percent: 20}
    at: 1s
    for: 3s
  - io_hang: {target: slave}
    at: 2s
    for: 3s
  - descriptors: {target: slave}
    at: 6s
    for: 2s
  - memory: {target: nameserver}
    at: 9s
    for: 2s
"""
)


@pytest.fixture
def world(hosts: Hosts, tmp_path: Path) -> World:
    return World(hosts, tmp_path / "run")


def test_what_weighs_on_a_node_is_felt_in_its_next_life_until_it_is_released(world: World) -> None:
    async def script(world: World) -> None:
        it = world.deployment
        for power in (CanSlowProcessors, CanLimitMemory, CanLimitDescriptors):
            assert isinstance(it, power)
        assert (await it.slow_processor("toy-0", 25))["spinners"] == 3
        with pytest.raises(NotNow, match="already"):
            await it.slow_processor("toy-0", 25)
        await world.ask("toy-1", ECHO)
        await it.limit_descriptors("toy-1")
        assert not await it.answers("toy-1") and (await world.ask("toy-1", ECHO)).error == ""
        for _ in range(2):
            await world.undo(Verb.RELEASE, pressed("toy-1", "descriptors"))
        deadline_s = time.monotonic() + AGAIN_S
        while not await it.answers("toy-1"):
            assert time.monotonic() < deadline_s

        async def fill() -> None:
            for _ in range(200):
                await world.ask("toy-2", WRITE, bytes(100_000), sync=SYNC_NOT)

        assert int(str((await it.limit_memory("toy-2", 2))["limit"])) > 0
        for _ in range(2):
            with pytest.raises(Disconnected):
                await fill()
            try:
                await it.kill("toy-2")  # it has lost no more than that connection
            except NotNow:
                pass
            await world.undo(Verb.START, "toy-2")
        with pytest.raises(Disconnected):
            await fill()
        await world.undo(Verb.RELEASE, pressed("toy-2", "memory"))
        assert it.crashes == (), "it has ended of what is over by now"
        await world.undo(Verb.START, "toy-2")
        await fill()
        await world.undo(Verb.RELEASE, pressed("toy-0", "cpu"))
        assert it.crashes == ()

    world.run(script)
    assert world.hosts.footprint() == NOTHING


@pytest.mark.full
def test_pressure_on_hosts_is_valid_with_every_fault_proven(hosts: Hosts, tmp_path: Path) -> None:
    found = judged(tmp_path, PRESSURE, *on(hosts, tmp_path))
    assert found["verdict"] == "VALID", said(found)
    (run,) = runs(tmp_path / "runs")
    assert effective(run) == dict.fromkeys(("cpu", "io_hang", "descriptors", "memory"), True)
    assert hosts.footprint() == NOTHING


@pytest.mark.full  # test_ssh.py heals hosts, and test_killed_harness.py ends such processes
def test_heal_ends_what_takes_processors_when_the_harness_was_killed(hosts: Hosts, tmp_path: Path) -> None:
    # The fault lasts: on a crowded machine it takes seconds to look at all hosts.
    lasting = PRESSURE[: PRESSURE.index("  - io_hang")].replace("for: 3s", "for: 10s")
    (tmp_path / "scenario.yaml").write_text(lasting)
    line, environment = command("run", "scenario.yaml", *on(hosts, tmp_path))
    popen = subprocess.Popen(line, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    try:
        wait_for_fault(tmp_path, popen)
        deadline_s = time.monotonic() + AGAIN_S
        while "local_resources" not in str(hosts.footprint()):
            assert time.monotonic() < deadline_s
    finally:
        popen.kill()
        popen.wait()
    done = stormproof(tmp_path, "heal")
    assert done.returncode == 0 and ": ended what took a processor's time (process " in done.stdout, done.stderr
    assert hosts.footprint() == NOTHING


@pytest.mark.full
def test_clocks_on_hosts_jump_and_drift_over_the_lives_of_a_node(world: World) -> None:
    async def script(world: World) -> None:
        it = world.deployment
        assert isinstance(it, CanSkewClocks)

        async def off_s(node: str) -> float:
            told = await ask_clocks(*it.expose("client", node), AGAIN_S)
            return (told["wall_ns"] - time.time_ns()) / 1e9

        assert abs(await off_s("toy-0")) < 1
        proof = await it.set_clock("toy-0", jump_ns=3600 * S, drift_ppm=50_000)
        assert proof["drift_ppm"] == 50_000 and abs(int(str(proof["jumped_ns"])) - 3600 * S) < S
        assert await off_s("toy-0") == pytest.approx(3600, abs=1)
        assert abs(await off_s("toy-1")) < 1 and abs(await off_s("toy-3")) < 1, "not even on the same host"
        await it.kill("toy-0")
        await world.undo(Verb.START, "toy-0")
        assert await off_s("toy-0") == pytest.approx(3600, abs=1)
        for _ in range(2):
            await world.undo(Verb.RESET_CLOCK, "toy-0")
        assert abs(await off_s("toy-0")) < 1
        await world.ask("toy-0", WRITE, b"kept.", sync=SYNC_FIRST)
        assert it.crashes == ()

    world.deployment.expect_skewed_clocks()
    world.run(script)
    assert world.hosts.footprint() == NOTHING
    assert world.hosts.shell(0, "ls", "/dev/shm") == ""


def test_a_host_without_libfaketime_is_told_before_a_node_starts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    call = SshHost.call
    monkeypatch.setattr(SshHost, "call", lambda self, do, **said: do != "can_skew_clocks" and call(self, do, **said))
    world.deployment.expect_skewed_clocks()
    with pytest.raises(MachineError, match=r"host h\d has no libfaketime, .*`on: \[sim\]`"):
        world.run(never)
    assert world.hosts.footprint() == NOTHING
