"""Nodes on hosts with real SSH servers: links that their kernels cut, hosts that vanish, and nothing left behind.

What needs no host is in ``test_agent.py`` and ``test_packet_filter.py`` of ``tests/chaos/machines``, and in
``tests/chaos/experiment/test_inventory.py``.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import paramiko
import pytest
from toy_nodes import FORWARD, READ, SYNC_FIRST, SYNC_NOT, WRITE

from chaos.deployment import (
    CanHangIo,
    CanKill,
    CanLoseUnsynced,
    CanPause,
    CanProbe,
    CanRuleDisks,
    CanRuleLinks,
    CanTerminate,
    CanWipe,
    Deployment,
)
from chaos.deployments import ssh
from chaos.driver import ClusterSpec
from chaos.effects.disks import DiskRule, SlowDisk
from chaos.effects.links import HARNESS, Delay, Drop, LinkRule, Reach, Reset
from chaos.errors import BadInput, ChaosError, DeploymentError, HostLost, MachineError
from chaos.experiment.inventory import Host
from chaos.fault import NotNow, Undo, Verb, pressed
from chaos.history.directory import runs
from chaos.machines.node_package import node_wheel
from chaos.machines.procfs import Process
from chaos.machines.ssh.host import SshHost
from chaos.node import NodeSpec
from chaos.plain import PlainCodec, PlainMessage
from tests.chaos.deployments import damage, ssh_hosts
from tests.chaos.deployments.ssh_hosts import COUNT, FREE, PASSWORD, WITH_PASSWORD, Hosts
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
from tests.left_behind import remove_abandoned, whose

NOTHING = [([], [], [])] * COUNT
#: TCP sends again what a cut has held back after as long a time as the cut has lasted, at most.
AGAIN_S = 5.0
#: A lost host is found again within this time.
BACK_S = 40.0

Script = Callable[["World"], Coroutine[Any, Any, None]]


class World:
    """Four toys on three hosts: toy-0 and toy-3 share the first."""

    def __init__(self, hosts: Hosts, directory: Path, inventory: Sequence[Host] = ()) -> None:
        directory.mkdir()
        self.hosts = hosts
        self.directory = directory
        chosen = tuple(inventory) or hosts.inventory()
        self.deployment = ssh.create(run_id=directory.name, directory=directory, seed=1, inventory=chosen)

    def run(self, script: Script) -> None:
        names = [f"toy-{number}" for number in range(COUNT + 1)]
        specs = [NodeSpec(name=name, role="toy", package="toy_nodes") for name in names]

        async def main() -> int:
            try:
                await self.deployment.start(ClusterSpec(nodes=specs, codec=PlainCodec()), lambda row: None)
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

    async def forwards(self, source: str, target: str, within_s: float = 0.5) -> bool:
        try:
            return (await self.ask(source, FORWARD, to=target, within_s=within_s)).error == ""
        except TimeoutError:
            return False

    async def undo(self, verb: Verb, subject: str) -> None:
        await self.deployment.undo(Undo(verb=verb, subject=subject))


@pytest.fixture
def world(hosts: Hosts, tmp_path: Path) -> World:
    return World(hosts, tmp_path / "run")


async def never(world: World) -> None:
    raise AssertionError("it never gets here")


def rule(source: str, target: str, action: Any = None) -> LinkRule:
    return LinkRule(frozenset({source}), frozenset({target}), action or Drop())


# Links and faults


@pytest.mark.ssh
def test_a_cut_holds_between_its_two_nodes_alone_also_where_they_share_a_host(world: World) -> None:
    async def script(world: World) -> None:
        it = world.deployment
        for power in (Deployment, CanKill, CanTerminate, CanPause, CanWipe, CanRuleLinks, CanProbe):
            assert isinstance(it, power)
        assert isinstance(it, CanHangIo) and isinstance(it, CanLoseUnsynced) and isinstance(it, CanRuleDisks)
        for target, other in (("toy-1", "toy-3"), ("toy-3", "toy-1")):
            assert await world.forwards("toy-0", target, AGAIN_S)
            await it.set_rule("cut", rule("toy-0", target))
            assert not await world.forwards("toy-0", target) and await it.rule_hits("cut") > 0
            for way in (("toy-0", target), (target, "toy-0")):
                assert not await it.reaches(*way) and await it.try_link(*way) is Reach.CUT
            assert (
                await it.reaches("toy-0", other)
                and await it.reaches(other, target)
                and await it.reaches("toy-2", target)
            )
            assert (
                await it.reaches(HARNESS, target) and await it.reaches("client", "toy-0") and await it.answers(target)
            )
            await world.undo(Verb.CLEAR_RULE, "cut")
            await world.undo(Verb.CLEAR_RULE, "cut")
            assert await it.reaches("toy-0", target) and await it.reaches(target, "toy-0")
        await it.set_rule("reset", rule("toy-0", "toy-3", Reset()))
        assert (await world.ask("toy-0", FORWARD, to="toy-3", within_s=AGAIN_S)).error != ""
        await it.set_rule("clients", rule("client", "toy-2"))
        assert not await it.reaches("client", "toy-2") and await it.reaches("toy-1", "toy-2")
        with pytest.raises(DeploymentError, match="can't carry out Delay"):
            await it.set_rule("slow", rule("toy-0", "toy-1", Delay(1_000_000)))

    world.run(script)
    assert world.hosts.footprint() == NOTHING


@pytest.mark.full
@pytest.mark.ssh
def test_faults_on_one_node_compose_and_a_kill_loses_what_was_not_synced(world: World) -> None:
    async def script(world: World) -> None:
        it = world.deployment
        await world.ask("toy-1", WRITE, b"kept.", sync=SYNC_FIRST)
        await world.ask("toy-1", WRITE, b"lost.", sync=SYNC_NOT)
        assert (await it.pause("toy-1"))["state"] == "T" and not await it.answers("toy-1")
        await it.set_rule("cut", rule("toy-0", "toy-1"))
        proof = await it.kill("toy-1")
        assert proof["alive"] is False and proof["incarnation"] == 1 and proof["host"] == "h1"
        with pytest.raises(NotNow):
            await it.kill("toy-1")
        await world.undo(Verb.START, "toy-1")
        assert await it.answers("toy-1") and not await it.reaches("toy-0", "toy-1")
        await world.undo(Verb.RESUME, "toy-1")
        await world.undo(Verb.CLEAR_RULE, "cut")
        assert (await world.ask("toy-1", READ)).body == b"kept."
        assert (await it.wipe("toy-1"))["was_alive"] is True
        await world.undo(Verb.START, "toy-1")
        assert (await world.ask("toy-1", READ)).body == b""
        await it.hang_io("toy-2")
        with pytest.raises(NotNow, match="already"):
            await it.hang_io("toy-2")
        with pytest.raises(TimeoutError):
            await world.ask("toy-2", WRITE, b"late.", sync=SYNC_FIRST, within_s=0.5)
        await world.undo(Verb.RELEASE, pressed("toy-2", "io"))
        await world.ask("toy-2", WRITE, b"soon.", sync=SYNC_NOT)
        assert (await it.terminate("toy-2"))["orderly"] is True
        await world.undo(Verb.START, "toy-2")
        assert (await world.ask("toy-2", READ)).body == b"late.soon."
        await it.set_disk_rule("slow", DiskRule("toy-2", SlowDisk(2_000_000_000)))
        with pytest.raises(TimeoutError):
            await world.ask("toy-2", WRITE, b"late.", sync=SYNC_FIRST, within_s=0.5)
        assert await it.disk_rule_hits("slow") == 1
        for _ in range(2):
            await world.undo(Verb.CLEAR_DISK, "slow")
        assert it.crashes == () == it.losses

    world.run(script)
    assert world.hosts.footprint() == NOTHING
    assert sorted(path.name for path in (world.directory / "traces").iterdir()) == [f"toy-{n}.jsonl" for n in range(4)]


@pytest.mark.full
@pytest.mark.ssh
def test_a_disk_changes_behind_the_back_of_its_node(world: World) -> None:
    world.run(damage.all_of_it)
    assert world.deployment.crashes == ()


@pytest.mark.full
@pytest.mark.ssh
def test_a_node_joins_on_the_host_that_has_the_fewest_under_the_rules_that_stand(world: World) -> None:
    spec = NodeSpec(name="toy-4", role="toy", package="toy_nodes")

    async def script(world: World) -> None:
        it = world.deployment
        await it.set_rule("cut", LinkRule(frozenset({"toy-1"}), frozenset({"*"}), Drop()))
        await it.pause("toy-0")
        proof = await it.add(spec)
        assert (proof["host"], proof["incarnation"], proof["alive"]) == ("h1", 1, True)
        with pytest.raises(NotNow, match="already"):
            await it.add(spec)
        await world.ask("toy-4", WRITE, b"kept.", sync=SYNC_FIRST)
        assert not await it.reaches("toy-1", "toy-4") and not await it.reaches("toy-4", "toy-1"), "on one host"
        assert await it.reaches("toy-2", "toy-4") and await it.reaches("toy-4", "toy-3")
        await world.undo(Verb.RESUME, "toy-0")
        assert await world.forwards("toy-0", "toy-4", AGAIN_S) and await world.forwards("toy-4", "toy-2", AGAIN_S)
        await world.undo(Verb.CLEAR_RULE, "cut")
        assert await it.reaches("toy-1", "toy-4") and await world.forwards("toy-1", "toy-4", AGAIN_S)
        assert (await it.kill("toy-4"))["alive"] is False
        await world.undo(Verb.START, "toy-4")
        assert (await world.ask("toy-4", READ)).body == b"kept." and it.crashes == () == it.losses

    world.run(script)
    assert world.hosts.footprint() == NOTHING
    assert (world.directory / "traces" / "toy-4.jsonl").stat().st_size > 0


@pytest.mark.full
@pytest.mark.ssh
def test_hosts_behind_a_jump_host_work_the_same(hosts: Hosts, tmp_path: Path) -> None:
    """Clients come through SSH; the user is none that is root."""
    jump = f"root@{hosts.address(0)}:22"
    inventory = [hosts.host(0), *(hosts.host(number, user=FREE, jump=jump) for number in (1, 2))]

    async def script(world: World) -> None:
        it = world.deployment
        assert await world.forwards("toy-1", "toy-2", AGAIN_S)
        await it.set_rule("cut", rule("toy-1", "toy-2"))
        assert not await world.forwards("toy-1", "toy-2") and await it.reaches("toy-1", "toy-0")
        await world.undo(Verb.CLEAR_RULE, "cut")
        assert await it.reaches("toy-1", "toy-2")

    World(hosts, tmp_path / "run", inventory).run(script)
    assert hosts.footprint() == NOTHING


@pytest.mark.ssh
def test_a_host_that_vanishes_is_told_and_what_is_owed_to_it_is_done_once_it_is_back(world: World) -> None:
    async def script(world: World) -> None:
        it, lost = world.deployment, world.hosts.containers[1]
        await it.set_rule("cut", rule("toy-0", "toy-1"))
        await it.kill("toy-1")
        lost.kill()
        while not it.losses:
            await asyncio.sleep(0.05)
        for fault in (it.kill, it.pause, it.wipe):
            with pytest.raises(NotNow, match="host h1 can't be reached"):
                await fault("toy-1")
        await world.undo(Verb.CLEAR_RULE, "cut")
        await world.undo(Verb.START, "toy-1")
        assert not await it.answers("toy-1") and not await it.reaches("toy-1", "toy-0")
        assert await it.reaches("toy-0", "toy-2"), "the others go on"
        await it.set_rule("next", LinkRule(frozenset({"toy-1", "toy-2"}), frozenset({"toy-0"}), Drop()))
        assert not await it.reaches("toy-2", "toy-0"), "a rule holds where it can"
        await world.undo(Verb.CLEAR_RULE, "next")
        lost.start()
        deadline_s = time.monotonic() + BACK_S
        while not await it.answers("toy-1"):
            assert time.monotonic() < deadline_s
            await asyncio.sleep(0.1)
        assert await it.reaches("toy-0", "toy-1") and (await it.kill("toy-1"))["incarnation"] == 2
        assert it.losses[0].startswith("host h1 with toy-1 could not be reached, for ") and it.crashes == ()

    try:
        world.run(script)
    finally:
        world.hosts.containers[1].start()
        world.hosts.wait([1])
    assert world.hosts.footprint() == NOTHING


# Runs from the command line


def on(hosts: Hosts, tmp_path: Path) -> list[str]:
    """The words that have a command use these hosts."""
    return ["--on", "ssh", "--inventory", str(hosts.file(tmp_path))]


@pytest.mark.full
@pytest.mark.ssh
@pytest.mark.parametrize("scenario", ["storm", "quickstart"])
def test_a_storm_on_hosts_is_valid_with_every_fault_proven(hosts: Hosts, tmp_path: Path, scenario: str) -> None:
    text = STORM if scenario == "storm" else (ROOT / "examples" / "start" / "quickstart.yaml").read_text()
    found = judged(tmp_path, text, *on(hosts, tmp_path))
    assert found["verdict"] == "VALID", said(found)
    (run,) = runs(tmp_path / "runs")
    assert effective(run) == EFFECTIVE
    assert hosts.footprint() == NOTHING


@pytest.mark.ssh
@pytest.mark.full
def test_a_run_goes_on_without_a_host_that_vanishes_and_is_unknown(hosts: Hosts, tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(STORM)
    line, environment = command("run", "scenario.yaml", *on(hosts, tmp_path), "--engine", "local", "--json")
    pipe = subprocess.PIPE
    popen = subprocess.Popen(line, cwd=tmp_path, env=environment, stdout=pipe, stderr=subprocess.DEVNULL)
    try:
        wait_for_fault(tmp_path, popen)
        hosts.containers[2].kill()
        told, _ = popen.communicate(timeout=240)
    finally:
        popen.kill()
        popen.wait()
        hosts.containers[2].start()
        hosts.wait([2])
        done = stormproof(tmp_path, "heal")  # whatever was judged: the next test wants clean hosts
    found = json.loads(told)
    assert found["verdict"] == "UNKNOWN" and popen.returncode == 2, (found["why"], found["laws"])
    assert any(why.startswith("host h2 with ") and "could not be reached" in why for why in found["why"])
    assert done.returncode == 0 and "host h2: removed /root/.stormproof/runs/" in done.stdout
    assert hosts.footprint() == NOTHING


@pytest.mark.ssh
def test_heal_removes_what_a_killed_harness_left_on_all_hosts(hosts: Hosts, tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(STORM)
    line, environment = command("run", "scenario.yaml", *on(hosts, tmp_path))
    popen = subprocess.Popen(line, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    try:
        run = wait_for_fault(tmp_path, popen)
        assert ssh.heal(run) == [f"run {run.name} is still driven by process {popen.pid}; stop that first"]
    finally:
        popen.kill()
        popen.wait()
    assert all(processes and chains and folders for processes, chains, folders in hosts.footprint())  # type: ignore[misc]
    done = stormproof(tmp_path, "heal")
    assert done.returncode == 0 and done.stdout.count(": ended node ") >= 7, done.stderr
    assert hosts.footprint() == NOTHING
    assert "nothing to heal" in stormproof(tmp_path, "heal").stdout


@pytest.mark.ssh
def test_hosts_of_tests_that_were_ended_are_removed_by_the_next(hosts: Hosts) -> None:
    maker = subprocess.Popen(["sleep", "60"])
    labels = whose(Process.of(maker.pid))
    left = hosts.engine.networks.create(f"stormproof-tests-{maker.pid}", internal=True, labels=labels)
    try:
        hosts.engine.containers.create(ssh_hosts.IMAGE, network=left.name, name=f"{left.name}-0", labels=labels)
        assert left.name not in remove_abandoned(hosts.engine)
    finally:
        maker.kill()
        maker.wait()
    assert {left.name, f"{left.name}-0"} <= set(remove_abandoned(hosts.engine))
    assert not hosts.engine.networks.list(names=[left.name])


# Trouble, each told in one sentence


def trouble(host: Host) -> str:
    one = SshHost(host, "run", node_wheel())
    with pytest.raises(ChaosError) as caught:
        try:
            one.connect()
            one.become_root()
        finally:
            one.close()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.ssh
def test_a_key_that_nobody_accepted_or_that_has_changed_is_told_with_the_way_to_accept_it(
    hosts: Hosts, tmp_path: Path
) -> None:
    known = tmp_path / "known hosts"
    host = hosts.host(0, known_hosts=str(known))
    told = trouble(host)
    assert "nobody has accepted its key yet: ssh-ed25519 SHA256:" in told
    subprocess.run(["sh", "-c", told.partition("accept it by: ")[2]], check=True)
    one = SshHost(host, "run", node_wheel())
    one.connect()
    one.close()
    other = paramiko.ECDSAKey.generate()
    kind, key = (hosts.host(1).host, host.host)
    lines = known.read_text().replace(known.read_text().split()[2], other.get_base64())
    known.write_text(lines.replace("ssh-ed25519", other.get_name()))
    told = trouble(host)
    assert "its key has changed: it is " in told and kind != key
    if subprocess.run(["sh", "-c", "command -v ssh-keygen"], capture_output=True, check=False).returncode == 0:
        subprocess.run(["sh", "-c", told.partition("accept it by: ")[2]], check=True, capture_output=True)
        one.connect()
        one.close()


@pytest.mark.ssh
def test_the_way_to_a_host_is_told_when_it_is_wrong(hosts: Hosts, tmp_path: Path) -> None:
    host = hosts.host(0)
    stranger = tmp_path / "stranger"
    paramiko.ECDSAKey.generate().write_private_key_file(str(stranger))
    assert "does not let root in with the key" in trouble(replace(host, key=str(stranger)))
    assert "is not there: correct `key`" in trouble(replace(host, key=str(tmp_path / "none")))
    paramiko.ECDSAKey.generate().write_private_key_file(str(tmp_path / "locked"), password="secret")
    assert "is encrypted: load it into an agent" in trouble(replace(host, key=str(tmp_path / "locked")))
    assert "is no private key that can be read" in trouble(replace(host, key=str(hosts.known_hosts)))
    assert "no SSH with" in trouble(replace(host, port=1))
    assert "unknown host 'no-such-host.invalid'" in trouble(replace(host, host="no-such-host.invalid"))
    assert "no-such-python; true can't be run there" in trouble(replace(host, python="no-such-python; true"))
    assert "the code can't be put into /proc" in trouble(replace(host, directory="/proc"))


@pytest.mark.ssh
def test_sudo_with_a_wrong_password_or_none_is_told(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    host = hosts.host(0, user=WITH_PASSWORD, sudo_password_env="TEST_SUDO")
    if "not found" in hosts.shell(0, "sh", "-c", "command -v sudo || echo not found"):
        assert "sudo is not installed" in trouble(host)
        return
    assert "careful can't become root" in trouble(host) and "asks for a password and none is given" in trouble(host)
    monkeypatch.setenv("TEST_SUDO", "a wrong one")
    assert "the password is wrong; let that user run sudo without a password" in trouble(host)
    monkeypatch.setenv("TEST_SUDO", PASSWORD)
    one = SshHost(host, "run", node_wheel())
    one.connect()
    one.become_root()
    assert one.root(["cat"], "given\n") == (0, "given") and one.root(["id", "-u"], "") == (0, "0")
    one.close()


@pytest.mark.ssh
def test_hosts_that_can_not_serve_are_told_before_anything_starts(hosts: Hosts, tmp_path: Path) -> None:
    same = [hosts.host(0), replace(hosts.host(0), name="twin")]
    with pytest.raises(BadInput, match="hosts h0 and twin are one machine"):
        World(hosts, tmp_path / "same", same).run(never)
    unreachable = [hosts.host(0), replace(hosts.host(1), port=1)]
    with pytest.raises(MachineError, match="host h1: no SSH with"):
        World(hosts, tmp_path / "unreachable", unreachable).run(never)
    taken = [hosts.host(0, first_port=22)]
    with pytest.raises(DeploymentError, match="host h0: port 22 is taken"):
        World(hosts, tmp_path / "taken", taken).run(never)
    assert hosts.footprint() == NOTHING


@pytest.mark.ssh
def test_doctor_tries_the_hosts_of_an_inventory(hosts: Hosts, tmp_path: Path) -> None:
    def examined() -> dict[str, dict[str, Any]]:
        told = stormproof(tmp_path, "doctor", "--json", "--inventory", str(hosts.file(tmp_path)))
        return {finding["what"]: finding for finding in json.loads(told.stdout)}

    found = examined()
    assert [found[f"Host h{number}"]["ok"] for number in range(COUNT)] == [True] * COUNT
    assert found["Host h1"]["found"] == f"root@{hosts.address(1)}:22, its nodes at {hosts.address(1)}; root is root"
    known = hosts.known_hosts.read_text()
    hosts.known_hosts.write_text("")
    try:
        assert "nobody has accepted its key yet" in examined()["Host h2"]["mend"]
    finally:
        hosts.known_hosts.write_text(known)
    assert hosts.footprint() == NOTHING


def test_a_run_without_hosts_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(STORM)
    done = stormproof(tmp_path, "run", "scenario.yaml", "--on", "ssh", "--engine", "local")
    assert done.returncode == 3 and "error: --on ssh needs hosts: list them as `hosts` in the experiment" in done.stderr
    (tmp_path / "hosts.yaml").write_text("hosts: [{host: a, nodes: [broker-7]}]")
    done = stormproof(tmp_path, "run", "scenario.yaml", "--on", "ssh", "--inventory", "hosts.yaml", "--engine", "local")
    assert done.returncode == 3 and "error: host a: there is no node 'broker-7'; the nodes are " in done.stderr
    done = stormproof(tmp_path, "run", "scenario.yaml", "--on", "sim", "--inventory", "x", "--engine", "local")
    assert done.returncode == 3 and "--inventory is for --on ssh" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_host_without_a_connection_is_lost() -> None:
    with pytest.raises(HostLost):
        SshHost(Host(host="h", name="h"), "run", node_wheel()).call("status", nodes=[])
