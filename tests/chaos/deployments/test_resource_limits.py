"""Pressure on the machine of a node: felt in each of its lives until it is released, and never left behind."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from pathlib import Path

import pytest

from chaos.driver import Disconnected
from chaos.effects.disks import DiskRule, FailSync
from chaos.fault import NotNow, Verb, pressed
from chaos.machines import procfs
from chaos.machines.real_time import until
from chaos.tasks import gather
from tests.chaos.deployments.test_process import COUNT, ECHO, FORWARD, READ, SYNC_FIRST, SYNC_NOT, WRITE, World, left_of

pytestmark = pytest.mark.process


def of_kind(kind: str, tmp_path: Path) -> World:
    return World(kind, tmp_path / f"run-{os.getpid()}-{time.monotonic_ns()}")


def of_node(world: World, node: str) -> list[procfs.Process]:
    """The living processes of a node on this machine."""
    return [found for found in left_of(world.directory) if procfs.environment(found.pid).get(procfs.NODE) == node]


@pytest.mark.parametrize("kind", ["sim", "process"])
def test_syncs_hang_until_they_are_released_also_in_the_next_life(kind: str, tmp_path: Path) -> None:
    async def script(world: World) -> None:
        at_once = await world.ask("toy-0", WRITE, b"a.", sync=SYNC_FIRST)
        assert at_once.fields["held"] == "yes"
        await world.deployment.hang_io("toy-0")
        with pytest.raises(NotNow, match="already"):
            await world.deployment.hang_io("toy-0")
        waiting = asyncio.ensure_future(world.ask("toy-0", WRITE, b"b.", sync=SYNC_FIRST))
        assert not await world.silent("toy-0", by="other"), "it runs on"
        await asyncio.sleep(0.3)
        assert not waiting.done()
        await world.undo(Verb.RELEASE, pressed("toy-0", "io"))
        await waiting
        await world.deployment.hang_io("toy-0")
        await world.deployment.kill("toy-0")
        await world.undo(Verb.START, "toy-0")
        with pytest.raises(TimeoutError):
            await world.ask("toy-0", WRITE, b"c.", sync=SYNC_FIRST)
        for _ in range(2):
            await world.undo(Verb.RELEASE, pressed("toy-0", "io"))
        await world.ask("toy-0", WRITE, b"d.", sync=SYNC_FIRST)
        assert (await world.ask("toy-0", READ)).body == b"a.b.c.d."

    of_kind(kind, tmp_path).run(script)


@pytest.mark.parametrize("kind", ["sim", "process"])
def test_a_node_whose_hung_syncs_all_fail_dies_once_and_nobody_was_refused(kind: str, tmp_path: Path) -> None:
    """Who hears that its connection was refused believes that nothing of it was ever read."""

    async def script(world: World) -> None:
        clients = [f"client-{number}" for number in range(8)]
        await gather(*(world.ask("toy-0", ECHO, by=client) for client in clients))
        await world.deployment.hang_io("toy-0")
        asked = [world.ask("toy-0", WRITE, b"x.", by=client, sync=SYNC_FIRST) for client in clients]
        waiting = [asyncio.ensure_future(one) for one in asked]
        await asyncio.sleep(0.3)
        await world.deployment.set_disk_rule("fails", DiskRule("toy-0", FailSync()))
        await world.undo(Verb.RELEASE, pressed("toy-0", "io"))
        for one in waiting:
            with pytest.raises(Disconnected) as caught:
                await one
            assert caught.value.sent

    of_kind(kind, tmp_path).run(script)


@pytest.mark.parametrize("kind", ["sim", "process"])
def test_a_node_out_of_descriptors_keeps_its_connections_and_makes_no_others(kind: str, tmp_path: Path) -> None:
    async def script(world: World) -> None:
        await gather(*(world.ask("toy-0", ECHO, by=client) for client in ("client", "writer")))
        await world.deployment.limit_descriptors("toy-0")
        assert not await world.deployment.answers("toy-0") and await world.deployment.answers("toy-1")
        assert not await world.silent("toy-0"), "the connection that there was serves on"
        waiting = asyncio.ensure_future(world.ask("toy-0", WRITE, b"kept.", by="writer", sync=SYNC_FIRST))
        await asyncio.sleep(0.3)
        assert not waiting.done(), "a sync opens a file"
        assert (await world.ask("toy-0", FORWARD, to="toy-1")).error, "it can't dial"
        await world.undo(Verb.RELEASE, pressed("toy-0", "descriptors"))
        await waiting
        assert (await world.ask("toy-0", FORWARD, b"far", to="toy-1")).body == b"far"
        await asyncio.sleep(1.2)
        assert await world.deployment.answers("toy-0")
        assert not world.deployment.crashes

    of_kind(kind, tmp_path).run(script)


def test_in_the_simulator_a_crowded_processor_makes_steps_longer(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        async def took_ns() -> int:
            begin_ns = int(world.deployment.now_ns())
            await world.ask("toy-0", COUNT, to="toy-1")
            return int(world.deployment.now_ns()) - begin_ns

        await took_ns()
        free_ns = await took_ns()
        await world.deployment.slow_processor("toy-0", 1)
        assert await took_ns() > free_ns + 500_000
        await world.undo(Verb.RELEASE, pressed("toy-0", "cpu"))
        assert await took_ns() < free_ns + 500_000

    of_kind("sim", tmp_path).run(script)


def test_a_crowded_processor_is_shared_with_others_until_they_are_gone(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        before = len(left_of(world.directory))
        proof = await world.deployment.slow_processor("toy-0", 25)
        node = of_node(world, "toy-0")[0]
        assert len(left_of(world.directory)) == before + 3 == before + proof["spinners"]
        assert os.sched_getaffinity(node.pid) == {proof["processor"]}
        await world.deployment.kill("toy-0")
        await world.undo(Verb.START, "toy-0")
        again = of_node(world, "toy-0")[0]
        assert again != node and os.sched_getaffinity(again.pid) == {proof["processor"]}
        for _ in range(2):
            await world.undo(Verb.RELEASE, pressed("toy-0", "cpu"))
        assert await until(lambda: len(left_of(world.directory)) == before, 5.0)
        assert os.sched_getaffinity(again.pid) == os.sched_getaffinity(0)
        await world.deployment.slow_processor("toy-1", 50)

    assert not left_of(of_kind("process", tmp_path).run(script).directory)


def test_a_node_without_memory_may_end_and_that_is_no_crash_of_its_own(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        def soft() -> int:
            pid = of_node(world, "toy-0")[0].pid
            return resource.prlimit(pid, resource.RLIMIT_AS)[0]

        free = soft()
        proof = await world.deployment.limit_memory("toy-0", 2)
        assert soft() == proof["limit"] == proof["address_space"] + 2 * 1024 * 1024
        with pytest.raises(Disconnected):
            for _ in range(200):
                await world.ask("toy-0", WRITE, bytes(100_000), sync=SYNC_NOT)
        if not await until(lambda: not of_node(world, "toy-0"), 1.0):
            await world.deployment.kill("toy-0")  # it has lost no more than that connection
        with pytest.raises(NotNow, match="already"):
            await world.deployment.limit_memory("toy-0", 2)
        for verb, subject in ((Verb.RELEASE, pressed("toy-0", "memory")), (Verb.START, "toy-0")):
            await world.undo(verb, subject)
        assert soft() == free and not world.deployment.crashes
        await world.deployment.kill("toy-1")
        with pytest.raises(NotNow, match="not running"):
            await world.deployment.limit_memory("toy-1", 2)

    of_kind("process", tmp_path).run(script)
