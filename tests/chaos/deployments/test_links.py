"""What rules do to links, the same in the simulator and on processes: requests of a client to small nodes."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from random import Random

import pytest
from toy_nodes import ECHO, FORWARD

from chaos.driver import Disconnected
from chaos.effects.links import (
    Action,
    Corrupt,
    Delay,
    Drop,
    Duplicate,
    LinkRule,
    Pass,
    Reorder,
    Reset,
    SlowClose,
    Throttle,
)
from chaos.fault import Verb
from chaos.plain import PlainMessage
from tests.chaos.deployments.test_process import World

pytestmark = pytest.mark.process
ALL = frozenset({"*"})


@pytest.fixture(params=["sim", "process"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(request.param, tmp_path / f"run-{os.getpid()}-{time.monotonic_ns()}")


async def rule(world: World, action: Action, sources: set[str], targets: set[str], but: tuple[str, ...] = ()) -> None:
    one = LinkRule(frozenset(sources), frozenset(targets), action, frozenset(but))
    await world.deployment.set_rule("rule", one)


def test_flipped_bits_break_connections_and_never_change_an_answer(world: World) -> None:
    async def script(world: World) -> None:
        await rule(world, Corrupt(300), {"*"}, {"*"})
        right = broken = 0
        for number in range(60):
            body = b"%d " % number * 20
            try:
                answer = await world.ask("toy-0", FORWARD, body, to="toy-1")
            except (Disconnected, TimeoutError):
                broken += 1
            else:
                right += answer.body == body
                broken += bool(answer.error)  # the node's own connection broke, and it said so
                assert answer.body == body or answer.error
        assert right > 5 and broken > 5 and await world.deployment.rule_hits("rule") > 5
        await world.undo(Verb.CLEAR_RULE, "rule")
        for node in ("toy-0", "toy-1"):
            assert (await world.ask(node, ECHO, b"well")).body == b"well"

    assert list(world.run(script).deployment.crashes) == []


def test_a_throttled_link_takes_its_time(world: World) -> None:
    async def script(world: World) -> None:
        await world.ask("toy-0", ECHO)
        await rule(world, Throttle(100_000), {"client"}, {"toy-0"})
        begin_s = asyncio.get_running_loop().time()
        for _ in range(3):
            await world.ask("toy-0", ECHO, bytes(10_000))
        took_s = asyncio.get_running_loop().time() - begin_s
        assert 0.3 <= took_s < 2
        assert await world.deployment.rule_hits("rule") >= 3

    world.run(script)


def test_the_death_of_a_node_is_heard_of_late(world: World) -> None:
    async def script(world: World) -> None:
        await world.ask("toy-0", ECHO)
        await rule(world, SlowClose(600_000_000), {"toy-0"}, {"client"})
        loop = asyncio.get_running_loop()
        await world.deployment.kill("toy-0")
        begin_s = loop.time()
        with pytest.raises((Disconnected, TimeoutError)):
            await world.deployment.connect("client", "toy-0").request(_echo(), 0.3)
        assert loop.time() - begin_s > 0.25, "nobody was told, so the request waited"
        with pytest.raises(Disconnected):
            await world.deployment.connect("client", "toy-0").request(_echo(), 2.0)
        assert loop.time() - begin_s > 0.5 and await world.deployment.rule_hits("rule") >= 1

    world.run(script)


@pytest.mark.parametrize("action", [Duplicate(1000, 40_000_000), Reorder(1000, 40_000_000)])
def test_what_tcp_puts_right_again_comes_late_and_whole(world: World, action: Action) -> None:
    async def script(world: World) -> None:
        await rule(world, action, {"*"}, {"*"})
        begin_s = asyncio.get_running_loop().time()
        bodies = [(await world.ask("toy-0", FORWARD, b"%d" % n, to="toy-1")).body for n in range(5)]
        assert bodies == [b"%d" % n for n in range(5)]
        assert asyncio.get_running_loop().time() - begin_s > 0.1
        assert await world.deployment.rule_hits("rule") >= 20

    world.run(script)


def test_a_rule_at_rest_does_nothing_and_keeps_its_hits(world: World) -> None:
    async def script(world: World) -> None:
        await rule(world, Drop(), {"client"}, {"toy-0"})
        assert await world.silent("toy-0")
        hits = await world.deployment.rule_hits("rule")
        await rule(world, Pass(), {"client"}, {"toy-0"})
        assert (await world.ask("toy-0", ECHO, b"again")).body == b"again"
        assert await world.deployment.rule_hits("rule") == hits > 0
        await rule(world, Reset(), {"client"}, {"toy-0"})
        with pytest.raises(Disconnected):
            await world.ask("toy-0", ECHO)
        assert await world.deployment.rule_hits("rule") > hits

    world.run(script)


def test_clients_alone_can_be_meant(world: World) -> None:
    async def script(world: World) -> None:
        await world.ask("toy-0", FORWARD, b"x", to="toy-1")
        await rule(world, Drop(), {"*"}, {"toy-1"}, but=("toy-0", "toy-1"))
        assert await world.silent("toy-1") and await world.silent("toy-1", by="another")
        assert (await world.ask("toy-0", FORWARD, b"x", to="toy-1")).body == b"x"

    world.run(script)


#: What may be done to one way of a link, several times and in any order.
SOME = [Drop(), Delay(30_000_000), Delay(60_000_000), Throttle(20_000), Throttle(40_000), Reset()]
BODY_BYTES = 1500
SILENT_S = 0.4
MOST_RULES = 3


def told(actions: list[Action]) -> tuple[str, float]:
    """What these do together to a request: how it ends, and after how many seconds at least."""
    if Drop() in actions:
        return "silent", SILENT_S
    rates = [action.bytes_per_s for action in actions if isinstance(action, Throttle)]
    least_s = sum(action.delay_ns for action in actions if isinstance(action, Delay)) / 1e9
    return (
        ("broken", 0.0)
        if Reset() in actions
        else ("answered", least_s + max((BODY_BYTES / r for r in rates), default=0))
    )


def acts(action: Action, actions: list[Action]) -> bool:
    """Whether it must be hit by that request: resets don't get through a cut, and bytes don't get past a reset."""
    if isinstance(action, Reset):
        return Drop() not in actions
    return isinstance(action, Delay) or Drop() in actions or Reset() not in actions


async def fate(world: World) -> tuple[str, float]:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    try:
        message = PlainMessage(kind=ECHO, body=bytes(BODY_BYTES))
        await world.deployment.connect("client", "toy-0").request(message, SILENT_S)
        return "answered", loop.time() - began_s
    except TimeoutError:
        return "silent", loop.time() - began_s
    except Disconnected:
        return "broken", loop.time() - began_s


@pytest.mark.parametrize("seed", range(4))
def test_rules_on_one_link_act_together_and_end_alone_in_any_order(world: World, seed: int) -> None:
    rng = Random(seed)

    async def script(world: World) -> None:
        await world.ask("toy-0", ECHO)
        links, lasting, count = world.deployment, dict[str, Action](), 0
        for _ in range(60 if links.name == "sim" else 6):
            if lasting and (len(lasting) == MOST_RULES or rng.random() < 0.4):
                ended = rng.choice(sorted(lasting))
                del lasting[ended]
                await world.undo(Verb.CLEAR_RULE, ended)
            else:
                count += 1
                lasting[f"rule-{count}"] = rng.choice(SOME)
                one = LinkRule(frozenset({"client"}), frozenset({"toy-0"}), lasting[f"rule-{count}"])
                await links.set_rule(f"rule-{count}", one)
            actions = list(lasting.values())
            before = {name: await links.rule_hits(name) for name in lasting}
            ends, least_s = told(actions)
            seen, took_s = await fate(world)
            assert seen == ends and took_s > least_s - 0.002, (actions, took_s)
            hit = {name: await links.rule_hits(name) > before[name] for name in lasting}
            assert hit == {name: acts(action, actions) for name, action in lasting.items()}, actions
        for name in lasting:
            await world.undo(Verb.CLEAR_RULE, name)
        assert await fate(world) < ("answered", 0.2)

    world.run(script)


def test_of_two_limits_the_lower_one_holds_and_then_the_other(world: World) -> None:
    async def script(world: World) -> None:
        await world.ask("toy-0", ECHO)
        for name, bytes_per_s in (("low", 10_000), ("high", 40_000)):
            both = frozenset({"client"}), frozenset({"toy-0"})
            await world.deployment.set_rule(name, LinkRule(*both, Throttle(bytes_per_s)))
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        answer = asyncio.ensure_future(world.ask("toy-0", ECHO, bytes(8000)))
        await asyncio.sleep(0.1)
        assert not answer.done(), "the lower one lets so much through in 800 ms"
        await world.undo(Verb.CLEAR_RULE, "low")
        await answer
        assert 0.25 < loop.time() - began_s < 0.7, "as long as the other one takes, from then on"

    world.run(script)


def _echo() -> PlainMessage:
    return PlainMessage(kind=ECHO)
