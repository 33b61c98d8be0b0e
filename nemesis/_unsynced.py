"""What the faults have in common that crash nodes while there is something that they have not synced."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from chaos.driver import ClusterView
from chaos.experiment.targets import choose
from chaos.fault import Effect, Injection, Undo, Verb, World, on, together
from chaos.run.probes import silence


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsynced:
    """``crash``: what the deployment does to each target."""

    target: str
    needs: Sequence[type]
    crash: Callable[[object], Callable[[str], Awaitable[Mapping[str, object]]]]

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        targets = choose(self.target, view, rng)
        undo = tuple(Undo(verb=Verb.START, subject=node) for node in targets)
        effects = on(targets, Effect.TAKES_DOWN, Effect.MAY_CRASH)
        return Injection(targets=targets, undo=undo, effects=effects)

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await together(injection.targets, self.crash(world.deployment))

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await silence(world, injection.targets)
