"""What the faults that press on the machine of a node have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from chaos.driver import ClusterView
from chaos.experiment.targets import choose
from chaos.fault import Effect, Injection, Undo, Verb, World, on, pressed, together
from chaos.run.probes import must_answer, silence

#: Press on this node: the deployment's own method.
Press = Callable[[object, str], Awaitable[Mapping[str, object]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """A fault that presses on the machines of its targets. ``deadly``: a node may end of it, so that its undo starts it
    again."""

    target: str
    kind: str
    press: Press
    needs: Sequence[type]
    deadly: bool = False
    detail: Mapping[str, object] = field(default_factory=dict)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        targets = choose(self.target, view, rng)
        undo = tuple(Undo(verb=Verb.RELEASE, subject=pressed(name, self.kind)) for name in targets)
        if self.deadly:  # the last steps are the first to be undone
            undo = (*(Undo(verb=Verb.START, subject=name) for name in targets), *undo)
        effects = on(targets, Effect.SLOWS, *((Effect.MAY_CRASH,) if self.deadly else ()))
        return Injection(targets=targets, undo=undo, detail=self.detail, effects=effects)

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        async def press(node: str) -> Mapping[str, object]:
            await must_answer(world, node)
            return await self.press(world.deployment, node)

        return await together(injection.targets, press)


class Silencing(Pressure):
    """One that keeps its targets from answering new connections."""

    __slots__ = ()

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await silence(world, injection.targets)
