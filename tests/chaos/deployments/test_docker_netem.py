"""Links between containers that the kernel's traffic control makes slow; a kernel without netem is told of at once."""

from __future__ import annotations

import time
from typing import Any

import pytest

from chaos.deployment import Demands
from chaos.effects.links import Delay, Drop, LinkRule
from chaos.errors import MachineError
from chaos.fault import Verb
from chaos.machines import netem
from chaos.machines.docker import trial
from tests.chaos.deployments.test_docker import AGAIN_S, FORWARD, ONE, ZERO, World, left_of, never, world

__all__ = ["world"]  # a fixture

#: Stands in netem's place: one large packet at once, and then so slowly that it shows.
SLOW = "tbf rate 400kbit burst 66k latency 60s"


async def _took_s(world: World) -> float:
    begin_s = time.monotonic()
    for _ in range(3):
        await world.ask("toy-0", FORWARD, bytes(60_000), to="toy-1", within_s=30)
    return time.monotonic() - begin_s


@pytest.mark.full
@pytest.mark.docker
def test_a_shaped_link_is_slow_until_its_rule_goes_and_other_rules_hold_besides(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(netem, "leaf", lambda actions: SLOW)
    world.deployment.expect_link_actions(frozenset({Delay}))

    async def script(world: World) -> None:
        it = world.deployment
        assert await _took_s(world) < 1
        await it.set_rule("slow", LinkRule(ZERO, ONE, Delay(1_000_000)))
        assert 2 < await _took_s(world) < 20
        assert await it.rule_hits("slow") > 3
        await it.set_rule("cut", LinkRule(ZERO, ONE, Drop()))
        assert not await world.forwards()
        await world.undo(Verb.CLEAR_RULE, "slow")
        assert not await world.forwards()
        await world.undo(Verb.CLEAR_RULE, "cut")
        assert await world.forwards(AGAIN_S) and await _took_s(world) < 1
        assert await it.rule_hits("slow") == 0

    world.run(script)


@pytest.mark.docker
def test_a_kernel_that_lacks_it_is_told_before_any_node_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netem, "leaf", lambda actions: "nosuchdiscipline")
    world.deployment.expect_link_actions(frozenset({Delay}))
    with pytest.raises(MachineError, match="has no netem"):
        world.run(never)
    assert left_of(world.engine, world.directory) == []
    assert not list(world.directory.glob("traces/*"))


@pytest.mark.docker
def test_what_the_kernel_lacks_is_known_before_a_run_is_written(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shaped = Demands(link_actions=frozenset({Delay}))
    monkeypatch.setattr(netem, "leaf", lambda actions: SLOW)
    trial.check(engine, shaped)
    monkeypatch.setattr(netem, "leaf", lambda actions: "nosuchdiscipline")
    with pytest.raises(MachineError, match="the kernel of this machine has no netem"):
        trial.check(engine, shaped)
    trial.check(engine, Demands(link_actions=frozenset({Drop})))
