"""What is done to the machines of nodes in containers: it is felt in each life until it is released, and not after."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
from toy_nodes import ECHO, READ, SYNC_FIRST, SYNC_NOT, WRITE

from chaos.deployment import CanHangIo, CanLimitDescriptors, CanLimitMemory, CanLoseUnsynced, CanRuleDisks
from chaos.driver import Disconnected
from chaos.effects.disks import DiskRule, FailSync, Full, SlowDisk
from chaos.fault import NotNow, Verb, pressed
from tests.chaos.deployments.test_docker import AGAIN_S, World, effective, left_of, stormproof

pytestmark = pytest.mark.docker


@pytest.fixture
def world(engine: Any, tmp_path: Path) -> World:
    return World(engine, tmp_path / f"run-{os.getpid()}-{time.monotonic_ns()}")


async def write(world: World, body: bytes, sync: str = SYNC_FIRST) -> None:
    await world.ask("toy-0", WRITE, body, sync=sync)


def test_a_disk_obeys_its_rules_over_all_lives_and_what_a_node_ended_of_is_no_crash(world: World) -> None:
    async def script(world: World) -> None:
        it = world.deployment
        assert isinstance(it, CanRuleDisks) and isinstance(it, CanLoseUnsynced)
        await write(world, b"kept.")
        await it.set_disk_rule("slow", DiskRule("toy-0", SlowDisk(400_000_000)))
        began_s = time.monotonic()
        await write(world, b"late.")
        assert time.monotonic() - began_s >= 0.4 and await it.disk_rule_hits("slow") == 1
        await world.undo(Verb.CLEAR_DISK, "slow")
        for bad, action in {"torn": FailSync(), "full": Full()}.items():
            await it.set_disk_rule(bad, DiskRule("toy-0", action))
            for life in (1, 2):
                with pytest.raises(Disconnected):
                    await write(world, b"never acknowledged.")
                assert await it.disk_rule_hits(bad) == life
                if life == 1:
                    await asyncio.sleep(0.3)
                    await world.undo(Verb.START, "toy-0")
            for _ in range(2):
                await world.undo(Verb.CLEAR_DISK, bad)
            await world.undo(Verb.START, "toy-0")
        await write(world, b"lost.", SYNC_NOT)
        assert (await it.lose_unsynced("toy-0"))["alive"] is False
        await world.undo(Verb.START, "toy-0")
        found = (await world.ask("toy-0", READ)).body
        assert found.startswith(b"kept.late.") and b"lost." not in found
        assert it.crashes == ()

    world.run(script)


@pytest.mark.full
def test_syncs_hang_until_they_are_released_also_in_the_next_life(world: World) -> None:
    async def script(world: World) -> None:
        it = world.deployment
        assert isinstance(it, CanHangIo)
        await it.hang_io("toy-0")
        with pytest.raises(NotNow, match="already"):
            await it.hang_io("toy-0")
        await it.kill("toy-0")
        await world.undo(Verb.START, "toy-0")
        waiting = asyncio.ensure_future(world.ask("toy-0", WRITE, b"late.", sync=SYNC_FIRST, within_s=AGAIN_S))
        await asyncio.sleep(0.3)
        assert not waiting.done() and (await world.ask("toy-1", ECHO)).error == ""
        for _ in range(2):
            await world.undo(Verb.RELEASE, pressed("toy-0", "io"))
        await waiting
        assert (await world.ask("toy-0", READ)).body == b"late." and it.crashes == ()

    world.run(script)


@pytest.mark.full
def test_a_node_out_of_descriptors_makes_no_new_connections_also_when_it_was_paused_meanwhile(world: World) -> None:
    async def script(world: World) -> None:
        it = world.deployment
        assert isinstance(it, CanLimitDescriptors)
        await world.ask("toy-0", ECHO)
        proof = await it.limit_descriptors("toy-0")
        assert 0 < int(str(proof["limit"])) <= int(str(proof["open"]))
        assert not await it.answers("toy-0") and await it.answers("toy-1")
        assert (await world.ask("toy-0", ECHO)).error == "", "the connection that there was serves on"
        await it.pause("toy-0")
        await world.undo(Verb.RELEASE, pressed("toy-0", "descriptors"))
        with pytest.raises(NotNow, match="paused"):
            await it.limit_descriptors("toy-0")
        await world.undo(Verb.RESUME, "toy-0")
        deadline_s = time.monotonic() + AGAIN_S
        while not await it.answers("toy-0"):
            assert time.monotonic() < deadline_s
        assert it.crashes == ()

    world.run(script)


def test_a_node_without_memory_may_end_and_starts_with_as_little(world: World) -> None:
    async def script(world: World) -> None:
        it = world.deployment
        assert isinstance(it, CanLimitMemory)

        async def fill() -> None:
            for _ in range(200):
                await world.ask("toy-0", WRITE, bytes(100_000), sync=SYNC_NOT)

        proof = await it.limit_memory("toy-0", 2)
        assert proof["limit"] == int(str(proof["address_space"])) + 2 * 1024 * 1024
        for _ in range(2):
            with pytest.raises(Disconnected):
                await fill()
            try:
                await it.kill("toy-0")  # it has lost no more than that connection
            except NotNow:
                pass
            await world.undo(Verb.START, "toy-0")
        await world.undo(Verb.RELEASE, pressed("toy-0", "memory"))
        await fill()
        await it.kill("toy-1")
        with pytest.raises(NotNow, match="not running"):
            await it.limit_memory("toy-1", 2)
        assert it.crashes == ()

    world.run(script)


@pytest.mark.full
def test_bad_disks_in_containers_are_valid_with_every_fault_proven(engine: Any, tmp_path: Path) -> None:
    words = [
        "run",
        "bad_disks",
        "--on",
        "docker",
        "--engine",
        "local",
        "--json",
    ]
    done = stormproof(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    assert all(effective(run).values()) and left_of(engine, run.resolve()) == []
