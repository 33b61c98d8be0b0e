"""Crash a slave and empty its disk: it comes back as a replica without data, and must copy everything again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import cast

from chaos.deployment import CanWipe
from chaos.driver import ClusterView
from chaos.experiment.targets import check_single_slave, choose
from chaos.fault import Effect, Injection, NotNow, Undo, Verb, World, each, on
from chaos.run.probes import silence


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: slave, or the name of a broker (which is spared while it is the master)."""

    target: str = "slave"

    def __post_init__(self) -> None:
        check_single_slave(self.target, "only one may lose its disk")


@dataclass(frozen=True, slots=True)
class Wipe:
    options: Options
    needs: Sequence[type] = (CanWipe,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        """Choose one slave; never more of the set than one at a time, or promises would be void."""
        targets = choose(self.options.target, view, rng)
        if len(targets) != 1 or targets[0] not in view.brokers or targets[0] in view.leaders:
            raise NotNow(f"only a single slave may lose its disk, not {', '.join(targets)}")
        if not view.settled or not view.all_in_sync:
            raise NotNow("a replica is out of sync; one more copy must not go")
        effects = on(targets, Effect.TAKES_DOWN, Effect.MAY_CRASH, Effect.LOSES_DISK)
        return Injection(targets=targets, undo=(Undo(verb=Verb.START, subject=targets[0]),), effects=effects)

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await each(injection.targets, cast(CanWipe, world.deployment).wipe)

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await silence(world, injection.targets)


def create(options: Options) -> Wipe:
    return Wipe(options)
