"""Replace a slave's disk with an old copy, as a restored backup does: it must not count as having everything."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import cast

from chaos.deployment import CanRollBackDisks
from chaos.driver import ClusterView
from chaos.fault import Effect, Injection, NotNow, Undo, Verb, World
from chaos.run.probes import silence
from nemesis._losses import check, lost, one_slave, until_spare

ALIASES: Mapping[str, Mapping[str, object]] = {
    "restore-file-chunks": {},  # Jepsen, as the next one
    "snapshot-file-chunks": {},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``wipe``. It is crashed, its disk is copied, and it is started again. When it has been up for
    ``age_s`` seconds and every replica is in sync, it is crashed again, and the copy becomes its disk."""

    target: str = "slave"
    age_s: float = 3.0

    def __post_init__(self) -> None:
        check(self.target, self.age_s)


@dataclass(frozen=True, slots=True)
class RestoreSnapshot:
    options: Options
    needs: Sequence[type] = (CanRollBackDisks,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        node = one_slave(self.options.target, view, rng)
        undo = (Undo(verb=Verb.START, subject=node),)
        detail = {"age_s": self.options.age_s}
        return Injection(targets=(node,), undo=undo, detail=detail, effects=lost(node))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        (node,) = injection.targets
        host = cast(CanRollBackDisks, world.deployment)
        copied = await host.copy_disk(node)
        world.prove(injection, {node: copied}, Effect.TAKES_DOWN, Effect.MAY_CRASH)
        if not await world.start(node, injection):
            raise NotNow(f"another fault holds {node} down")
        await asyncio.sleep(self.options.age_s)
        await until_spare(world, node)
        world.hold(injection, (node,))
        return {node: {"copy": copied, **await host.roll_back_disk(node)}}

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await silence(world, injection.targets)


def create(options: Options) -> RestoreSnapshot:
    return RestoreSnapshot(options)
