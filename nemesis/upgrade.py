"""Have nodes run another version of the system, one after another, and go back to the first in the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import cast

from chaos.deployment import CanReplaceNodes
from chaos.driver import CanUpgrade, ClusterView, ReportsVersion
from chaos.errors import BadInput
from chaos.experiment.targets import choose
from chaos.fault import Injection, NotNow, Rest, Undo, Verb, World
from chaos.run.probes import silence
from nemesis._lives import How, downs, one_by_one, power, starts, take_down


class Order(StrEnum):
    """In which order nodes change."""

    DRAWN = "drawn"
    NAMES = "names"
    LEADERS_FIRST = "leaders_first"
    LEADERS_LAST = "leaders_last"


class StopAt(StrEnum):
    """How many of the targets change: one, half of them (rounded down, but one at least), or all."""

    ONE = "one"
    HALF = "half"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``to``: the version, which must be installed. ``target``: as in ``kill``. ``order``: drawn (by the seed), names,
    leaders_first or leaders_last. With ``stop_at`` one or half the others never change, so that versions are mixed
    until the fault ends; after all many a system refuses to go ``back``, which nodes do with the undo, one by one.
    ``how``, ``down_s``, ``pause_s`` and ``within_s`` as in ``rolling_restart``."""

    to: str = ""
    target: str = "all"
    order: Order = Order.DRAWN
    stop_at: StopAt = StopAt.HALF
    back: bool = True
    how: How = How.STOP
    down_s: float = 0.2
    pause_s: float = 1.0
    within_s: float = 15.0

    def __post_init__(self) -> None:
        if self.down_s < 0 or not 0 <= self.pause_s <= self.within_s:
            raise ValueError("down_s must not be less than 0, nor pause_s more than within_s")


@dataclass(frozen=True, slots=True)
class Upgrade:
    options: Options

    @property
    def needs(self) -> Sequence[type]:
        return (power(self.options.how), CanReplaceNodes, CanUpgrade)

    def misfits(self, driver: object) -> Mapping[str, str]:
        """Refuse a version that the driver doesn't know, that is not installed here, or that runs already."""
        to = self.options.to
        if not to:
            return {"to": "name the version that nodes change to"}
        if isinstance(driver, ReportsVersion) and driver.system_version() == to:
            return {"to": f"{to} is the version in which the run begins; name another one"}
        try:
            specs = cast(CanUpgrade, driver).in_version(to).values()
        except (BadInput, ValueError) as error:
            return {"to": str(error)}
        recipes = (spec.program.recipe for spec in specs if spec.program is not None)
        problem = next((recipe.problem for recipe in recipes if recipe is not None and recipe.problem), "")
        return {"to": problem} if problem else {}

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        options = self.options
        chosen = self._ordered(choose(options.target, view, rng), view, rng)
        targets = chosen[: {StopAt.ONE: 1, StopAt.HALF: max(1, len(chosen) // 2)}.get(options.stop_at, len(chosen))]
        restores = [Undo(verb=Verb.RESTORE, subject=node) for node in targets] if options.back else []
        undo = [step for both in zip(starts(targets), restores, strict=False) for step in both] or starts(targets)
        return Injection(
            targets=targets,
            undo=tuple(undo),
            detail={"to": options.to, "order": str(options.order), "stop_at": str(options.stop_at)},
            passes=not options.back,
            effects=downs(targets),
        )

    def _ordered(self, nodes: Sequence[str], view: ClusterView, rng: Random) -> tuple[str, ...]:
        if self.options.order is Order.DRAWN:
            return tuple(rng.sample(nodes, len(nodes)))
        if self.options.order is Order.NAMES:
            return tuple(nodes)
        leads = {*view.leaders, view.controller_leader}
        first = self.options.order is Order.LEADERS_FIRST
        return tuple(sorted(nodes, key=lambda node: ((node in leads) != first, node)))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await self._change(world, injection.targets[0])

    async def act(self, world: World, injection: Injection, rest: Rest) -> None:
        options = self.options

        async def strike(node: str) -> bool:
            try:
                world.prove(injection, await self._change(world, node))
            except NotNow:  # another fault has it, or had it back up at once
                await world.start(node, injection)
                return False
            return True

        pace = {"down_s": options.down_s, "pause_s": options.pause_s, "within_s": options.within_s}
        await one_by_one(world, injection, rest, strike, **pace)

    async def _change(self, world: World, node: str) -> Mapping[str, object]:
        """End a node, and have it run the other version from its next life on. Raises :class:`NotNow`."""
        proof = await take_down(world, self.options.how, (node,))
        changed = await world.change_version(node, self.options.to)
        return {node: {**cast(Mapping[str, object], proof[node]), "version": changed}}

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await silence(world, injection.targets[:1])

    def achieved(self, world: World, injection: Injection) -> bool:
        """Return whether a life in the other version has begun."""
        return bool({*injection.targets} & {*cast(CanReplaceNodes, world.deployment).replaced()})


def create(options: Options) -> Upgrade:
    return Upgrade(options)
