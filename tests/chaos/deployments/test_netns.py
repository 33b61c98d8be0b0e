"""Nodes in network namespaces: links that the kernel rules, made by an ordinary user, and gone when the run is.

What holds on every deployment is in ``test_process.py``; scenarios on all of them are in ``test_agreement.py``.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from chaos.deployment import (
    CanKill,
    CanPause,
    CanProbe,
    CanRuleLinks,
    CanSkewClocks,
    CanTellCuts,
    CanWipe,
    Deployment,
)
from chaos.deployments import netns
from chaos.driver import Disconnected
from chaos.effects.links import HARNESS, PASS, Delay, Drop, Duplicate, LinkRule, Reach, Reset, Stall, Throttle
from chaos.errors import DeploymentError, MachineError
from chaos.fault import NotNow, Verb, pressed
from chaos.history.directory import runs
from chaos.machines import iptables
from chaos.machines.lifecycle import trials
from chaos.node import NodeSpec
from chaos.plain import PlainMessage
from tests.chaos.deployments.storms import EFFECTIVE, ROOT, STORM, effective
from tests.chaos.deployments.test_process import ECHO, FORWARD, SYNC_FIRST, WRITE, World, harness_environment, left_of
from tests.ordinary_user import as_ordinary_user, folder_of_an_ordinary_user

pytestmark = pytest.mark.netns
ZERO, ONE, ALL = frozenset({"toy-0"}), frozenset({"toy-1"}), frozenset({"*"})
#: TCP sends again what a cut has held back after as long a time as the cut has lasted, at most.
AGAIN_S = 5.0
SHORTER = STORM[: STORM.index("  - switch")].replace("duration: 12s", "duration: 9s")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World("netns", tmp_path / f"run-{os.getpid()}-{time.monotonic_ns()}")


async def forwards(world: World, to: str = "toy-1", within_s: float = 0.5) -> bool:
    """Whether toy-0 can ask another one."""
    connection = world.deployment.connect("client", "toy-0")
    try:
        return not (await connection.request(PlainMessage(kind=FORWARD, fields={"to": to}), within_s)).error
    except TimeoutError:
        return False


def test_a_cut_holds_until_it_goes_also_for_newcomers_and_the_harness_still_sees_all(world: World) -> None:
    async def script(world: World) -> None:
        it = world.deployment
        for power in (Deployment, CanKill, CanPause, CanWipe, CanRuleLinks, CanProbe, CanSkewClocks):
            assert isinstance(it, power)
        assert await forwards(world)
        await it.set_rule("cut", LinkRule(ZERO, ALL, Drop(), but=frozenset({"client", HARNESS})))
        assert not await forwards(world) and await it.rule_hits("cut") > 0
        assert not await it.reaches("toy-0", "toy-1") and not await it.reaches("toy-1", "toy-0")
        assert await it.reaches(HARNESS, "toy-0") and await it.answers("toy-1")
        await it.add(NodeSpec(name="toy-2", role="toy", package="toy_nodes"))
        assert not await it.reaches("toy-0", "toy-2") and await it.reaches("toy-2", "toy-1")
        for _ in range(2):
            await world.undo(Verb.CLEAR_RULE, "cut")
        assert await it.reaches("toy-0", "toy-1") and await forwards(world, "toy-2", AGAIN_S)
        with pytest.raises(DeploymentError, match="can't carry out"):
            await it.set_rule("late", LinkRule(ZERO, ONE, Delay(1_000_000)))

    world.run(script)
    assert left_of(world.directory) == []


def test_a_cut_is_believed_at_once_and_only_while_its_rule_stops_packets(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "REACH_S", 60.0)

    async def script(world: World) -> None:
        it = world.deployment
        nodes = "toy-0", "toy-1"
        assert isinstance(it, CanTellCuts) and await it.try_link(*nodes) is Reach.WORKS
        for sources, targets in ((ZERO, ONE), (ONE, ZERO)):  # also when only the answers are cut off
            await it.set_rule("cut", LinkRule(sources, targets, Drop()))
            began_s = time.monotonic()
            assert await it.try_link(*nodes) is Reach.CUT and await it.rule_hits("cut") > 0
            assert time.monotonic() - began_s < 30.0, "nobody waited for what can't come"
        for sources, action in ((frozenset({"toy-9"}), Drop()), (ZERO, Stall(1, 1)), (ZERO, PASS)):
            await it.set_rule("cut", LinkRule(sources, ONE, action))
            assert await it.try_link(*nodes) is Reach.WORKS, "a rule that matches nothing, or next to nothing"
        await it.set_rule("cut", LinkRule(ZERO, ONE, Drop()))
        await taken_away_behind_our_back(it)
        assert await it.try_link(*nodes) is Reach.WORKS
        await it.kill("toy-1")
        assert await it.try_link(*nodes) is Reach.FAILS, "its peer is dead, and no rule stops anything"
        for _ in range(2):
            await world.undo(Verb.CLEAR_RULE, "cut")
        await it.set_rule("cut", LinkRule(ZERO, ONE, Drop()))
        assert await it.try_link(*nodes) is Reach.CUT, "the way to a dead peer can be cut"
        await it.set_rule("cut", LinkRule(ZERO, ONE, Reset()))
        assert await it.try_link(*nodes) is Reach.CUT and await it.try_link("client", "toy-1") is Reach.FAILS

    world.run(script)


async def taken_away_behind_our_back(it: Any) -> None:
    """Somebody else removes what leads to the rules of a run, and what is in them."""
    for node in ("toy-0", "toy-1"):
        _, saved = await it._fleet.run_as_root(node, iptables.saving("iptables-nft"), "")
        cuts = [line for line in saved.splitlines() if line.startswith("-A") and line.endswith("DROP")]
        lines = [line.replace("-A", "-D", 1) for line in cuts]
        batch = "\n".join(("*filter", *lines, "COMMIT", ""))
        assert await it._fleet.run_as_root(node, iptables.restore("iptables-nft"), batch) == (0, "")


def test_nodes_are_killed_paused_and_pressed_as_processes_are(world: World) -> None:
    async def script(world: World) -> None:
        it = world.deployment
        await world.ask("toy-1", WRITE, b"kept.", sync=SYNC_FIRST)
        with socket.create_connection(it.expose("anyone", "toy-1"), timeout=2):
            pass
        await it.kill("toy-1")
        with pytest.raises(Disconnected) as refused:
            await world.ask("toy-1", ECHO, by="newcomer")
        assert not refused.value.sent and not await it.answers("toy-1")
        assert not await it.reaches("client", "toy-1") and not await it.reaches("toy-0", "toy-1")
        await world.undo(Verb.START, "toy-1")
        assert (await it.pause("toy-1"))["state"] == "T" and await world.silent("toy-1")
        await world.undo(Verb.RESUME, "toy-1")
        shown = await it.limit_memory("toy-1", 64)
        assert int(str(shown["limit"])) > 0
        with pytest.raises(NotNow, match="already"):
            await it.limit_memory("toy-1", 64)
        await world.undo(Verb.RELEASE, pressed("toy-1", "memory"))
        assert await forwards(world, within_s=AGAIN_S)

    world.run(script)
    assert left_of(world.directory) == []


@pytest.mark.full
@pytest.mark.parametrize("action", [Stall(300, 50_000_000), Throttle(200_000), Reset(1000), Duplicate(500, 0)])
def test_the_kernel_does_what_the_filter_of_an_ordinary_user_asks(world: World, action: object) -> None:
    async def script(world: World) -> None:
        it = world.deployment
        await it.set_rule("rule", LinkRule(ZERO, ONE, action))  # type: ignore[arg-type]
        for _ in range(10):
            try:
                await world.ask("toy-0", FORWARD, bytes(100_000), to="toy-1")
            except (TimeoutError, Disconnected):
                pass
        assert await it.rule_hits("rule") > 0
        await world.undo(Verb.CLEAR_RULE, "rule")
        assert await forwards(world, within_s=AGAIN_S)

    world.run(script)


HARNESS_SCRIPT = """
import asyncio, sys
from pathlib import Path
from tests.chaos.deployments.test_process import toys
from chaos.deployments import netns

async def main():
    directory = Path({directory!r})
    deployment = netns.create(run_id=directory.name, directory=directory, seed=1)
    await deployment.start(toys(), lambda row: None)
    await deployment.pause("toy-0")
    print("paused", flush=True)
    await asyncio.sleep(60)
    return 0

netns.create(run_id="x", directory=Path({directory!r}), seed=1).execute(main())
"""


@pytest.mark.usefixtures("abandoned")
def test_heal_ends_what_a_killed_harness_left_and_the_namespaces_go_with_it(tmp_path: Path) -> None:
    directory = tmp_path / f"run-{os.getpid()}-{time.monotonic_ns()}"
    script = HARNESS_SCRIPT.format(directory=str(directory))
    with subprocess.Popen(
        [sys.executable, "-c", script], env=harness_environment(), stdout=subprocess.PIPE, text=True
    ) as popen:
        assert popen.stdout is not None and popen.stdout.readline() == "paused\n"
        (sentence,) = netns.heal(directory)
        assert sentence.endswith(f"is still driven by process {popen.pid}; stop that first")
        popen.kill()
    left = left_of(directory)
    networks = {os.readlink(f"/proc/{process.pid}/ns/net") for process in left}
    assert len(left) == len(networks) == 3, "the supervisor and each node are in a namespace of their own"
    done = netns.heal(directory)
    assert len(done) == 3 and sum("ended the node toy-0" in one and "stopped" in one for one in done) == 1
    assert sum("ended the supervisor" in one for one in done) == 1
    assert left_of(directory) == [] and netns.heal(directory) == [] and not networks & namespaces()


def namespaces() -> set[str]:
    """The network namespaces of all processes."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            found.add(os.readlink(entry / "ns" / "net"))
        except OSError:
            pass
    return found


def test_a_storm_of_an_ordinary_user_is_valid_with_every_fault_proven() -> None:
    with folder_of_an_ordinary_user() as folder:
        (folder / "storm.yaml").write_text(SHORTER)
        done = as_ordinary_user(
            folder, *("-P", "-m", "stormproof", "run", "storm.yaml", "--on", "netns", "--engine", "local", "--json")
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (run,) = runs(folder / "runs")
        assert effective(run) == {name: True for name in EFFECTIVE if name in SHORTER}
        assert left_of(run) == []


@pytest.mark.full
@pytest.mark.skipif(os.geteuid() != 0, reason="it is an ordinary user who runs the tests already")
def test_all_of_this_holds_for_an_ordinary_user() -> None:
    kit = ROOT / "tests/chaos/testing/test_deployments.py"
    with folder_of_an_ordinary_user() as folder:
        words = ["-m", "pytest", "-p", "no:cacheprovider", "-q", "--basetemp", str(folder / "tests"), "-m", "netns"]
        done = as_ordinary_user(folder, *words, "-k", "not ordinary_user", str(Path(__file__)), str(kit))
        assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr
        assert "skipped" not in done.stdout.splitlines()[-1], done.stdout


#: A program that may have no namespaces, as where they are forbidden; who it is has its number inside too.
FORBIDDEN = """
import ctypes, os, runpy, sys
libc, user, group = ctypes.CDLL(None), os.getuid(), os.getgid()
assert libc.unshare(0x10000000) == 0
for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
    open(f"/proc/self/{name}", "w").write(text)
open("/proc/sys/user/max_user_namespaces", "w").write("0")
os.execv(sys.executable, [sys.executable, "-P", "-m", *sys.argv[1:]])
"""


@pytest.mark.full
def test_where_namespaces_are_forbidden_one_sentence_says_what_else_works() -> None:
    with folder_of_an_ordinary_user() as folder:
        (folder / "storm.yaml").write_text(STORM)
        done = as_ordinary_user(folder, "-c", FORBIDDEN, "stormproof", "run", "storm.yaml", "--on", "netns")
        assert done.returncode == 3 and "Traceback" not in done.stderr, done.stderr
        assert "gives an ordinary user no network namespaces" in done.stderr
        assert "`--on process`" in " ".join(done.stderr.split())
        assert not (folder / "runs").exists(), "before anything was written"


def test_it_is_tried_whether_an_ordinary_user_may_have_namespaces() -> None:
    with folder_of_an_ordinary_user() as folder:
        found = json.loads(as_ordinary_user(folder, "-c", FORBIDDEN, "chaos.machines.netns.trial").stdout)
        assert "max_user_namespaces" in found["problem"]
        assert "netem" in json.loads(as_ordinary_user(folder, "-m", "chaos.machines.netns.trial").stdout)


def test_tools_that_are_missing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from chaos.machines.netns import namespaces as made

    monkeypatch.setattr(made, "where_is", lambda tool: None)
    with pytest.raises(MachineError, match="apt-get install iproute2 iptables"):
        made.World(tmp_path / "lock")
