"""Faults that take from a replica what its disk promised to keep: whom they spare, and what they wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chaos.deployments._sim.loop import VirtualLoop
from chaos.driver import ClusterView
from chaos.effects.corruption import Harm, Kind, Mark
from chaos.errors import BadInput
from chaos.experiment.reader import load as load_experiment
from chaos.fault import Effect, Injection, NotNow, Undo, Verb
from chaos.plugins import PluginKind, load, options_class, resolve
from tests.views import changed, one_group

BROKERS = ("broker-0", "broker-1", "broker-2")
VIEW = one_group(brokers=BROKERS, tier=("store-0",), master="broker-0", epoch=3, in_sync=BROKERS, settled=True)
LOSSES = ("bit_flip", "truncate", "misdirected_write", "restore_snapshot")


@dataclass
class World:
    """Notes what is done and when; ``at`` changes the view at some second."""

    at: Mapping[int, ClusterView] = field(default_factory=dict)
    silent_until_s: float = 0.0
    done: list[tuple[float, str]] = field(default_factory=list)
    harm: Harm | None = None

    @property
    def deployment(self) -> World:
        return self

    @property
    def view(self) -> ClusterView:
        return [VIEW, *(view for second, view in self.at.items() if self.now_s() >= second)][-1]

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def note(self, what: str) -> Mapping[str, object]:
        self.done.append((round(self.now_s(), 1), what))
        return {"did": what}

    def hold(self, injection: Injection, nodes: Sequence[str]) -> None:
        self.note(f"hold {','.join(nodes)}".strip())

    def prove(self, injection: Injection, proof: Mapping[str, object], *only: Effect) -> None:
        assert proof and set(proof) <= set(injection.targets) and {*only} <= {*(injection.effects or {})}

    async def start(self, node: str, injection: Injection) -> bool:
        self.note(f"start {node}")
        return True

    async def answers(self, node: str) -> bool:
        return not 1 < self.now_s() < self.silent_until_s

    async def reaches(self, source: str, target: str) -> bool:
        return True

    async def mark_disk(self, node: str) -> Mark:
        self.note(f"mark {node}")
        return Mark(incarnation=1, files={})

    async def harm_disk(self, node: str, marked: Mark, harm: Harm) -> Mapping[str, object]:
        self.harm = harm
        return self.note(f"harm {node}")

    async def copy_disk(self, node: str) -> Mapping[str, object]:
        return self.note(f"copy {node}")

    async def roll_back_disk(self, node: str) -> Mapping[str, object]:
        return self.note(f"roll back {node}")


def fault(name: str, **options: Any) -> Any:
    meant = resolve(PluginKind.FAULT, name)
    module = load(PluginKind.FAULT, meant.plugin)
    return module.create(options_class(module)(**{**meant.options, **options}))


def in_virtual_time(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def strike(world: World, name: str, **options: Any) -> Injection:
    it = fault(name, **options)
    injection: Injection = it.plan(VIEW, Random(1), "t")

    async def main() -> None:
        await it.inject(world, injection)

    in_virtual_time(main)
    return injection


def test_old_bytes_of_one_slave_are_harmed_while_it_is_held_down() -> None:
    world = World()
    injection = strike(world, "bit_flip", flips=5, files="log/*", target="broker-2", age_s=4.0)
    assert injection.undo == (Undo(verb=Verb.START, subject="broker-2"),)
    assert world.done == [(0.0, "hold"), (0.0, "mark broker-2"), (4.0, "hold broker-2"), (4.0, "harm broker-2")]
    assert world.harm is not None and (world.harm.kind, world.harm.count, world.harm.files) == (Kind.FLIP, 5, "log/*")
    assert world.harm.draw == injection.detail["draw"]


def test_a_copy_is_put_back_when_its_node_has_been_up_for_a_while() -> None:
    world = World()
    strike(world, "restore_snapshot", target="broker-1")
    assert world.done == [
        (0.0, "copy broker-1"),
        (0.0, "start broker-1"),
        (3.0, "hold broker-1"),
        (3.0, "roll back broker-1"),
    ]


@pytest.mark.parametrize("name", LOSSES)
def test_nothing_is_lost_before_the_others_have_it(name: str) -> None:
    behind = changed(VIEW, in_sync=BROKERS[:2])
    world = World(at={1: behind, 4: VIEW}, silent_until_s=5.0)
    strike(world, name, target="broker-1")
    assert world.done[-1][0] in (5.0, 5.1)
    world = World(at={1: changed(VIEW, master="broker-1")})
    with pytest.raises(NotNow, match="not broker-1"):
        strike(world, name, target="broker-1")
    assert not any(what.startswith(("harm", "roll")) for _, what in world.done)


@pytest.mark.parametrize("name", LOSSES)
def test_only_one_slave_is_chosen_and_only_while_all_are_in_sync(name: str) -> None:
    chosen = {fault(name).plan(VIEW, Random(seed), "t").targets for seed in range(20)}
    assert chosen == {("broker-1",), ("broker-2",)}
    unsettled = (changed(VIEW, settled=False), changed(VIEW, in_sync=BROKERS[1:]), changed(VIEW, master=""))
    for view in unsettled:
        with pytest.raises(NotNow):
            fault(name).plan(view, Random(1), "t")
    for target in ("broker-0", "store-0"):
        with pytest.raises(NotNow, match=f"not {target}"):
            fault(name, target=target).plan(VIEW, Random(1), "t")


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("target", ["all", "master", "minority", "random(2)", "50%", "tier", "controllers"])
def test_other_targets_are_refused_before_anything_starts(name: str, target: str, tmp_path: Path) -> None:
    file = tmp_path / "it.yaml"
    file.write_text(
        "system: reference\nduration: 9s\nworkloads: [queue]\n"
        f'faults:\n  - {name}: {{target: "{target}"}}\n    at: 1s\n'
    )
    with pytest.raises(BadInput, match="only one may lose"):
        load_experiment(file, deployment="sim")


def test_bytes_that_are_too_young_or_too_few_are_refused() -> None:
    for name, options in (
        ("truncate", {"age_s": 0.5}),
        ("bit_flip", {"flips": 0}),
        ("misdirected_write", {"sectors": 0}),
    ):
        with pytest.raises(ValueError, match="or more"):
            fault(name, **options)
