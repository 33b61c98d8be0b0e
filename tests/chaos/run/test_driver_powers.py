"""Faults that the driver does: its refusals, what it undoes, and what counts as a hit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chaos.draws import Draws
from chaos.driver import TIER_FAULT, ClusterView, TierEffect, TierRule
from chaos.fault import Injection, NotNow, Undo, Verb, World
from chaos.node import NodeSpec
from chaos.ops import Failed
from chaos.run.journal import Journal
from chaos.run.nemesis_runner import NemesisRunner
from tests.chaos.run.journals import pending

RULE = TierRule(effect=TierEffect.EXPIRE)


class System:
    """A driver whose tier holds rules, and forgets them when it is told to."""

    def __init__(self) -> None:
        self.rules: dict[str, int] = {}
        self.refusing = False
        self.forced: list[str] = []
        self.welcomed: list[str] = []
        self.asked_to_vote: list[str] = []

    async def add_controller(self, network: object, node: str) -> bool:
        self.asked_to_vote.append(node)
        return not self.refusing

    async def break_tier(self, network: object, rule_id: str, rule: TierRule) -> None:
        if self.refusing:
            raise Failed("nobody is there")
        self.rules[rule_id] = 0

    async def mend_tier(self, network: object, rule_id: str) -> None:
        self.rules.pop(rule_id, None)

    async def tier_hits(self, network: object, rule_id: str) -> int:
        return self.rules.get(rule_id, 0)

    async def force_switch(self, network: object, target: str, group: str) -> Mapping[str, object]:
        self.forced.append(target)
        return {}

    def broker(self, node: str, mutant: str) -> NodeSpec:
        return NodeSpec(name=node, role="broker", package="toys", mutant=mutant)

    async def welcome(self, network: object, node: str) -> Mapping[str, object]:
        self.welcomed.append(node)
        if self.refusing:
            raise OSError("the group is gone")
        return {"joined": True}

    async def remove_broker(self, network: object, node: str) -> Mapping[str, object]:
        raise Failed("it is in use")


class Place:
    """A deployment with room for one node more."""

    def __init__(self) -> None:
        self.added: list[NodeSpec] = []

    async def add(self, spec: NodeSpec) -> Mapping[str, object]:
        if self.added:
            raise NotNow("there is no room")
        self.added.append(spec)
        return {"alive": True}


class Broken:
    needs = ()

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        return Injection(targets=("store-0",), undo=(Undo(verb=Verb.MEND_TIER, subject=f"{tag}-tier"),))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        await world.break_tier(injection.undo[0].subject, RULE)
        return {}


def play(directory: Path, scene: Callable[[NemesisRunner, System, list[dict[str, Any]]], Awaitable[None]]) -> None:
    system, rows = System(), list[dict[str, Any]]()
    host: Any = Place()
    driver: Any = system
    made = NemesisRunner(
        [],
        deployment=host,
        driver=driver,
        record=lambda kind, **columns: rows.append(columns) or 0,
        journal=Journal(directory, durable=False),
        view=ClusterView,
        draws=Draws(1),
        mutant="planted",
    )

    async def main() -> None:
        await scene(made, system, rows)

    asyncio.run(main())


@pytest.mark.parametrize(("hits", "traced", "effective"), [(3, 0, True), (0, 2, True), (0, 0, False)])
def test_hits_count_also_when_the_store_has_forgotten_them(
    tmp_path: Path, hits: int, traced: int, effective: bool
) -> None:
    async def scene(made: NemesisRunner, system: System, rows: list[dict[str, Any]]) -> None:
        active = await made.injector.inject("broken", Broken(), Random(1))
        assert active is not None and list(system.rules) == ["fault-0-tier"] and pending(tmp_path)
        system.rules["fault-0-tier"] = hits
        for rule in ["fault-0-tier"] * traced + ["fault-9-tier"]:
            made.on_trace({"f": TIER_FAULT, "value": {"rule": rule}})
        await made.heal()
        assert not system.rules and not pending(tmp_path)
        assert rows[-1]["value"]["effective"] is effective and rows[-1]["value"]["proof"] == {"hits": max(hits, traced)}

    play(tmp_path, scene)


class Away:
    """A controller leaves; its undo lets it join."""

    needs = ()

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        return Injection(targets=("controller-1",), undo=(Undo(verb=Verb.ADD_CONTROLLER, subject="controller-1"),))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return {"removed": "controller-1"}


@pytest.mark.parametrize("refusing", [True, False])
def test_a_controller_that_could_not_join_while_faults_lasted_is_asked_again_in_the_end(
    tmp_path: Path, refusing: bool
) -> None:
    async def scene(made: NemesisRunner, system: System, rows: list[dict[str, Any]]) -> None:
        system.refusing = refusing
        active = await made.injector.inject("away", Away(), Random(1))
        assert active is not None
        await made.injector.undo(active)
        assert system.asked_to_vote == ["controller-1"]
        system.refusing = False
        await made.heal()
        assert system.asked_to_vote == ["controller-1"] * (2 if refusing else 1)
        await made.heal()
        assert len(system.asked_to_vote) == (2 if refusing else 1)

    play(tmp_path, scene)


def test_a_tier_that_can_not_be_told_is_tried_later(tmp_path: Path) -> None:
    async def scene(made: NemesisRunner, system: System, rows: list[dict[str, Any]]) -> None:
        system.refusing = True
        active = await made.injector.inject("broken", Broken(), Random(1))
        assert active is None and not pending(tmp_path)
        assert rows[-1]["value"] == {"reason": "nobody is there"}

    play(tmp_path, scene)


def test_what_the_driver_refuses_has_no_effect_now(tmp_path: Path) -> None:
    async def scene(made: NemesisRunner, system: System, rows: list[dict[str, Any]]) -> None:
        with pytest.raises(NotNow, match="in use"):
            await made.world.remove("broker-1")
        await made.world.switch("broker-1", forced=True)
        assert system.forced == ["broker-1"]

    play(tmp_path, scene)


@pytest.mark.parametrize("trouble", [False, True])
def test_a_node_that_was_added_is_in_the_history_whatever_became_of_it(tmp_path: Path, trouble: bool) -> None:
    async def scene(made: NemesisRunner, system: System, rows: list[dict[str, Any]]) -> None:
        system.refusing = trouble
        with pytest.raises(OSError) if trouble else nullcontext():
            assert await made.world.add("broker-3") == {"broker-3": {"alive": True}, "joined": True}
        (row,) = rows
        assert (row["f"], row["node"], row["value"]) == ("node_added", "broker-3", {"role": "broker"})
        assert made.world.deployment.added[0].mutant == "planted", "it is of the code that the others have"  # type: ignore[attr-defined]
        with pytest.raises(NotNow, match="no room"):
            await made.world.add("broker-4")
        assert len(rows) == 1 and system.welcomed == ["broker-3"], "one that never was counts nowhere"

    play(tmp_path, scene)
