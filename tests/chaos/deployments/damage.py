"""What every deployment must do to a disk behind the back of its node, as scripts for their tests' worlds of toys."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from toy_nodes import READ, SYNC_FIRST, SYNC_NOT, WRITE

from chaos.deployment import CanHarmDisks, CanRollBackDisks, CanTearWrites
from chaos.driver import Disconnected
from chaos.effects.corruption import Harm, Kind
from chaos.fault import NotNow, Verb

FLIP = Harm(kind=Kind.FLIP, draw=3, count=2)


async def write(world: Any, body: bytes, sync: str = SYNC_FIRST) -> None:
    await world.ask("toy-0", WRITE, body, sync=sync)


async def read(world: Any) -> bytes:
    content: bytes = (await world.ask("toy-0", READ)).body
    return content


async def old_bytes_change_and_young_ones_stay(world: Any) -> None:
    assert isinstance(world.deployment, CanHarmDisks)
    await write(world, b"old." * 10)
    marked = await world.deployment.mark_disk("toy-0")
    await write(world, b"young.")
    proof: Any = await world.deployment.harm_disk("toy-0", marked, FLIP)
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


async def only_a_node_that_has_lived_on_is_harmed(world: Any) -> None:
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


async def a_disk_goes_back_in_time(world: Any) -> None:
    assert isinstance(world.deployment, CanRollBackDisks)
    await write(world, b"then.")
    copied: Any = await world.deployment.copy_disk("toy-0")
    assert copied["alive"] is False and copied["copied"]["changed"] == 1
    await world.undo(Verb.START, "toy-0")
    with pytest.raises(NotNow, match="still holds"):
        await world.deployment.roll_back_disk("toy-0")
    await world.undo(Verb.START, "toy-0")
    await write(world, b"since.")
    await write(world, b"lost in any case.", SYNC_NOT)
    told: Any = await world.deployment.roll_back_disk("toy-0")
    assert told["put_back"] == {"files": 1, "changed": 1, "names": ["folder/log"]}
    await world.undo(Verb.START, "toy-0")
    assert await read(world) == b"then."
    await write(world, b"now.")
    assert await read(world) == b"then.now."


async def a_sync_is_torn(world: Any) -> None:
    """On a strict disk: what was acknowledged stays, whole; of the rest some sectors are there, in some life."""
    it = world.deployment
    assert isinstance(it, CanTearWrites)
    await write(world, bytes(512))
    with pytest.raises(NotNow, match="synced nothing"):
        await it.tear_writes("toy-0")
    assert await read(world) == bytes(512), "it goes on, with a sound disk"
    for _ in range(12):
        kept = await read(world)
        tearing = asyncio.create_task(it.tear_writes("toy-0"))
        with pytest.raises(Disconnected):
            for _ in range(100):
                await write(world, b"x" * 4096)
                kept += b"x" * 4096
        proof = await tearing
        assert proof["torn_syncs"] == 1 and proof["alive"] is False
        with pytest.raises(NotNow, match="not running"):
            await it.tear_writes("toy-0")
        await world.undo(Verb.START, "toy-0")
        after = await read(world)
        assert after.startswith(kept), "what was synced stays"
        torn = after[len(kept) :]
        assert len(torn) <= 4096 and set(torn) <= {0, ord("x")}
        if b"\0x" in torn or b"x\0" in torn:
            return  # a hole in what was written
        await write(world, b"end.")  # what is there now is synced, and acknowledged
    pytest.fail("every time all of it was there, or nothing")


async def all_of_it(world: Any) -> None:
    """One after the other, each on an empty disk."""
    for script in (
        only_a_node_that_has_lived_on_is_harmed,
        old_bytes_change_and_young_ones_stay,
        a_disk_goes_back_in_time,
        a_sync_is_torn,
    ):
        await world.deployment.wipe("toy-0")
        await world.undo(Verb.START, "toy-0")
        await script(world)
