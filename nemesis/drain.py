"""Have the system take everything from a node that runs, as an operator does before maintenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from chaos.driver import CanDrain, ClusterView
from chaos.experiment.targets import choose
from chaos.fault import Effect, Injection, NotNow, Undo, Verb, World, on


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: one, group_member, owner, or a node's name. What the node gave up may come back once this is
    undone."""

    target: str = "one"


@dataclass(frozen=True, slots=True)
class Drain:
    options: Options
    needs: Sequence[type] = (CanDrain,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        targets = choose(self.options.target, view, rng)
        if len(targets) != 1:
            raise NotNow(f"only a single node is drained at once, not {', '.join(targets)}")
        if not view.settled:
            raise NotNow("the system is not settled: what the node gives up would have nowhere to go")
        undo = tuple(Undo(verb=Verb.UNDRAIN, subject=name) for name in targets)
        return Injection(targets=targets, undo=undo, effects=on(targets, Effect.REMOVES_REPLICA))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        (node,) = injection.targets
        return {node: await world.drain(node)}

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        (node,) = injection.targets
        return {"in_use": {node: len(_uses(world.view, node))}}


def _uses(view: ClusterView, node: str) -> list[str]:
    """Return the groups that a node leads, or holds data of."""
    return [group.name for group in view.groups_of(node) if group.holds_data or group.leader == node]


def create(options: Options) -> Drain:
    return Drain(options)
