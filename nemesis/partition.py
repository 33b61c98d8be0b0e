"""Cut links between nodes: bytes wait and dials hang until the cut is undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import cast

from chaos.deployments._base import CanRuleLinks
from chaos.driver import ClusterView
from chaos.fault import Injection, NotNow, Undo, Verb, World
from chaos.links import Drop, LinkRule
from chaos.probes import severance
from chaos.targets import choose


class Shape(StrEnum):
    """isolate: the targets are cut off from everybody, clients included (only the harness still sees them).
    halves: controllers and brokers fall apart in two sides, the targets on the smaller one; clients reach both.
    one_way: the targets hear everybody but aren't heard, or the other way round (the seed draws which).
    majorities_ring: each node hears a majority of its kind, and no two hear the same one.
    bridge: two sides that only one node still connects.
    apart: the targets and all other nodes of the kinds in ``away_from`` can't reach each other; clients notice
    nothing."""

    ISOLATE = "isolate"
    HALVES = "halves"
    ONE_WAY = "one_way"
    MAJORITIES_RING = "majorities_ring"
    BRIDGE = "bridge"
    APART = "apart"


class Peers(StrEnum):
    """Kinds of nodes, as the driver tells them apart."""

    BROKERS = "brokers"
    CONTROLLERS = "controllers"
    NAMESERVERS = "nameservers"
    STORE = "store"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``shape``: isolate, halves, one_way, majorities_ring, bridge, apart. ``target``: as in ``kill``; the ring
    ignores it, and in a bridge it is the bridge. ``away_from``: brokers, controllers, nameservers, store; for apart."""

    shape: Shape = Shape.ISOLATE
    target: str = "one"
    away_from: tuple[Peers, ...] = (Peers.BROKERS,)


#: A cut: nothing gets from the first names to the second ones.
Cut = tuple[tuple[str, ...], tuple[str, ...]]

EVERYBODY = ("*",)


@dataclass(frozen=True, slots=True)
class Partition:
    options: Options
    needs: Sequence[type] = (CanRuleLinks,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        match self.options.shape:
            case Shape.ISOLATE:
                targets = choose(self.options.target, view, rng)
                cuts = both_ways(targets, EVERYBODY)
            case Shape.HALVES:
                targets, rest = _sides(choose(self.options.target, view, rng), view, rng)
                cuts = both_ways(targets, (*rest, *sorted(view.others), *sorted(view.tier)))
            case Shape.ONE_WAY:
                targets = choose(self.options.target, view, rng)
                cuts = [(targets, EVERYBODY) if rng.random() < 0.5 else (EVERYBODY, targets)]
            case Shape.MAJORITIES_RING:
                targets = (*sorted(view.controllers), *sorted(view.brokers))
                cuts = ring(sorted(view.controllers), rng) + ring(sorted(view.brokers), rng)
            case Shape.BRIDGE:
                targets = choose(self.options.target, view, rng)
                cuts = _bridge(targets, view, rng)
            case Shape.APART:
                targets = choose(self.options.target, view, rng)
                cuts = both_ways(targets, _others(targets, self.options.away_from, view))
        if not all(sources and sinks for sources, sinks in cuts) or not cuts:
            raise NotNow(f"too few nodes for a partition of shape {self.options.shape}")
        undo = tuple(Undo(verb=Verb.CLEAR_RULE, subject=f"{tag}-{number}") for number in range(len(cuts)))
        shown = [[list(sources), list(sinks)] for sources, sinks in cuts]
        return Injection(targets=targets, undo=undo, detail={"shape": str(self.options.shape), "cuts": shown})

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        links = cast(CanRuleLinks, world.deployment)
        cuts = cast(list[list[list[str]]], injection.detail["cuts"])
        for step, (sources, sinks) in zip(injection.undo, cuts, strict=True):
            await links.set_rule(step.subject, LinkRule(frozenset(sources), frozenset(sinks), Drop()))
        return {"rules": [step.subject for step in injection.undo]}

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await severance(world, cast(list[Cut], injection.detail["cuts"]))


def both_ways(one: tuple[str, ...], other: tuple[str, ...]) -> list[Cut]:
    return [(one, other), (other, one)]


def ring(nodes: Sequence[str], rng: Random) -> list[Cut]:
    """Let each node hear itself and the next ``n // 2`` of a ring in random order, and nobody else."""
    order = rng.sample(nodes, len(nodes))
    count = len(order)
    cuts: list[Cut] = []
    for place, node in enumerate(order):
        unheard = [order[(place + step) % count] for step in range(count // 2 + 1, count)]
        if unheard:
            cuts.append((tuple(sorted(unheard)), (node,)))
    return cuts


def _sides(targets: tuple[str, ...], view: ClusterView, rng: Random) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Fill the targets' side up to a minority of the controllers and of the brokers."""
    smaller = set(targets)
    for kind in (sorted(view.controllers), sorted(view.brokers)):
        missing = len(kind) // 2 - sum(name in smaller for name in kind)
        free = [name for name in kind if name not in smaller]
        smaller.update(rng.sample(free, max(0, missing)))
    nodes = (*sorted(view.controllers), *sorted(view.brokers))
    return tuple(n for n in nodes if n in smaller), tuple(n for n in nodes if n not in smaller)


def _others(targets: tuple[str, ...], kinds: Sequence[Peers], view: ClusterView) -> tuple[str, ...]:
    nodes = {
        Peers.BROKERS: view.brokers,
        Peers.CONTROLLERS: view.controllers,
        Peers.NAMESERVERS: view.others,
        Peers.STORE: view.tier,
    }
    return tuple(sorted({name for kind in kinds for name in nodes[kind]} - set(targets)))


def _bridge(targets: tuple[str, ...], view: ClusterView, rng: Random) -> list[Cut]:
    one: list[str] = []
    other: list[str] = []
    for kind in (sorted(view.controllers), sorted(view.brokers)):
        free = [name for name in kind if name not in targets]
        order = rng.sample(free, len(free))
        half = (len(order) + 1) // 2
        one += order[:half]
        other += order[half:]
    return both_ways(tuple(sorted(one)), tuple(sorted(other)))


def create(options: Options) -> Partition:
    return Partition(options)
