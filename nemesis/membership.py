"""Change who belongs to a group: a broker leaves it for good, and joins it as a new one, with its disk or without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import cast

from chaos.deployments._base import CanKill, CanWipe
from chaos.driver import CanRemoveBrokers, ClusterView
from chaos.fault import Injection, NotNow, Undo, Verb, World
from chaos.probes import silence
from chaos.targets import choose

ALIASES: Mapping[str, Mapping[str, object]] = {
    "remove-broker": {"change": "remove"},
    "replace-broker": {"change": "replace"},
}


class Change(StrEnum):
    REMOVE = "remove"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: slave, or the name of a broker (which is spared while it is the master). ``change``: remove (it is
    crashed, and the controllers are told to forget it) or replace (its disk is emptied besides). It joins the group
    anew, under a new id, when the fault is undone."""

    target: str = "slave"
    change: Change = Change.REMOVE


@dataclass(frozen=True, slots=True)
class Membership:
    options: Options

    @property
    def needs(self) -> Sequence[type]:
        return (CanRemoveBrokers, CanWipe if self.options.change == Change.REPLACE else CanKill)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        """Choose one slave; never more of the set than one at a time, or promises would be void."""
        targets = choose(self.options.target, view, rng)
        if len(targets) != 1 or targets[0] not in view.brokers or targets[0] == view.master:
            raise NotNow(f"only a single slave may leave, not {', '.join(targets)}")
        if not view.settled or sorted(view.in_sync) != sorted(view.brokers):
            raise NotNow("a replica is out of sync; one more must not leave")
        undo = (Undo(verb=Verb.START, subject=targets[0]),)
        return Injection(targets=targets, undo=undo, detail={"change": str(self.options.change)})

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        (node,) = injection.targets
        if self.options.change == Change.REPLACE:
            gone = await cast(CanWipe, world.deployment).wipe(node)
        else:
            gone = await cast(CanKill, world.deployment).kill(node)
        return {node: gone, **await world.remove(node)}

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await silence(world, injection.targets)


def create(options: Options) -> Membership:
    return Membership(options)
