"""Change the members of a group: a broker leaves and joins again, with or without its disk; or a new one is added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import cast

from chaos.deployment import CanAddNodes, CanKill, CanProbe, CanWipe
from chaos.driver import CanAddBrokers, CanRemoveBrokers, ClusterView
from chaos.experiment.targets import check_single_slave, choose
from chaos.fault import Effect, Injection, NotNow, Rest, Undo, Verb, World, on
from chaos.run.probes import silence

#: How often it is looked whether a newcomer is in sync.
LOOK_S = 0.1


class Change(StrEnum):
    REMOVE = "remove"
    REPLACE = "replace"
    ADD = "add"


ALIASES: Mapping[str, Mapping[str, object]] = {
    "remove-broker": {"change": "remove"},
    "leave": {"change": "remove"},
    "shrink": {"change": "remove"},
    "replace-broker": {"change": "replace"},
    "add-broker": {"change": "add"},
    "join": {"change": "add"},
    "grow": {"change": "add"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: slave, or the name of a broker (which is spared while it is the master). ``change``: remove (it is
    crashed, and the controllers are asked to forget it), replace (the same, and its disk is emptied) or add. A broker
    that was removed or replaced joins the group again, under a new id, when the fault is undone. With add, a new broker
    joins the group, whatever ``target`` says. It stays, so nothing is undone; the fault lasts until it is in sync."""

    target: str = "slave"
    change: Change = Change.REMOVE

    def __post_init__(self) -> None:
        check_single_slave(self.target, "only one may leave")


@dataclass(frozen=True, slots=True)
class Membership:
    options: Options

    @property
    def needs(self) -> Sequence[type]:
        match self.options.change:
            case Change.ADD:
                return (CanAddBrokers, CanAddNodes)
            case Change.REPLACE:
                return (CanRemoveBrokers, CanWipe)
            case _:
                return (CanRemoveBrokers, CanKill)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        """Choose one slave; never more of the set than one at a time, or promises would be void."""
        detail = {"change": str(self.options.change)}
        if self.options.change == Change.ADD:
            if not view.newcomers:
                raise NotNow("the group is as large as it may be")
            newcomer = view.newcomers[:1]
            return Injection(targets=newcomer, detail=detail, passes=True, effects=on(newcomer, Effect.ADDS_REPLICA))
        targets = choose(self.options.target, view, rng)
        if len(targets) != 1 or targets[0] not in view.brokers or targets[0] in view.leaders:
            raise NotNow(f"only a single slave may leave, not {', '.join(targets)}")
        if not view.settled or not view.all_in_sync:
            raise NotNow("a replica is out of sync; one more must not leave")
        undo = (Undo(verb=Verb.START, subject=targets[0]),)
        emptied = (Effect.LOSES_DISK,) if self.options.change == Change.REPLACE else ()
        effects = on(targets, Effect.TAKES_DOWN, Effect.MAY_CRASH, Effect.REMOVES_REPLICA, *emptied)
        return Injection(targets=targets, undo=undo, detail=detail, effects=effects)

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        (node,) = injection.targets
        if self.options.change == Change.ADD:
            return await world.add(node)
        if self.options.change == Change.REPLACE:
            gone = await cast(CanWipe, world.deployment).wipe(node)
        else:
            gone = await cast(CanKill, world.deployment).kill(node)
        try:
            return {node: gone, **await world.remove(node)}
        except NotNow:  # it has crashed all the same, and its disk is empty if it was emptied
            done = (effect for effect in injection.effects or () if effect is not Effect.REMOVES_REPLICA)
            world.prove(injection, {node: gone}, *done)
            raise

    async def act(self, world: World, injection: Injection, rest: Rest) -> None:
        """Let a newcomer get in sync."""
        while injection.passes and not _in_sync(world, injection.targets[0]) and await rest(LOOK_S):
            pass

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        if self.options.change != Change.ADD:
            return await silence(world, injection.targets)
        (node,) = injection.targets
        prober = world.deployment
        answers = {"answers": {node: await prober.answers(node)}} if isinstance(prober, CanProbe) else {}
        return {**answers, "in_sync": _in_sync(world, node)}


def _in_sync(world: World, node: str) -> bool:
    view = world.view
    known = any(node in group.in_sync for group in view.groups)
    return known and all(node in group.in_sync for group in view.groups_of(node))


def create(options: Options) -> Membership:
    return Membership(options)
