"""Each power of a deployment is used once: what it does is seen from outside, then undone, and the undo is seen too."""

from __future__ import annotations

import asyncio

from chaos.deployment import CanKill, CanPause, CanReadFiles, CanRuleLinks, CanTerminate, CanWipe
from chaos.driver import Disconnected
from chaos.effects.links import HARNESS, Drop, LinkRule
from chaos.fault import Verb
from chaos.testing._deployments.world import CLIENT, LOOK_S, NODES, ONE, SHOWN_S, ZERO, World

LINE = "it was acknowledged"
RULE = "check-0"


async def started(world: World) -> None:
    """Check that after ``start`` all nodes serve, and reach each other at the addresses that templates name."""
    for node in NODES:
        world.require(await world.serves(node), f"{node} does not serve when start has returned")
        await world.probed(node, True, "after the start")
    await world.reached(ZERO, ONE, True, "after the start")
    await world.reached(CLIENT, ONE, True, "after the start")
    world.require(await _passes(world), f"{ZERO} reaches nobody at the address of {ONE} that a template named")
    for verb, subject in ((Verb.START, ZERO), (Verb.RESUME, ZERO), (Verb.CLEAR_RULE, RULE)):
        await world.undo(verb, subject)  # with nothing to undo
    world.require(await world.serves(ZERO), f"undo steps with nothing to undo have ended {ZERO}")


async def paused(world: World, it: CanPause) -> None:
    life = (await world.ask(ZERO, "kept"))["life"]
    world.proof("pause", await it.pause(ZERO))
    world.require(not await world.serves(ZERO), f"{ZERO} serves while it is paused")
    await world.probed(ZERO, False, "while it is paused")
    world.require(await world.serves(ONE), f"{ONE} does not serve while {ZERO} is paused")
    await world.undo(Verb.RESUME, ZERO)
    await world.soon(ZERO, "after it was resumed")
    await world.probed(ZERO, True, "after it was resumed")
    world.require((await world.ask(ZERO, "kept"))["life"] == life, f"{ZERO} has another process after a pause")


async def killed(world: World, it: CanKill) -> None:
    await world.ask(ZERO, "keep", line=LINE)
    life = (await world.ask(ZERO, "kept"))["life"]
    world.proof("kill", await it.kill(ZERO))
    await _down(world, "after it was killed")
    await world.not_now("kill of a node that is down", it.kill(ZERO))
    await world.undo(Verb.START, ZERO)
    await world.soon(ZERO, "after it was started again")
    await world.probed(ZERO, True, "after it was started again")
    kept = await world.ask(ZERO, "kept")
    world.require(LINE in kept["lines"], f"{ZERO} has lost what was on its disk when it was killed")
    world.require(kept["life"] != life, f"{ZERO} is still in the same life after a kill")


async def terminated(world: World, it: CanTerminate) -> None:
    proof = await it.terminate(ZERO)
    world.proof("terminate", proof)
    world.require("orderly" in proof, "the proof of terminate does not say whether it was orderly")
    await _down(world, "after it was asked to end")
    await world.undo(Verb.START, ZERO)
    await world.soon(ZERO, "after it was started again")


async def wiped(world: World, it: CanWipe) -> None:
    await world.ask(ZERO, "keep", line=LINE)
    await world.ask(ONE, "keep", line=LINE)
    world.proof("wipe", await it.wipe(ZERO))
    await _down(world, "after its disk was wiped")
    await world.undo(Verb.START, ZERO)
    await world.soon(ZERO, "after its disk was wiped and it was started again")
    world.require((await world.ask(ZERO, "kept"))["lines"] == [], f"{ZERO} still has what was on its disk after wipe")
    world.require(LINE in (await world.ask(ONE, "kept"))["lines"], f"wipe of {ZERO} has emptied the disk of {ONE}")


async def client_cut(world: World, it: CanRuleLinks) -> None:
    await it.set_rule(RULE, LinkRule(frozenset({CLIENT}), frozenset({ZERO}), Drop()))
    world.require(not await world.serves(ZERO), f"a client reaches {ZERO} through a cut")
    await world.reached(CLIENT, ZERO, False, "through a cut")
    world.require(await it.rule_hits(RULE) > 0, "rule_hits of a rule that has held something up is 0")
    world.require(await world.serves(ZERO, client="other"), f"the cut of {CLIENT} has cut another client too")
    await world.undo(Verb.CLEAR_RULE, RULE)
    await world.soon(ZERO, "after the cut was undone")
    await world.reached(CLIENT, ZERO, True, "after the cut was undone")
    world.require(await it.rule_hits(RULE) == 0, "rule_hits of a rule that is gone is not 0")


async def nodes_cut(world: World, it: CanRuleLinks) -> None:
    await it.set_rule(RULE, LinkRule(frozenset({ZERO}), frozenset({ONE}), Drop()))
    world.require(not await _passes(world), f"{ZERO} reaches {ONE} through a cut")
    await world.reached(ZERO, ONE, False, "through a cut")
    for node in NODES:
        world.require(await world.serves(node), f"a client does not reach {node} while two nodes are cut off")
        await world.reached(HARNESS, node, True, "while two nodes are cut off")
    await world.undo(Verb.CLEAR_RULE, RULE)
    world.require(await _soon_passes(world), f"{ZERO} does not reach {ONE} after the cut was undone")
    await world.reached(ZERO, ONE, True, "after the cut was undone")


async def files_read(world: World, it: CanReadFiles) -> None:
    await world.ask(ZERO, "keep", line=LINE)
    for alive in (True, False):
        found = await it.files(ZERO, ["kept"])
        world.require(
            list(found) == ["kept"], f"files of {ZERO} are {sorted(found)}, expected the one that it has made"
        )
        if "kept" in found:
            content = await it.read_file(ZERO, "kept")
            world.require(
                LINE.encode() in content and len(content) == found["kept"], f"read_file of {ZERO} gives another file"
            )
        if not alive or not isinstance(it, CanKill):
            break
        await it.kill(ZERO)
    await world.undo(Verb.START, ZERO)
    await world.soon(ZERO, "after its files were read")


async def _down(world: World, when: str) -> None:
    """Check that nobody answers, and that a client is refused before anything was sent."""
    await world.probed(ZERO, False, when)
    try:
        await world.ask(ZERO, "kept")
    except Disconnected as error:
        world.require(not error.sent, f"dial of {ZERO} {when} says that something may have been sent")
    except (TimeoutError, OSError) as error:
        world.require(False, f"dial of {ZERO} {when} raised {type(error).__name__}, expected Disconnected")
    else:
        world.require(False, f"{ZERO} serves {when}")


async def _passes(world: World) -> bool:
    """Return whether the first node reaches the second one by itself."""
    return "life" in await world.ask(ZERO, "pass", to=ONE)


async def _soon_passes(world: World) -> bool:
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + SHOWN_S
    while not (passes := await _passes(world)) and loop.time() < deadline_s:
        await asyncio.sleep(LOOK_S)
    return passes
