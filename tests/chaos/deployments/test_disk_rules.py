"""Disks that fail by a rule: what the node sees, what is left of it, and that a sound disk goes on as before."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from random import Random

import pytest
from toy_nodes import ECHO, READ, SYNC_FIRST, SYNC_NOT, WRITE

from chaos.deployment import CanLoseUnsynced, CanRuleDisks, CanTearWrites
from chaos.driver import Disconnected
from chaos.effects.disks import (
    DiskAction,
    DiskRule,
    DiskRules,
    FailReads,
    FailSync,
    Full,
    SlowDisk,
    Tear,
    from_json,
    to_json,
)
from chaos.fault import NotNow, Verb
from tests.chaos.deployments import damage
from tests.chaos.deployments.test_process import World

pytestmark = pytest.mark.process


@pytest.fixture(params=["sim", "process"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(request.param, tmp_path / f"run-{os.getpid()}-{time.monotonic_ns()}")


async def write(world: World, body: bytes, sync: str = SYNC_FIRST) -> None:
    await world.ask("toy-0", WRITE, body, sync=sync)


async def rule(world: World, rule_id: str, action: DiskAction) -> None:
    await world.deployment.set_disk_rule(rule_id, DiskRule("toy-0", action))


async def back(world: World, rule_id: str) -> bytes:
    """Clear the rule and start the node; what is in its log then."""
    await world.undo(Verb.CLEAR_DISK, rule_id)
    await world.undo(Verb.START, "toy-0")
    return (await world.ask("toy-0", READ)).body


@pytest.mark.parametrize("action", [FailSync(), Full(), FailReads(1000)])
def test_a_node_whose_disk_fails_ends_and_has_not_crashed_of_its_own(world: World, action: DiskAction) -> None:
    async def script(world: World) -> None:
        await write(world, b"kept.")
        assert await world.deployment.disk_rule_hits("r") == 0
        await rule(world, "r", action)
        await rule(world, "later", action)
        assert (await world.ask("toy-1", ECHO)).error == ""
        with pytest.raises(Disconnected):
            if isinstance(action, FailReads):
                await world.ask("toy-0", READ)
            else:
                await write(world, b"never acknowledged.")
        assert [await world.deployment.disk_rule_hits(one) for one in ("r", "later")] == [1, 1], "both would do it"
        await world.undo(Verb.CLEAR_DISK, "later")
        assert (await back(world, "r")).startswith(b"kept.")
        await world.undo(Verb.CLEAR_DISK, "r")
        await write(world, b"more.")
        assert (await world.ask("toy-0", READ)).body.endswith(b"more.")

    world.run(script)
    assert not world.deployment.crashes


def test_a_mistake_of_its_own_is_a_crash_on_a_bad_disk_too(world: World) -> None:
    async def script(world: World) -> None:
        await rule(world, "r", FailSync())
        with pytest.raises(Disconnected):
            await world.ask("toy-0", 5)
        await asyncio.sleep(0.2)

    world.run(script)
    assert len(world.deployment.crashes) == 1


def test_syncs_last_longer_on_a_slow_disk(world: World) -> None:
    async def script(world: World) -> None:
        await write(world, b"quick.")
        await rule(world, "r", SlowDisk(400_000_000))
        began = world.deployment.now_ns()
        await write(world, b"slow.")
        assert world.deployment.now_ns() - began >= 400_000_000
        assert await world.deployment.disk_rule_hits("r") == 1
        assert await back(world, "r") == b"quick.slow."
        assert await world.deployment.disk_rule_hits("nobody's") == 0

    world.run(script)


def test_syncs_that_wait_behind_a_slow_one_are_fast_once_the_rule_is_gone(world: World) -> None:
    async def script(world: World) -> None:
        await rule(world, "r", SlowDisk(400_000_000))
        began = world.deployment.now_ns()
        writes = [asyncio.create_task(write(world, b"behind.")) for _ in range(8)]
        await asyncio.sleep(0.2)
        await world.undo(Verb.CLEAR_DISK, "r")
        await asyncio.gather(*writes)
        assert 400_000_000 <= world.deployment.now_ns() - began < 1_600_000_000

    world.run(script)


def test_a_rule_lasts_over_the_lives_of_a_node(world: World) -> None:
    async def script(world: World) -> None:
        await rule(world, "r", FailSync())
        for _ in range(2):
            with pytest.raises(Disconnected):
                await write(world, b"never.")
            await asyncio.sleep(0.3)
            await world.undo(Verb.START, "toy-0")
        assert await world.deployment.disk_rule_hits("r") == 2
        await back(world, "r")

    world.run(script)


def test_all_that_was_not_synced_is_lost_at_once(world: World) -> None:
    async def script(world: World) -> None:
        assert isinstance(world.deployment, CanLoseUnsynced) and isinstance(world.deployment, CanRuleDisks)
        await write(world, b"kept.")
        await write(world, b"lost.", SYNC_NOT)
        proof = await world.deployment.lose_unsynced("toy-0")
        assert proof["alive"] is False
        with pytest.raises(NotNow):
            await world.deployment.lose_unsynced("toy-0")
        await world.undo(Verb.START, "toy-0")
        assert (await world.ask("toy-0", READ)).body == b"kept."

    world.run(script)


def test_a_torn_write_is_there_in_parts(tmp_path: Path) -> None:
    found: set[bytes] = set()

    async def script(world: World) -> None:
        assert isinstance(world.deployment, CanTearWrites)
        await write(world, bytes(512))
        with pytest.raises(NotNow, match="synced all"):
            await world.deployment.tear_writes("toy-0")
        for _ in range(40):
            await write(world, b"x" * 2048, SYNC_NOT)
            await world.deployment.tear_writes("toy-0")
            await world.undo(Verb.START, "toy-0")
            found.add((await world.ask("toy-0", READ)).body)

    World("sim", tmp_path).run(script)
    assert all(content.startswith(bytes(512)) for content in found), "what was synced stays"
    assert any(b"\0x" in content[512:] or b"x\0" in content[512:] for content in found), "a hole in what was written"


def test_a_sync_of_a_process_is_torn_and_the_process_with_it(tmp_path: Path) -> None:
    world = World("process", tmp_path / f"run-{os.getpid()}-{time.monotonic_ns()}")
    world.run(damage.a_sync_is_torn)
    assert not world.deployment.crashes


def test_rules_travel_as_json_and_all_of_them_act() -> None:
    actions = [Full(), SlowDisk(7), FailSync(), FailReads(3), Tear(9)]
    assert [from_json(to_json(action)) for action in actions] == actions
    rules = DiskRules()
    for number, action in enumerate([SlowDisk(5), *actions]):
        rules.put_up(f"r{number}", action)
    assert rules.latency_ns() == 5 + 7 and rules.refuses_growth() and rules.fails_sync()
    assert rules.tears_sync() == 9
    assert rules.hits == {"r0": 1, "r1": 1, "r2": 1, "r3": 1, "r4": 0, "r5": 1}
    rng = Random(1)
    for per_mille in (0, 400):
        rules.put_up("r4", FailReads(per_mille))
        rules.put_up("r5", FailReads(per_mille))
        failed = sum(rules.fails_read(rng) for _ in range(1000))
        assert 0.9 * 640 < failed < 1.1 * 640 if per_mille else failed == 0
    assert failed < rules.hits["r4"] + rules.hits["r5"], "some reads fail for both"
    rules.clear("r0")
    rules.clear("unknown")
    assert rules.latency_ns() == 7 and "r0" not in rules.hits
