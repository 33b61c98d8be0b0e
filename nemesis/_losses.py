"""What the faults have in common that take from a replica what its disk had promised to keep.

Promises stand only while somebody else is sure to hold everything: so they hit a single slave, while nobody is out of
sync, and it has to run and to answer for as long as it takes its bytes to become old.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import cast

from chaos.deployment import CanHarmDisks
from chaos.driver import ClusterView
from chaos.effects.corruption import Harm
from chaos.experiment.targets import check_single_slave, choose
from chaos.fault import Effect, Effects, Injection, NotNow, Undo, Verb, World, on
from chaos.run.probes import must_answer, silence

#: Damage to younger bytes can't be distinguished from what a crash does.
LEAST_AGE_S = 1.0
#: The others are sure to hold everything within this time, looking this often, or it has to be another time.
SPARE_WITHIN_S, LOOK_S = 3.0, 0.1


def check(target: str, age_s: float) -> None:
    """Raise ``ValueError`` for options that can't be kept."""
    check_single_slave(target, "only one may lose what its disk holds")
    if age_s < LEAST_AGE_S:
        raise ValueError(f"age_s must be {LEAST_AGE_S:g} or more")


def lost(node: str) -> Effects:
    """Return what such a fault does to its slave."""
    return on((node,), Effect.TAKES_DOWN, Effect.MAY_CRASH, Effect.LOSES_DISK)


def one_slave(target: str, view: ClusterView, rng: Random) -> str:
    """Choose a slave that is not needed. Raises :class:`NotNow`."""
    node = choose(target, view, rng)[0]
    must_be_spare(view, node)
    return node


def must_be_spare(view: ClusterView, node: str) -> None:
    """Raise :class:`NotNow` unless all others hold what this slave holds."""
    if node not in view.brokers or node in view.leaders:
        raise NotNow(f"only a slave may lose what it holds, not {node}")
    if not view.settled or not view.all_in_sync:
        raise NotNow("a replica is out of sync; one more copy must not go")


async def until_spare(world: World, node: str) -> None:
    """Wait until all others hold what this slave holds. Raises :class:`NotNow` when that takes too long."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + SPARE_WITHIN_S
    while True:
        try:
            await must_answer(world, node)
            must_be_spare(world.view, node)
            return
        except NotNow:
            if node in world.view.leaders or loop.time() > deadline_s:
                raise
        await asyncio.sleep(LOOK_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class OldBytes:
    """Marks the disk of a slave, waits for ``age_s``, and does this harm to it."""

    target: str
    age_s: float
    harm: Harm
    needs: Sequence[type] = (CanHarmDisks,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        node = one_slave(self.target, view, rng)
        detail = {"age_s": self.age_s, "files": self.harm.files, "draw": rng.getrandbits(32)}
        undo = (Undo(verb=Verb.START, subject=node),)
        return Injection(targets=(node,), undo=undo, detail=detail, effects=lost(node))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        (node,) = injection.targets
        host = cast(CanHarmDisks, world.deployment)
        world.hold(injection, ())
        await must_answer(world, node)
        marked = await host.mark_disk(node)
        await asyncio.sleep(self.age_s)
        await until_spare(world, node)
        world.hold(injection, (node,))
        harm = replace(self.harm, draw=cast(int, injection.detail["draw"]))
        return {node: await host.harm_disk(node, marked, harm)}

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await silence(world, injection.targets)
