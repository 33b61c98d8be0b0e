"""Clocks of nodes that are processes: the wall clock jumps and nothing else does, the monotonic one never runs back."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from toy_nodes import ECHO, SYNC_FIRST, WRITE

from chaos.deployment import CanSkewClocks
from chaos.errors import MachineError
from chaos.fault import NotNow, Verb
from chaos.history.directory import runs
from chaos.machines.docker.engine import image_name
from chaos.machines.real_time import ask_clocks
from chaos.shell import clocks as _clocks
from chaos.shell.clocks import Clocks, Skew
from chaos.shell.node_files import put
from chaos.tasks import gather
from tests.chaos.deployments.storms import effective, judged, said
from tests.chaos.deployments.test_docker import World

S = 10**9


def test_a_clock_that_drifts_goes_on_from_where_it_is_and_never_back(tmp_path: Path) -> None:
    file = tmp_path / "clock"
    put(file, Skew().content())
    clocks = Clocks(file)
    seen = [clocks.mono_ns()]
    for ppm in (500_000, -900_000, 0):
        put(file, Skew(drift_ppm=ppm).content())
        before_ns = time.monotonic_ns()
        seen.append(clocks.mono_ns())
        least_ns = -time.monotonic_ns()
        time.sleep(0.05)
        least_ns += time.monotonic_ns()
        seen.append(clocks.mono_ns())
        most_ns = time.monotonic_ns() - before_ns
        speed = 1 + ppm / 1e6
        assert least_ns * speed - S / 1000 < seen[-1] - seen[-2] < most_ns * speed + S / 1000
        assert clocks.true_s(S) == pytest.approx(1 / (1 + ppm / 1e6))
        assert json.loads(clocks.to_json())["drift_ppm"] == ppm
    assert seen == sorted(seen) and clocks.true_s(-1) == 0
    file.unlink()
    assert clocks.mono_ns() >= seen[-1], "what it said last still holds"


def test_clocks_that_are_left_alone_are_the_systems() -> None:
    clocks = Clocks(None)
    before = time.monotonic_ns(), time.time_ns()
    assert before[0] <= clocks.mono_ns() <= time.monotonic_ns() and before[1] <= clocks.wall_ns() <= time.time_ns()
    assert clocks.true_s(S) == 1


def test_jumps_add_up_and_no_clock_stands_still() -> None:
    skew = Skew().after(jump_ns=-3 * S, drift_ppm=7).after(jump_ns=S, drift_ppm=-2_000_000)
    assert skew == Skew(-2 * S, -900_000)
    assert skew.content() == b"# drift_ppm -900000\n-2.000000000\n"


def test_to_rest_takes_its_time_and_no_descriptor() -> None:
    begin_s = time.monotonic()
    _clocks.sleep(0.05)
    assert 0.05 <= time.monotonic() - begin_s < 1


SEES = """\
import os, sys, threading, time
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from chaos.shell import clocks, node_files
clocks.leave_nothing_shared()
def work():
    while True:
        pass
for jump_s in (0, 3600, -60):
    node_files.put(Path(sys.argv[1]), clocks.Skew(jump_s * 10**9).content())
    begin = time.monotonic()
    clocks.sleep(0.05)
    print(round(time.time() - float(sys.argv[2])), 0.05 <= time.monotonic() - begin < 1)
threading.Thread(target=work, daemon=True).start()
before = getrusage(RUSAGE_SELF)
sum(range(3 * 10**7))
used = getrusage(RUSAGE_SELF)
print(used.ru_utime - before.ru_utime, used.ru_stime - before.ru_stime)
print(*os.listdir("/dev/shm"))
"""


@pytest.mark.docker
def test_a_program_sees_its_wall_clock_jump_and_nothing_else_change(engine: Any) -> None:
    file = "/dev/shm/clock"
    words = ["-c", SEES, file, str(time.time())]
    environment = _clocks.environment(file)
    said = engine.containers.run(image_name(), words, entrypoint=["python3"], environment=environment, remove=True)
    *seen, (own_s, systems_s), shared = [line.split() for line in said.decode().splitlines()]
    assert [good for _, good in seen] == ["True"] * 3
    assert [int(jump) for jump, _ in seen] == pytest.approx([0, 3600, -60], abs=20)
    assert float(systems_s) < float(own_s) / 3, "a thread that waits for Python's lock waits"
    assert shared == ["clock"], "a kill leaves nothing in memory"


@pytest.mark.full
@pytest.mark.docker
def test_clocks_in_containers_jump_and_drift_over_the_lives_of_a_node(engine: Any, tmp_path: Path) -> None:
    async def script(world: World) -> None:
        it = world.deployment
        assert isinstance(it, CanSkewClocks)

        async def off_s(node: str) -> float:
            told = await ask_clocks(*it.expose("client", node), 2.0)
            return (told["wall_ns"] - time.time_ns()) / 1e9

        async def rate(node: str) -> float:
            where = it.expose("client", node)
            before, begin_ns = await ask_clocks(*where, 2.0), time.monotonic_ns()
            await asyncio.sleep(0.5)
            after, end_ns = await ask_clocks(*where, 2.0), time.monotonic_ns()
            return (after["mono_ns"] - before["mono_ns"]) / (end_ns - begin_ns)

        assert abs(await off_s("toy-0")) < 1 and await rate("toy-0") == pytest.approx(1, abs=0.1)
        proof = await it.set_clock("toy-0", jump_ns=3600 * S, drift_ppm=500_000)
        assert abs(int(str(proof["wall_after_ns"])) - int(str(proof["wall_before_ns"])) - 3600 * S) < S
        assert proof["drift_ppm"] == 500_000 and await rate("toy-0") == pytest.approx(1.5, abs=0.15)
        await it.set_clock("toy-0", jump_ns=-60 * S)
        assert await off_s("toy-0") == pytest.approx(3540, abs=1) and abs(await off_s("toy-1")) < 1
        jumps = await gather(*(it.set_clock("toy-0", jump_ns=way * 30 * S) for way in (1, -1, 1, -1)))
        assert [round(int(str(jump["jumped_ns"])) / S) for jump in jumps] == [30, -30, 30, -30]
        await world.ask("toy-0", WRITE, b"kept.", sync=SYNC_FIRST)
        await it.pause("toy-0")
        with pytest.raises(NotNow, match="does not report"):
            await it.set_clock("toy-0", jump_ns=S)
        await it.kill("toy-0")
        await world.undo(Verb.START, "toy-0")
        assert await off_s("toy-0") == pytest.approx(3541, abs=1)
        for _ in range(2):
            await world.undo(Verb.RESET_CLOCK, "toy-0")
        assert abs(await off_s("toy-0")) < 1 and await rate("toy-0") == pytest.approx(1, abs=0.1)
        assert (await world.ask("toy-0", ECHO)).error == "" and it.crashes == ()

    world = World(engine, tmp_path / f"run-{os.getpid()}-{time.monotonic_ns()}")
    world.deployment.expect_skewed_clocks()
    world.run(script)


@pytest.mark.docker
def test_an_image_without_libfaketime_is_told_before_a_node_starts(
    engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(world: World) -> None:
        raise AssertionError("it never gets here")

    world = World(engine, tmp_path / f"run-{os.getpid()}-{time.monotonic_ns()}")
    world.deployment.expect_skewed_clocks()
    monkeypatch.setattr("chaos.machines.docker.node.NodeContainers.succeeds", lambda self, command: False)
    with pytest.raises(MachineError, match=r"has no libfaketime, .*`stormproof image`.*`on: \[sim\]`"):
        world.run(never)
    assert world.containers() == [] and not list((world.directory / "traces").iterdir())


SKEWED = """\
name: skewed
system: {reference: {controllers: 3, brokers: 3, queues: 2}}
duration: 14s
workloads:
  - queue: {producers: 2, consumers: 1, rate_per_s: 60}
faults:
  - clock: {target: master}
    at: 1s
    for: 4s
  - strobe: {target: controller_leader}
    at: 3s
    for: 4s
  - kill: {target: master}
    at: 8s
    for: 1s
  - clock: {target: all, jump_s: 3600, drift_ppm: 200000}
    at: 7s
    for: 4s
"""


@pytest.mark.docker
@pytest.mark.full
def test_a_run_with_skewed_clocks_in_containers_is_valid(engine: Any, tmp_path: Path) -> None:
    found = judged(tmp_path, SKEWED, "--on", "docker")
    assert found["verdict"] == "VALID", said(found)
    (run,) = runs(tmp_path / "runs")
    assert effective(run) == dict.fromkeys(("clock", "strobe", "kill"), True)
