"""Disks that change behind the back of a node: what it finds at its next start, and when that can't be done."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from chaos.deployments._base import CanHarmDisks, CanRollBackDisks
from chaos.fault import NotNow, Verb
from chaos.harm import Harm, Kind
from tests.deployments.test_process import World
from tests.deployments.toy_nodes import READ, SYNC_FIRST, SYNC_NOT, WRITE

pytestmark = pytest.mark.process
FLIP = Harm(kind=Kind.FLIP, draw=3, count=2)


@pytest.fixture(params=["sim", "process"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(request.param, tmp_path / f"run-{os.getpid()}-{time.monotonic_ns()}")


async def write(world: World, body: bytes, sync: str = SYNC_FIRST) -> None:
    await world.ask("toy-0", WRITE, body, sync=sync)


async def read(world: World) -> bytes:
    return (await world.ask("toy-0", READ)).body


def test_old_bytes_change_and_young_ones_stay(world: World) -> None:
    async def script(world: World) -> None:
        assert isinstance(world.deployment, CanHarmDisks)
        await write(world, b"old." * 10)
        marked = await world.deployment.mark_disk("toy-0")
        await write(world, b"young.")
        proof = await world.deployment.harm_disk("toy-0", marked, FLIP)
        assert proof["alive"] is False and len(proof["harmed"]) == 2
        await world.undo(Verb.START, "toy-0")
        content = await read(world)
        found = [at for at, byte in enumerate(content) if byte != (b"old." * 10 + b"young.")[at]]
        assert found == sorted(change["offset"] for change in proof["harmed"]) and max(found) < 40
        marked = await world.deployment.mark_disk("toy-0")
        await world.deployment.harm_disk("toy-0", marked, Harm(kind=Kind.CUT, draw=1, files="folder/*"))
        await world.undo(Verb.START, "toy-0")
        shorter = await read(world)
        assert len(shorter) < 46 and content.startswith(shorter)
        await write(world, b"more.")
        assert await read(world) == shorter + b"more."

    world.run(script)
    assert not world.deployment.crashes


def test_only_a_node_that_has_lived_on_is_harmed(world: World) -> None:
    async def script(world: World) -> None:
        marked = await world.deployment.mark_disk("toy-0")
        await write(world, b"young.")
        with pytest.raises(NotNow, match="old enough"):
            await world.deployment.harm_disk("toy-0", marked, FLIP)
        for attempt in (world.deployment.mark_disk, world.deployment.copy_disk, world.deployment.roll_back_disk):
            with pytest.raises(NotNow, match="not running"):
                await attempt("toy-0")
        with pytest.raises(NotNow, match="when its disk was marked"):
            await world.deployment.harm_disk("toy-0", marked, FLIP)
        await world.undo(Verb.START, "toy-0")
        with pytest.raises(NotNow, match="when its disk was marked"):
            await world.deployment.harm_disk("toy-0", marked, FLIP)
        assert await read(world) == b"young."

    world.run(script)


def test_a_disk_goes_back_in_time(world: World) -> None:
    async def script(world: World) -> None:
        assert isinstance(world.deployment, CanRollBackDisks)
        await write(world, b"then.")
        copied = await world.deployment.copy_disk("toy-0")
        assert copied["alive"] is False and copied["copied"]["changed"] == 1
        await world.undo(Verb.START, "toy-0")
        with pytest.raises(NotNow, match="still holds"):
            await world.deployment.roll_back_disk("toy-0")
        await world.undo(Verb.START, "toy-0")
        await write(world, b"since.")
        await write(world, b"lost in any case.", SYNC_NOT)
        told = await world.deployment.roll_back_disk("toy-0")
        assert told["put_back"] == {"files": 1, "changed": 1, "names": ["folder/log"]}
        await world.undo(Verb.START, "toy-0")
        assert await read(world) == b"then."
        await write(world, b"now.")
        assert await read(world) == b"then.now."

    world.run(script)
    assert not world.deployment.crashes
