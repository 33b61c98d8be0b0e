"""What shows from outside whether a fault has its effect: nodes that don't answer, connections that fail.

A fault's ``probe`` asks these while it lasts and again after its undo. What they tell has ``effect`` besides what was
seen: ``full`` when all of it shows the fault, ``part`` when some does, ``none`` when nothing does. Where the
deployment can't probe (:class:`chaos.deployments._base.CanProbe`), nothing is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import combinations

from chaos.deployments._base import CanProbe
from chaos.driver import ClusterView
from chaos.fault import NotNow, World
from chaos.tasks import gather

EFFECT = "effect"
#: So many connections are tried at most: through the cut, and besides it.
MOST_PAIRS = 4

#: Nothing gets from the first names to the second ones.
Cut = tuple[Sequence[str], Sequence[str]]


class Effect(StrEnum):
    FULL = "full"
    PART = "part"
    NONE = "none"


async def silence(world: World, nodes: Sequence[str]) -> Mapping[str, object]:
    """Ping nodes that a fault holds down or holds still: which of them answer?"""
    prober = world.deployment
    if not isinstance(prober, CanProbe) or not nodes:
        return {}
    answers = dict(zip(nodes, await gather(*(prober.answers(node) for node in nodes)), strict=True))
    return {EFFECT: str(_effect(not answer for answer in answers.values())), "answers": answers}


async def must_answer(world: World, node: str) -> None:
    """Raises :class:`NotNow` for a node that is down or held still: what it would feel would not be this fault's."""
    prober = world.deployment
    if isinstance(prober, CanProbe) and not await prober.answers(node):
        raise NotNow(f"{node} does not answer")


async def severance(world: World, cuts: Sequence[Cut]) -> Mapping[str, object]:
    """Try connections through the cuts, which must fail, and others between nodes of one side, which must work
    (``within``; they say nothing of the effect). A way is written ``broker-0 > broker-1``."""
    prober = world.deployment
    if not isinstance(prober, CanProbe):
        return {}
    across, within = ways(cuts, world.view)
    found = await gather(*(prober.reaches(*way) for way in (*across, *within)))
    told = [(f"{source} > {target}", works) for (source, target), works in zip((*across, *within), found, strict=True)]
    if not across:
        return {}
    return {
        EFFECT: str(_effect(not works for _, works in told[: len(across)])),
        "across": dict(told[: len(across)]),
        "within": dict(told[len(across) :]),
    }


def tried(probe: Mapping[str, object]) -> int:
    """How many connections between nodes a probe has tried, by what it tells."""
    return sum(len(ways) for side in ("across", "within") if isinstance(ways := probe.get(side), Mapping))


def ways(cuts: Sequence[Cut], view: ClusterView) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Which connections to try: through the cuts, each as different a one as can be, and besides them, so that each
    node that still has a partner is in one. ``*`` in a cut stands for every name."""
    nodes = [*view.brokers, *view.controllers, *view.others, *view.tier]
    across: list[tuple[str, str]] = []
    for sources, targets in cuts:
        way = next(_through(sources, targets, nodes, across), None)
        if way is not None and way not in across and way[::-1] not in across:
            across.append(way)
    within: list[tuple[str, str]] = []
    for one, other in combinations(nodes, 2):
        tried = {name for way in within for name in way}
        if not {one, other} & tried and not any(_holds(cut, one, other) or _holds(cut, other, one) for cut in cuts):
            within.append((one, other))
    return across[:MOST_PAIRS], within[:MOST_PAIRS]


def _through(
    sources: Sequence[str], targets: Sequence[str], nodes: Sequence[str], tried: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Connections that the cut stops, those between nodes that were not tried yet first; only nodes are dialled."""
    names = {name for way in tried for name in way}
    found = []
    for source in _expand(sources, nodes):
        for target in _expand(targets, nodes):
            way = (source, target) if target in nodes else (target, source)
            if source != target and way[1] in nodes:
                found.append(way)
    return iter(sorted(found, key=lambda way: sum(name in names for name in way)))


def _expand(names: Sequence[str], nodes: Sequence[str]) -> Sequence[str]:
    return nodes if "*" in names else names


def _holds(cut: Cut, source: str, target: str) -> bool:
    sources, targets = cut
    return (source in sources or "*" in sources) and (target in targets or "*" in targets)


def _effect(shown: Iterable[bool]) -> Effect:
    seen = list(shown)
    return Effect.FULL if all(seen) else Effect.PART if any(seen) else Effect.NONE
