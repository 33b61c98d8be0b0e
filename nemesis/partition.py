"""Cut links between nodes: bytes wait and new connections hang until the cut is undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import cast

from chaos.deployment import CanRuleLinks
from chaos.driver import ClusterView
from chaos.effects.links import Drop
from chaos.experiment.targets import CLIENT, choose, choose_ends
from chaos.fault import Effect, Effects, Injection, NotNow, World, on
from chaos.run.probes import severance
from nemesis._links import EVERYBODY, Peers, others, put_up, rule, undo_of

ALIASES: Mapping[str, Mapping[str, object]] = {
    "leader-partition": {"target": "master"},  # OpenChaos, as the next two
    "random-partition": {"target": "random"},
    "fixed-partition": {"target": "one"},
    "partition-majorities-ring": {"shape": "majorities_ring"},  # OpenChaos and Jepsen, as the next one
    "bridge": {"shape": "bridge"},
    "partition-halves": {"shape": "halves"},  # Jepsen, as the next four
    "partition-random-halves": {"shape": "random_halves"},
    "partition-random-node": {"shape": "isolate", "target": "one"},
    "partition-majority": {"shape": "majority", "target": "master"},
    "start-partition": {},
    "partition-minority": {"shape": "halves", "target": "master"},
    "isolate": {"shape": "isolate"},
    "partition-oneway": {"shape": "one_way"},
    "client-cut": {"shape": "apart", "target": "all", "away_from": ["clients"]},
    "controllers-from-brokers": {"shape": "apart", "target": "controllers", "away_from": ["brokers"]},
    "isolate-controller": {"shape": "isolate", "target": "controller_leader"},
    "controller-leader-cut": {"shape": "isolate", "target": "controller_leader"},
}


class Shape(StrEnum):
    """isolate: the targets are cut off from all others, clients included (only the harness still reaches them).
    halves: controllers and brokers are split into two sides, the targets on the smaller one; clients reach both.
    majority: the same, but the targets are on the larger side.
    random_halves: a random half of all controllers and brokers is cut off from the other half.
    one_way: the targets receive but can't send, or the other way round (the seed draws which).
    majorities_ring: each node still reaches a majority of its kind, and no two the same one.
    bridge: two sides that only one node still connects.
    apart: the targets and all others of the kinds in ``away_from`` can't reach each other; no other link is cut."""

    ISOLATE = "isolate"
    HALVES = "halves"
    MAJORITY = "majority"
    RANDOM_HALVES = "random_halves"
    ONE_WAY = "one_way"
    MAJORITIES_RING = "majorities_ring"
    BRIDGE = "bridge"
    APART = "apart"


#: Shapes that know only the targets and all others, so clients can be the targets.
FOR_CLIENTS = (Shape.ISOLATE, Shape.ONE_WAY, Shape.APART)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``shape``: isolate, halves, majority, random_halves, one_way, majorities_ring, bridge, apart. ``target``: as in
    ``kill``, or client (for isolate, one_way and apart); majorities_ring and random_halves ignore it, and for bridge it
    is the node that connects both sides. ``away_from`` (for apart): brokers, controllers, nameservers, store,
    clients."""

    shape: Shape = Shape.ISOLATE
    target: str = "one"
    away_from: tuple[Peers, ...] = (Peers.BROKERS,)

    def __post_init__(self) -> None:
        if self.target == CLIENT and self.shape not in FOR_CLIENTS:
            raise ValueError(f"target client goes with the shapes {', '.join(FOR_CLIENTS)}, not with {self.shape}")
        if not self.away_from:
            raise ValueError(f"away_from must name at least one of {', '.join(Peers)}")


#: A cut: nothing gets from the first names to the second ones.
Cut = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Partition:
    options: Options
    needs: Sequence[type] = (CanRuleLinks,)
    link_actions: Sequence[type] = (Drop,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        targets, cuts = self._cuts(view, rng)
        if not all(sources and sinks for sources, sinks in cuts) or not cuts:
            raise NotNow(f"too few nodes for a partition of shape {self.options.shape}")
        undo = undo_of(tag, range(len(cuts)))
        shown = [[list(sources), list(sinks)] for sources, sinks in cuts]
        return Injection(
            targets=targets,
            undo=undo,
            detail={"shape": str(self.options.shape), "cuts": shown},
            effects=self._effects(targets, cuts),
            concerns={step.subject: (*cut[0], *cut[1]) for step, cut in zip(undo, cuts, strict=True)},
        )

    def _effects(self, targets: tuple[str, ...], cuts: Sequence[Cut]) -> Effects:
        """Return the effects: who is isolated serves no client either; of other shapes all ends lose links, but for
        those named ``*``."""
        if CLIENT in targets:
            return on(targets, Effect.CUTS_CLIENTS)
        if self.options.shape in (Shape.ISOLATE, Shape.HALVES):
            return on(targets, Effect.ISOLATES)
        from_clients = self.options.shape == Shape.APART and Peers.CLIENTS in self.options.away_from
        between_nodes = [cut for cut in cuts if all(set(side) - {CLIENT} for side in cut)]
        ends = sorted({name for cut in between_nodes for side in cut for name in side} - {*EVERYBODY, CLIENT})
        return {
            **(on(ends, Effect.CUTS) if ends else {}),
            **(on(targets, Effect.CUTS_CLIENTS) if from_clients else {}),
        }

    def _cuts(self, view: ClusterView, rng: Random) -> tuple[tuple[str, ...], list[Cut]]:
        """Return the targets, and what can't get where."""
        shape, word = self.options.shape, self.options.target
        if shape in FOR_CLIENTS:
            targets = choose_ends(word, view, rng)
            if shape == Shape.ISOLATE:
                return targets, both_ways(targets, EVERYBODY)
            if shape == Shape.APART:
                return targets, both_ways(targets, others(targets, self.options.away_from, view))
            return targets, [(targets, EVERYBODY) if rng.random() < 0.5 else (EVERYBODY, targets)]
        nodes = (*sorted(view.controllers), *sorted(view.brokers))
        if shape == Shape.MAJORITIES_RING:
            return nodes, ring(sorted(view.controllers), rng) + ring(sorted(view.brokers), rng)
        if shape == Shape.RANDOM_HALVES:
            some = tuple(sorted(rng.sample(nodes, len(nodes) // 2)))
            return some, both_ways(some, tuple(name for name in nodes if name not in some))
        targets = choose(word, view, rng)
        if shape == Shape.BRIDGE:
            return targets, _bridge(targets, view, rng)
        keepers = (*sorted(view.others), *sorted(view.tier))  # they stay with the larger side
        if shape == Shape.MAJORITY:
            targets, rest = _larger(targets, view, rng)
            return targets, both_ways(rest, (*targets, *keepers))
        targets, rest = _sides(targets, view, rng)
        return targets, both_ways(targets, (*rest, *keepers))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        cuts = cast(list[list[list[str]]], injection.detail["cuts"])
        return await put_up(world, injection, [rule(a, b, Drop(), world.view) for a, b in cuts])

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await severance(world, cast(list[Cut], injection.detail["cuts"]))


def both_ways(one: tuple[str, ...], other: tuple[str, ...]) -> list[Cut]:
    return [(one, other), (other, one)]


def ring(nodes: Sequence[str], rng: Random) -> list[Cut]:
    """Leave each node of a ring in random order only the links that it needs to reach a majority, itself counted: with
    its neighbours on both sides, as far as needed, and where that is an odd number, with one across the ring.

    Both directions of a link go or stay: a connection of which one direction is cut is of no use.
    """
    order = rng.sample(nodes, len(nodes))
    count = len(order)
    reach, across = divmod(count // 2, 2)
    kept = {frozenset((place, (place + step) % count)) for place in range(count) for step in range(1, reach + 1)}
    if across:
        kept |= {frozenset((place, place + count // 2)) for place in range((count + 1) // 2)}
    cuts: list[Cut] = []
    for place, node in enumerate(order):
        lost = [order[other] for other in range(place) if frozenset((place, other)) not in kept]
        if lost:
            cuts += both_ways((node,), tuple(sorted(lost)))
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


def _larger(targets: tuple[str, ...], view: ClusterView, rng: Random) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Cut a minority of the controllers and of the brokers off from the targets' side."""
    smaller: set[str] = set()
    for kind in (sorted(view.controllers), sorted(view.brokers)):
        free = [name for name in kind if name not in targets]
        smaller.update(rng.sample(free, min(len(free), (len(kind) - 1) // 2)))
    nodes = (*sorted(view.controllers), *sorted(view.brokers))
    return tuple(n for n in nodes if n not in smaller), tuple(n for n in nodes if n in smaller)


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
