"""Crash a node that holds data and empty its disk: it comes back without anything, under its old name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import cast

from chaos.deployment import CanWipe
from chaos.driver import ClusterView
from chaos.experiment.targets import choose
from chaos.fault import Effect, Injection, NotNow, World, each, on
from chaos.run.probes import silence
from nemesis._lives import starts


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: group_member, group_leader, or the name of a node that holds data. Unlike with ``wipe`` it may lead:
    for systems in which whatever was acknowledged is on a majority. Without ``for`` it stays away until the load
    ends."""

    target: str = "group_member"


@dataclass(frozen=True, slots=True)
class StoreLoss:
    options: Options
    needs: Sequence[type] = (CanWipe,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        """Choose one node; never another one before all copies of the last one have been made again, or promises would
        be void."""
        targets = choose(self.options.target, view, rng)
        if len(targets) != 1 or not any(group.holds_data for group in view.groups_of(targets[0])):
            raise NotNow(f"only a single node that holds data may lose its disk, not {', '.join(targets)}")
        if not view.settled or not view.all_in_sync:
            raise NotNow("a replica is out of sync; one more copy must not go")
        effects = on(targets, Effect.TAKES_DOWN, Effect.MAY_CRASH, Effect.LOSES_DISK)
        return Injection(targets=targets, undo=starts(targets), effects=effects)

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await each(injection.targets, cast(CanWipe, world.deployment).wipe)

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await silence(world, injection.targets)


def create(options: Options) -> StoreLoss:
    return StoreLoss(options)
