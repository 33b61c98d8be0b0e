"""What rules do to links, the same in the simulator and on processes: requests of a client to small nodes."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

from test_process import World  # noqa: E402
from toy_nodes import ECHO, FORWARD  # noqa: E402

from chaos.driver import Disconnected  # noqa: E402
from chaos.fault import Verb  # noqa: E402
from chaos.links import (  # noqa: E402
    Action,
    Corrupt,
    Drop,
    Duplicate,
    LinkRule,
    Pass,
    Reorder,
    Reset,
    SlowClose,
    Throttle,
)
from chaos.node import Message  # noqa: E402

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
                broken += answer.code == 1  # the node's own connection broke, and it said so
                assert answer.body == body or answer.code == 1
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


def _echo() -> Message:
    return Message(code=ECHO)
