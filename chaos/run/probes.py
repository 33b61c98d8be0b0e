"""What shows from outside whether a fault has its effect: nodes that don't answer, connections that fail.

A fault's ``probe`` asks these while it lasts and again after its undo. What they report has ``effect`` besides what was
seen: ``full`` when all of it shows the fault, ``part`` when some does, ``none`` when nothing does, and ``unclear`` when
connections fail, but nothing shows that the fault is why. Where the deployment can't probe
(:class:`chaos.deployment.CanProbe`), nothing is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain, combinations, islice, product
from typing import cast

from chaos.deployment import CanProbe, CanTellCuts
from chaos.driver import ClusterView
from chaos.effects.links import Reach
from chaos.experiment.targets import CLIENT
from chaos.fault import NotNow, World
from chaos.tasks import gather

EFFECT, ANSWERS, ACROSS, WITHIN = "effect", "answers", "across", "within"
#: Between the two ends of a connection that was tried.
TO = " > "
#: So many connections between nodes are tried at most: through the cut, and besides it.
MOST_PAIRS = 4

#: Nothing gets from the first names to the second ones.
Cut = tuple[Sequence[str], Sequence[str]]


class Extent(StrEnum):
    """How much of what a probe saw shows the fault."""

    FULL = "full"
    PART = "part"
    NONE = "none"
    UNCLEAR = "unclear"


async def silence(world: World, nodes: Sequence[str]) -> Mapping[str, object]:
    """Ping nodes that a fault holds down or holds still: which of them answer?"""
    prober = world.deployment
    if not isinstance(prober, CanProbe) or not nodes:
        return {}
    answers = dict(zip(nodes, await gather(*(prober.answers(node) for node in nodes)), strict=True))
    return {EFFECT: str(_extent(not answer for answer in answers.values())), ANSWERS: answers}


async def must_answer(world: World, node: str) -> None:
    """Check that a node answers. Raises :class:`NotNow` for one that is down or held still: what it would feel would
    not be this fault's."""
    prober = world.deployment
    if isinstance(prober, CanProbe) and not await prober.answers(node):
        raise NotNow(f"{node} does not answer")


async def severance(world: World, cuts: Sequence[Cut]) -> Mapping[str, object]:
    """Try connections through the cuts, which a rule must stop, and others between nodes of one side, which must work
    (``within``; they say nothing of the effect). A way is written ``broker-0 > broker-1``. None stands for one through
    a cut that fails without a rule that is seen to stop it, where the deployment can see that."""
    prober = world.deployment
    if not isinstance(prober, CanProbe):
        return {}
    across, within = ways(cuts, world.view)
    found = await gather(*(_tried(prober, way) for way in (*across, *within)))
    seen = [(f"{source}{TO}{target}", works) for (source, target), works in zip((*across, *within), found, strict=True)]
    if not across:
        return {}
    return {
        EFFECT: str(_severed([works for _, works in seen[: len(across)]])),
        ACROSS: dict(seen[: len(across)]),
        WITHIN: {way: bool(works) for way, works in seen[len(across) :]},
    }


async def _tried(prober: CanProbe, way: tuple[str, str]) -> bool | None:
    """Return whether this connection works; None if it does not, and it is not known to be cut."""
    if not isinstance(prober, CanTellCuts):
        return await prober.reaches(*way)
    found = await prober.try_link(*way)
    return None if found is Reach.FAILS else found is Reach.WORKS


def _severed(works: Sequence[bool | None]) -> Extent:
    shown = _extent(found is False for found in works)
    return Extent.UNCLEAR if shown is Extent.NONE and None in works else shown


def caused(probe: Mapping[str, object], *sides: str) -> int:
    """How many hits of rules the connections that a probe has tried on these ``sides`` may have caused: one each, and
    one more between nodes, where a kernel repeats an answer that was not heard. Clients dial through a proxy."""
    tried = [way for side in sides for way in cast(Mapping[str, bool], probe.get(side, {}))]
    return sum(1 if way.startswith(CLIENT + TO) else 2 for way in tried)


def ways(cuts: Sequence[Cut], view: ClusterView) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Which connections to try: through the cuts, each as different a one as can be, and besides them, so that each
    node that still has a partner is in one. ``*`` in a cut stands for every name, so a client dials through it too."""
    nodes = [*view.brokers, *view.controllers, *view.others, *view.tier]
    within: list[tuple[str, str]] = []
    for one, other in combinations(nodes, 2):
        tried = {name for way in within for name in way}
        if not {one, other} & tried and not any(_holds(cut, one, other) or _holds(cut, other, one) for cut in cuts):
            within.append((one, other))
    clients = (side for cut in cuts if "*" in chain(*cut) for side in cut if side[0] in nodes)
    return [*_across(cuts, nodes), *((CLIENT, side[0]) for side in islice(clients, 1))], within[:MOST_PAIRS]


def _across(cuts: Sequence[Cut], nodes: Sequence[str]) -> list[tuple[str, str]]:
    """Through each cut one; then more, while one tries a node of a cut that none has tried, from where none has begun:
    what begins at one node may be tried one after another."""
    found: list[tuple[str, str]] = []
    for turn, cut in product(range(MOST_PAIRS), cuts):
        untried = {*chain(*cut)} - {*chain(*found)}
        begun = {source for source, _ in found if source in nodes} if turn else set()
        fits = (way for way in _through(*cut, nodes, found) if way[0] not in begun)
        way = next((way for way in fits if not turn or untried & {*way}), None)
        if way is not None and way not in found and way[::-1] not in found:
            found.append(way)
    return found[:MOST_PAIRS]


def _through(
    sources: Sequence[str], targets: Sequence[str], nodes: Sequence[str], tried: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Return connections that the cut stops, those between nodes that were not tried yet first; only nodes are
    dialled."""
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


def _extent(shown: Iterable[bool]) -> Extent:
    seen = list(shown)
    return Extent.FULL if all(seen) else Extent.PART if any(seen) else Extent.NONE
