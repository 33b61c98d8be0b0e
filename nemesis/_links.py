"""What the faults on links have in common: rules around their targets, put up by id and undone by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import cast

from chaos.deployment import CanRuleLinks
from chaos.driver import ClusterView
from chaos.effects.links import PASS, Action, Corrupt, Drop, LinkRule, Reset
from chaos.experiment.targets import CLIENT, choose_ends
from chaos.fault import Effect, Effects, Injection, NotNow, Rest, Undo, Verb, World, on

EVERYBODY = ("*",)
#: The numbers that a probability in 1/1000 may have.
PER_MILLE = range(1, 1001)
#: How late, in milliseconds, something may come: what isn't late at all would pass for an effect.
LATE_MS = range(1, 600_001)


class Peers(StrEnum):
    """Kinds of nodes, as the driver distinguishes them, and clients."""

    BROKERS = "brokers"
    CONTROLLERS = "controllers"
    NAMESERVERS = "nameservers"
    STORE = "store"
    CLIENTS = "clients"


class Way(StrEnum):
    """Which way bytes go that a fault meets: what its targets send, what they receive, or both."""

    BOTH = "both"
    OUT = "out"
    IN = "in"


def others(targets: Sequence[str], kinds: Sequence[Peers], view: ClusterView) -> tuple[str, ...]:
    """Return all of these kinds but the targets, sorted."""
    return tuple(name for name in all_of(kinds, view) if name not in targets)


def all_of(kinds: Sequence[Peers], view: ClusterView) -> tuple[str, ...]:
    nodes = {
        Peers.BROKERS: view.brokers,
        Peers.CONTROLLERS: view.controllers,
        Peers.NAMESERVERS: view.others,
        Peers.STORE: view.tier,
        Peers.CLIENTS: (CLIENT,),
    }
    return tuple(sorted({name for kind in kinds for name in nodes[kind]}))


def nodes_of(view: ClusterView) -> tuple[str, ...]:
    return tuple(sorted({*view.controllers, *view.brokers, *view.others, *view.tier}))


def rule(
    sources: Sequence[str], targets: Sequence[str], action: Action, view: ClusterView, but: Sequence[str] = ()
) -> LinkRule:
    """Return the rule for these names; ``*`` is everybody ``but`` some, or, where clients stand on the other side, all
    nodes."""
    if CLIENT not in (*sources, *targets):
        return LinkRule(frozenset(sources), frozenset(targets), action, frozenset(but))
    nodes = frozenset((*nodes_of(view), *view.newcomers))  # one that joins meanwhile is no client

    def named(side: Sequence[str]) -> frozenset[str]:
        if CLIENT in side:
            return frozenset({"*", *side}) - {CLIENT}
        return nodes if "*" in side else frozenset(side)

    return LinkRule(named(sources), named(targets), action, nodes)


def around(targets: Sequence[str], action: Action, view: ClusterView) -> list[LinkRule]:
    """Return the rules for all that the targets send, and all that they receive of others; so each link has one of
    them."""
    return [rule(targets, EVERYBODY, action, view), rule(EVERYBODY, targets, action, view, targets)]


def undo_of(tag: str, names: Sequence[object]) -> tuple[Undo, ...]:
    """Return undo steps for rules with these names."""
    return tuple(Undo(verb=Verb.CLEAR_RULE, subject=f"{tag}-{name}") for name in names)


async def put_up(world: World, injection: Injection, rules: Sequence[LinkRule]) -> Mapping[str, object]:
    """Put up a rule for each undo step, in this order; or put others in their place."""
    links = cast(CanRuleLinks, world.deployment)
    for step, one in zip(injection.undo, rules, strict=True):
        await links.set_rule(step.subject, one)
    return {"rules": [step.subject for step in injection.undo]}


def _effects_of(action: Action, targets: Sequence[str]) -> Effects:
    """Return what an action on all links of the targets does to them."""
    if not isinstance(action, Drop | Reset | Corrupt):
        return on(targets, Effect.SLOWS)
    return on(targets, Effect.CUTS_CLIENTS if CLIENT in targets else Effect.CUTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """A fault that does one thing to all that its targets send and receive."""

    target: str
    action: Action
    detail: Mapping[str, object] = field(default_factory=dict)
    needs: Sequence[type] = (CanRuleLinks,)

    @property
    def link_actions(self) -> Sequence[type]:
        return (type(self.action),)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        targets = choose_ends(self.target, view, rng)
        return Injection(
            targets=targets,
            undo=undo_of(tag, ("out", "in")),
            detail=self.detail,
            effects=_effects_of(self.action, targets),
        )

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await put_up(world, injection, around(injection.targets, self.action, world.view))


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """A fault that does one thing to the links of its targets with certain kinds of nodes, also those among the targets
    themselves, one way or both; no other link notices. Without kinds: with everybody."""

    target: str
    action: Action
    peers: tuple[Peers, ...]
    way: Way = Way.BOTH
    detail: Mapping[str, object] = field(default_factory=dict)
    needs: Sequence[type] = (CanRuleLinks,)

    @property
    def link_actions(self) -> Sequence[type]:
        return (type(self.action),)

    def _sides(self, targets: Sequence[str], view: ClusterView) -> Mapping[Way, tuple[Sequence[str], Sequence[str]]]:
        """Return from whom to whom, for each way. Both ways: a link between two targets is one that they send on."""
        if not self.peers:
            whole = {Way.OUT: (targets, EVERYBODY), Way.IN: (EVERYBODY, targets)}
        else:
            far = all_of(self.peers, view)
            others = tuple(name for name in far if name not in targets) if self.way == Way.BOTH else far
            whole = {Way.OUT: (targets, far), Way.IN: (others, targets)}
        return {way: sides for way, sides in whole.items() if self.way in (way, Way.BOTH) and all(sides)}

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        targets = choose_ends(self.target, view, rng)
        if self.peers and len({*targets, *all_of(self.peers, view)}) < 2:
            raise NotNow(f"there are no links of {', '.join(targets)} with {', '.join(self.peers)}")
        shown = {"peers": [str(kind) for kind in self.peers]} if self.peers else {}
        way = {"way": str(self.way)} if self.way != Way.BOTH else {}
        return Injection(
            targets=targets,
            undo=undo_of(tag, tuple(self._sides(targets, view))),
            detail={**self.detail, **shown, **way},
            effects=_effects_of(self.action, targets),
        )

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        targets, view = injection.targets, world.view
        known = self._sides(targets, view)
        named = [known[Way(step.subject.rpartition("-")[2])] for step in injection.undo]
        rules = [
            rule(sources, sinks, self.action, view, targets if sources == EVERYBODY and self.way == Way.BOTH else ())
            for sources, sinks in named
        ]
        return await put_up(world, injection, rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulses:
    """A fault of that kind that comes and goes: for ``pulse_s`` of each ``period_s``, beginning with a pulse."""

    around: Around
    period_s: float
    pulse_s: float

    @property
    def needs(self) -> Sequence[type]:
        return self.around.needs

    @property
    def link_actions(self) -> Sequence[type]:
        return self.around.link_actions

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        return self.around.plan(view, rng, tag)

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await self.around.inject(world, injection)

    async def act(self, world: World, injection: Injection, rest: Rest) -> None:
        while await rest(self.pulse_s):
            await put_up(world, injection, around(injection.targets, PASS, world.view))
            if not await rest(self.period_s - self.pulse_s):
                return
            await self.around.inject(world, injection)


def check_period(period_s: float, pulse_s: float, name: str) -> None:
    """Raise ``ValueError`` unless the pulse, the option of that name, is a part of the period."""
    if not 0 < pulse_s < period_s:
        raise ValueError(f"{name}: expected more than 0 s and less than period_s ({period_s:g} s), got {pulse_s:g} s")
