"""``check_fault``: every shipped fault passes it, and each broken promise fails it with a sentence that names it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any, cast

import pytest

from chaos.deployment import CanKill, CanPause, CanSkewClocks
from chaos.driver import ClusterView, Driver
from chaos.fault import Effect, Effects, Injection, Undo, Verb, World, each, on
from chaos.plugins import PluginKind, load, names
from chaos.run.probes import silence
from chaos.testing import check_fault
from drivers.reference.driver import Options as System
from drivers.reference.driver import create as system
from nemesis._links import Peers
from nemesis._lives import How
from nemesis.partition import Shape

#: Faults of a group of controllers. To the others one is as good, and three talk all the time.
OF_CONTROLLERS = {"leader_transfer", "member_change"}
#: What the simulator can't do at all.
NOT_SIMULATED = {"memory"}
#: Faults of requests of clients, which may be of some kinds alone.
OF_REQUESTS = ("answer_error", "answer_late", "answer_lost", "client_blackhole")
OF_FAULTS = Path(__file__).parents[2] / "nemesis"
#: What a fault needs so that all of it shows in a short run. One with a test file of its own says it there.
HOW: Mapping[str, Mapping[str, Any]] = {
    # The load of these runs sends and nothing else.
    **{name: {"vary": {"requests": ("pull",)}} for name in OF_REQUESTS},
    "demote": {"vary": {"within_s": 0.0}},
    "flapping": {"vary": {"period_s": 1.2}},
    "leader_transfer": {"vary": {"target": "controller-0"}},
    "member_change": {"vary": {"target": "controller-0"}},
    "partition": {"vary": {"away_from": None}},  # for one shape only
    # The bound: nobody takes that long here to serve again.
    "rolling_restart": {"lasts_s": 5.0, "rarely": {Effect.MAY_CRASH}, "vary": {"within_s": None}},
    "slow_close": {"target": "master"},
    "slow_link": {"vary": {"peers": (Peers.BROKERS,)}},
    "stop": {"rarely": {Effect.MAY_CRASH}},
    "switch_storm": {"vary": {"switches": 2}},
}


def cluster() -> Driver:
    return system(System(queues=1, controllers=1))


def group_of_controllers() -> Driver:
    return system(System(queues=1))


def has_own_test(name: str) -> bool:
    file = OF_FAULTS / f"test_{name}.py"
    return file.is_file() and "check_fault(" in file.read_text("utf-8")


SIMULATED = [name for name in names(PluginKind.FAULT) if name not in NOT_SIMULATED and not has_own_test(name)]


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one in SIMULATED[::6] else pytest.mark.full) for one in SIMULATED]
)
def test_every_shipped_fault_keeps_its_promises(name: str) -> None:
    where = group_of_controllers if name in OF_CONTROLLERS else cluster
    report = check_fault(load(PluginKind.FAULT, name), where, **HOW.get(name, {}))
    assert {*report.proven} <= {*report.effects} and (report.proven or not report.effects)


def test_options_for_one_shape_or_way_do_something_there() -> None:
    check_fault(load(PluginKind.FAULT, "partition"), cluster, shape=Shape.APART, target="master")
    check_fault(load(PluginKind.FAULT, "restart"), cluster, how=How.STOP, rarely={Effect.MAY_CRASH})


def test_the_report_tells_what_injection_and_undo_do() -> None:
    report = check_fault(load(PluginKind.FAULT, "kill"), cluster)
    (node,) = report.proven["takes_down"]
    assert any(one.what == "lost its connection" and node in one.who for one in report.at_injection)
    assert not any(one.what == "began a new life" for one in report.at_injection)
    assert [one.who for one in report.at_undo if one.what == "began a new life"] == [(node,)]


@dataclass
class Pause:
    """A good fault, of which each test spoils one thing."""

    needs = (CanPause, CanKill, CanSkewClocks)
    effects: Effects | None
    undone: bool = True
    act_on: Callable[[World, str], Any] | None = None
    draw: Callable[[Random], float] = lambda rng: 0.0

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        undo = (Undo(verb=Verb.RESUME, subject="broker-1"),) if self.undone else (Undo(verb=Verb.RESUME, subject="x"),)
        return Injection(targets=("broker-1",), undo=undo, effects=self.effects, detail={"drawn": self.draw(rng)})

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        if self.act_on is not None:
            await self.act_on(world, "broker-1")
        return await each(injection.targets, cast(CanPause, world.deployment).pause)

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await silence(world, injection.targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    unused: int = 3


GOOD = Pause(effects=on(("broker-1",), Effect.TAKES_DOWN))


def plugin(fault: Callable[[Any], object], options: type | None = None) -> ModuleType:
    module = ModuleType("nemesis.spoiled", "A fault of these tests.")
    module.create = fault  # type: ignore[attr-defined]
    if options is not None:
        module.Options = options  # type: ignore[attr-defined]
    return module


async def kill_other(world: World, node: str) -> None:
    await cast(CanKill, world.deployment).kill("broker-2")


async def skew(world: World, node: str) -> None:
    await cast(CanSkewClocks, world.deployment).set_clock(node, jump_ns=1)


def test_a_good_fault_passes() -> None:
    report = check_fault(plugin(lambda options: GOOD), cluster)
    assert report.proven == {"takes_down": ["broker-1"]}


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (replace(GOOD, effects=None), "does not declare its effects"),
        (replace(GOOD, effects={}), "asks for pause of broker-1 and does not declare takes_down"),
        (replace(GOOD, effects={}), "broker-1 does not answer; an effect that explains it"),
        (replace(GOOD, effects=on(("broker-9",), Effect.TAKES_DOWN)), "takes_down for broker-9: there is no such node"),
        (
            replace(GOOD, effects={**(GOOD.effects or {}), Effect.HARMS_TIER: ("store-0",)}),
            "declares harms_tier for store-0, but neither",
        ),
        (replace(GOOD, act_on=kill_other), "asks for kill of broker-2 and does not declare may_crash"),
        (replace(GOOD, act_on=kill_other), "its undo leaves kill: no step start broker-2"),
        (replace(GOOD, act_on=skew), "its undo leaves set_clock: no step reset_clock broker-1"),
        (replace(GOOD, act_on=kill_other), "broker-2 does not answer 2 s after its undo"),
    ],
)
def test_what_a_fault_does_and_does_not_say_is_found(fault: Pause, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_fault(plugin(lambda options: fault), cluster)


def test_an_option_that_does_nothing_is_found() -> None:
    with pytest.raises(AssertionError, match="option unused does nothing: no difference with 3, 6, 1, 30"):
        check_fault(plugin(lambda options: GOOD, Options), cluster)


def test_randomness_that_is_not_of_the_seed_is_found() -> None:
    async def draw(world: World, node: str) -> None:
        jump_ns = random.randrange(1, 10**9)
        await cast(CanSkewClocks, world.deployment).set_clock(node, jump_ns=jump_ns)

    fault = replace(GOOD, act_on=draw)

    @dataclass
    class Both(Pause):
        def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
            planned = super().plan(view, rng, tag)
            undo = (*planned.undo, Undo(verb=Verb.RESET_CLOCK, subject="broker-1"))
            effects = on(("broker-1",), Effect.TAKES_DOWN, Effect.SKEWS_CLOCKS)
            return replace(planned, undo=undo, effects=effects)

    with pytest.raises(AssertionError, match="two runs of one seed differ"):
        check_fault(plugin(lambda options: Both(effects={}, act_on=fault.act_on)), cluster)


def test_a_fault_that_never_has_an_effect_says_why() -> None:
    view = Pause(effects={})
    view.inject = refuse  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match=r"never had an effect \(not today\)"):
        check_fault(plugin(lambda options: view), cluster)


async def refuse(world: World, injection: Injection) -> Mapping[str, object]:
    from chaos.fault import NotNow

    raise NotNow("not today")
