"""A fault is believed when it shows from outside: which ways are tried, what counts as an effect, and what follows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chaos.deployments._sim.loop import VirtualLoop
from chaos.draws import Draws
from chaos.driver import ClusterView
from chaos.effects.links import Reach
from chaos.errors import DeploymentError
from chaos.fault import Effect, Injection, Undo, Verb, World
from chaos.run.journal import Journal
from chaos.run.nemesis_runner import NemesisRunner
from chaos.run.probes import severance, silence, ways
from tests.chaos.run.journals import pending
from tests.views import one_group

VIEW = one_group(brokers=("b0", "b1", "b2"), controllers=("c0", "c1", "c2"), others=("n0",), tier=("t0",), master="b0")


@dataclass
class Machine:
    """Nodes that fall silent when they are paused, unless they are ``immune``, and wake ``late`` probes late."""

    view: ClusterView = VIEW
    immune: bool = False
    late: int = 0
    broken: bool = False
    silent: set[str] = field(default_factory=set)
    cut: set[tuple[str, str]] = field(default_factory=set)

    @property
    def deployment(self) -> Machine:
        return self

    async def reaches(self, source: str, target: str) -> bool:
        return (source, target) not in self.cut

    async def answers(self, node: str) -> bool:
        if self.broken:
            raise DeploymentError("the supervisor has ended")
        return node not in self.silent

    async def undo(self, step: Undo) -> None:
        if self.late:
            asyncio.get_running_loop().call_later(self.late, self.silent.discard, step.subject)
        else:
            self.silent.discard(step.subject)


class Hush:
    """Pauses b1."""

    needs = ()

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        return Injection(targets=("b1",), undo=(Undo(verb=Verb.RESUME, subject="b1"),))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        machine: Any = world.deployment
        if not machine.immune:
            machine.silent.add("b1")
        return {"state": "T"}

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await silence(world, injection.targets)


def told_of(machine: Machine, directory: Path, *, others: int = 0, fault: Any = None) -> list[dict[str, Any]]:
    """Inject once and undo; the rows that were recorded. So many other injections last meanwhile."""
    rows: list[dict[str, Any]] = []
    faults = NemesisRunner(
        [],
        deployment=machine,  # type: ignore[arg-type]
        driver=None,  # type: ignore[arg-type]
        record=lambda kind, **columns: rows.append(columns) or 0,  # type: ignore[func-returns-value]
        journal=Journal(directory, durable=False),
        view=lambda: VIEW,
        draws=Draws(1),
    ).injector

    async def play() -> None:
        for _ in range(others):
            await faults.inject("hush", Hush(), Random(1))
        active = await faults.inject("hush", fault or Hush(), Random(1))
        if active is not None:
            await faults.undo(active)

    loop = VirtualLoop()
    loop.run_until_complete(play())
    loop.close()
    assert others or not pending(directory)
    return [{"type": str(row["type"]), **row["value"]} for row in rows if row["process"] == f"fault-{others}"]


def test_what_is_seen_is_told_after_the_injection_and_after_the_undo(tmp_path: Path) -> None:
    _, injected, undone = told_of(Machine(), tmp_path)
    assert injected["probe"] == {"effect": "full", "answers": {"b1": False}}
    assert undone["probe"] == {"effect": "none", "answers": {"b1": True}}
    assert undone["effective"] and undone["restored"] is True


def test_a_fault_that_shows_no_effect_is_taken_back(tmp_path: Path) -> None:
    _, refused = told_of(Machine(immune=True), tmp_path)
    assert refused == {"type": "fail", "reason": "the probe shows no effect"}


def test_an_undo_may_take_a_moment_to_show_but_not_for_ever(tmp_path: Path) -> None:
    assert told_of(Machine(late=1), tmp_path)[-1]["restored"] is True
    last = told_of(Machine(late=60), tmp_path)[-1]
    assert last["restored"] is False and last["probe"]["effect"] == "full"


def test_whether_it_is_gone_is_not_told_while_another_fault_may_look_the_same(tmp_path: Path) -> None:
    last = told_of(Machine(), tmp_path, others=1)[-1]
    assert last["probe"]["effect"] == "full" and "restored" not in last


def test_a_probe_that_fails_keeps_nothing_from_being_undone(tmp_path: Path) -> None:
    class Breaking(Machine):
        async def undo(self, step: Undo) -> None:
            await super().undo(step)
            self.broken = True

    machine = Breaking()
    last = told_of(machine, tmp_path)[-1]
    assert last["probe"] == {"error": "the supervisor has ended"} and not machine.silent


def test_cuts_are_tried_both_ways_and_each_side_within() -> None:
    across, within = ways([(("b0", "c0"), ("b1", "b2", "c1", "c2", "n0")), (("b1",), ("b0",))], VIEW)
    assert across == [("b0", "b1"), ("c0", "b2")], "the way back of a way is the same connection"
    assert within[0] == ("b0", "c0") and within[1] == ("b1", "b2") and ("c1", "c2") in within
    across, within = ways([(("b2",), ("*",)), (("*",), ("b2",))], VIEW)
    assert across == [("b2", "b0"), ("b1", "b2"), ("client", "b2")], "everybody: clients too"
    assert within == [("b0", "b1"), ("c0", "c1"), ("c2", "n0")]


def test_through_a_cut_between_two_sides_as_many_nodes_are_tried_as_there_are_tries() -> None:
    one, other = ("b0", "c0"), ("b1", "b2", "c1", "c2", "n0")
    across, _ = ways([(one, other), (other, one)], VIEW)
    assert len(across) == 4 and {name for way in across for name in way} >= {"b0", "c0", "b1", "b2", "c1", "c2"}
    assert len({source for source, _ in across}) == 4, "what begins at one node may be tried one after another"
    across, _ = ways([(VIEW.brokers, ("client",)), (("client",), VIEW.brokers)], VIEW)
    assert sorted(across) == [("client", node) for node in VIEW.brokers]


def test_a_client_dials_a_node_and_never_the_other_way_round() -> None:
    across, _ = ways([(("client-1",), ("b0",)), (("b0",), ("client-1",))], VIEW)
    assert across == [("client-1", "b0")]


@pytest.mark.parametrize(
    ("failing", "effect"), [((), "none"), ((("b0", "b1"),), "part"), ((("b0", "b1"), ("b2", "c0")), "full")]
)
def test_the_effect_is_how_many_ways_through_the_cuts_fail(failing: tuple[tuple[str, str], ...], effect: str) -> None:
    machine = Machine(cut={*failing, ("c1", "c2")})
    told: Any = asyncio.run(severance(machine, [(("b0",), ("b1",)), (("b2",), ("c0",))]))
    assert told["effect"] == effect and set(told["across"]) == {"b0 > b1", "b2 > c0"}
    assert told["within"]["c1 > c2"] is False, "it is shown, but proves nothing"


@dataclass
class Telling(Machine):
    """One that can tell what is cut from what fails."""

    failing: set[tuple[str, str]] = field(default_factory=set)

    async def try_link(self, source: str, target: str) -> Reach:
        way = source, target
        return Reach.CUT if way in self.cut else Reach.FAILS if way in self.failing else Reach.WORKS


ONE_WAY, OTHER_WAY = ("b0", "b1"), ("b2", "c0")


@pytest.mark.parametrize(
    ("cut", "failing", "effect"),
    [
        ((), (), "none"),
        ((), (ONE_WAY,), "unclear"),
        ((), (ONE_WAY, OTHER_WAY), "unclear"),
        ((OTHER_WAY,), (ONE_WAY,), "part"),
        ((ONE_WAY, OTHER_WAY), (), "full"),
    ],
)
def test_what_fails_without_a_rule_that_stops_it_is_no_effect(
    cut: Sequence[tuple[str, str]], failing: Sequence[tuple[str, str]], effect: str
) -> None:
    machine = Telling(cut={*cut}, failing={*failing, ("c1", "c2")})
    told: Any = asyncio.run(severance(machine, [(("b0",), ("b1",)), (("b2",), ("c0",))]))
    assert told["effect"] == effect and told["within"]["c1 > c2"] is False
    assert told["across"] == {
        f"{way[0]} > {way[1]}": None if way in failing else way not in cut for way in (ONE_WAY, OTHER_WAY)
    }


class Sever:
    """Cuts a link that fails anyhow; whether the cut can be seen is the machine's."""

    needs = ()

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        effects = {Effect.ISOLATES: ("b0",), Effect.CUTS: ("b1",)}
        return Injection(targets=("b0",), undo=(Undo(verb=Verb.RESUME, subject="b0"),), effects=effects)

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return {"rules": ["r"]}

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await severance(world, [(("b0",), ("b1",))])


def test_a_cut_that_drops_nothing_is_taken_back_though_its_peer_is_dead(tmp_path: Path) -> None:
    _, refused = told_of(Telling(failing={ONE_WAY}), tmp_path, fault=Sever())
    assert refused == {"type": "fail", "reason": "the probe shows no effect"}
    _, injected, undone = told_of(Telling(cut={ONE_WAY}), tmp_path, fault=Sever())
    assert injected["proven"] == {"isolates": ["b0"], "cuts": ["b1"]}
    assert undone["restored"] is False, "it is cut still"


def test_a_link_is_not_restored_while_it_fails_for_whatever_reason(tmp_path: Path) -> None:
    class Dying(Telling):
        async def undo(self, step: Undo) -> None:
            self.cut, self.failing = set(), {ONE_WAY}

    last = told_of(Dying(cut={ONE_WAY}), tmp_path, fault=Sever())[-1]
    assert last["probe"]["effect"] == "unclear" and last["restored"] is False


def test_nothing_is_told_where_nothing_can_be_probed() -> None:
    class Blind:
        view, deployment = VIEW, object()

    blind: Any = Blind()
    assert asyncio.run(silence(blind, ("b0",))) == {} and asyncio.run(severance(blind, [(("b0",), ("b1",))])) == {}
    assert asyncio.run(silence(Machine(), ())) == {} and asyncio.run(severance(Machine(), [])) == {}
