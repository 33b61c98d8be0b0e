"""Probes from outside, the same on all deployments: who answers, and who reaches whom through the links as they are."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from chaos.deployment import CanProbe
from chaos.effects.links import HARNESS, Drop, LinkRule, Reset
from chaos.fault import Verb
from tests.chaos.deployments.test_process import World

pytestmark = pytest.mark.process


@pytest.fixture(params=["sim", "process", pytest.param("docker", marks=pytest.mark.docker)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    if request.param == "docker":
        request.getfixturevalue("engine")
    return World(request.param, tmp_path / f"run-{os.getpid()}-{time.monotonic_ns()}")


def test_who_is_down_or_held_still_answers_nobody(world: World) -> None:
    async def script(world: World) -> None:
        it = world.deployment
        assert isinstance(it, CanProbe) and await it.answers("toy-0") and await it.answers("toy-1")
        await it.pause("toy-0")
        assert not await it.answers("toy-0") and await it.answers("toy-1")
        await world.undo(Verb.RESUME, "toy-0")
        assert await it.answers("toy-0")
        await it.kill("toy-0")
        assert not await it.answers("toy-0") and not await it.reaches("toy-1", "toy-0")
        await world.undo(Verb.START, "toy-0")
        assert await it.answers("toy-0") and await it.reaches("toy-1", "toy-0")

    world.run(script)


@pytest.mark.parametrize("action", [Drop(), Reset()])
def test_a_cut_one_way_stops_connections_both_ways_and_nobody_else(world: World, action: Drop | Reset) -> None:
    async def script(world: World) -> None:
        it = world.deployment
        assert await it.reaches("toy-0", "toy-1") and await it.reaches("client", "toy-1")
        await it.set_rule("cut", LinkRule(frozenset({"toy-0"}), frozenset({"toy-1"}), action))
        assert not await it.reaches("toy-0", "toy-1") and not await it.reaches("toy-1", "toy-0")
        assert await it.reaches("client", "toy-1") and await it.answers("toy-1")
        await it.set_rule("clients", LinkRule(frozenset({"client"}), frozenset({"*"}), action))
        assert not await it.reaches("client", "toy-1") and await it.reaches(HARNESS, "toy-1")
        await world.undo(Verb.CLEAR_RULE, "cut")
        await world.undo(Verb.CLEAR_RULE, "clients")
        assert await it.reaches("toy-0", "toy-1") and await it.reaches("client", "toy-1")

    world.run(script)


def test_nodes_learn_nothing_of_a_probe(world: World) -> None:
    async def script(world: World) -> None:
        for _ in range(3):
            assert await world.deployment.reaches("toy-0", "toy-1") and await world.deployment.answers("toy-1")
        assert (await world.ask("toy-1", 1, b"still there")).body == b"still there"

    met = world.run(script).of("closed")
    assert [row for row in met if row["value"]["peer"] != "client"] == [], "as who the harness has dialled"
