"""Which of the declared effects of an injection took place, and on which nodes: the one place that decides it.

Two things prove effects at the injection: what the fault itself showed, by target (:func:`chaos.fault.each`), and what
its probe saw from outside. What shows only while the fault lasts is proven at its undo, by the hits of its rules and by
what it did meanwhile. What contradicts an effect counts for more than what speaks for it: a node that answers is not
down, and one that still reaches another node is not isolated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from chaos.experiment.targets import CLIENT
from chaos.fault import Effect, Effects, Injection
from chaos.run.probes import ACROSS, ANSWERS, TO

Seen = Mapping[str, object]
#: Effects on connections: these a probe shows by connections that fail.
ON_LINKS = (Effect.ISOLATES, Effect.CUTS, Effect.CUTS_CLIENTS, Effect.HARMS_TIER)
#: Effects that rules on links, disks and the tier have whenever they hit something.
BY_HITS = (*ON_LINKS, Effect.SLOWS, Effect.MAY_CRASH)
#: In the proof of a node that was asked to end: it made its disk durable first, so that it did not crash.
ORDERLY = "orderly"


def by_injection(injection: Injection, proof: Seen, probe: Seen) -> Effects:
    """Return what the proof of an injection and the probe that followed show."""
    return _those(injection, lambda effect, node: _shows(effect, node, proof, probe))


def by_action(injection: Injection, proof: Seen, only: Sequence[Effect]) -> Effects:
    """Return what the fault did besides, where it says that this is proof of these effects."""
    return _those(injection, lambda effect, node: effect in only and _shows(effect, node, proof, {}))


def by_hits(injection: Injection, rules: Collection[str], probe: Seen) -> Effects:
    """Return what the rules show that have hit something. ``probe``: what was seen after the injection."""

    def shows(effect: Effect, node: str) -> bool:
        if effect not in BY_HITS or (effect is Effect.ISOLATES and any(_ways(effect, node, probe))):
            return False
        return any(node in injection.concerns.get(rule, (node,)) for rule in rules)

    return _those(injection, shows)


def but_clients(effects: Effects) -> Effects:
    """Return these, but for those on clients."""
    left = {effect: tuple(node for node in nodes if node != CLIENT) for effect, nodes in effects.items()}
    return {effect: nodes for effect, nodes in left.items() if nodes}


def beyond(effects: Effects, known: Effects) -> Effects:
    """Return what is in ``effects`` and not known yet."""
    left = {effect: tuple(n for n in nodes if n not in known.get(effect, ())) for effect, nodes in effects.items()}
    return {effect: nodes for effect, nodes in left.items() if nodes}


def merged(injection: Injection, *parts: Effects) -> Effects:
    """Return what one of the parts has, in the order of the declaration."""
    return _those(injection, lambda effect, node: any(node in part.get(effect, ()) for part in parts))


def as_json(effects: Effects) -> dict[str, list[str]]:
    return {str(effect): list(nodes) for effect, nodes in effects.items()}


def _those(injection: Injection, shows: Callable[[Effect, str], bool]) -> Effects:
    declared = injection.effects or {}
    found = {effect: tuple(node for node in nodes if shows(effect, node)) for effect, nodes in declared.items()}
    return {effect: nodes for effect, nodes in found.items() if nodes}


def _shows(effect: Effect, node: str, proof: Seen, probe: Seen) -> bool:
    of_node = proof.get(node)
    if effect is Effect.TAKES_DOWN:
        answers = _mapping(probe.get(ANSWERS)).get(node)
        return node in proof if answers is None else not answers
    if effect is Effect.MAY_CRASH:
        return node in proof and _mapping(of_node).get(ORDERLY) is not True
    if effect in ON_LINKS and (works := [*_ways(effect, node, probe)]):
        return False in works and not (effect is Effect.ISOLATES and True in works)
    return node in proof


def _ways(effect: Effect, node: str, probe: Seen) -> Iterator[bool | None]:
    """Of the connections that the probe tried through the cut, those that show this effect on this node: does each
    work? None if it doesn't, and nothing shows that it is cut. Those of clients show effects on clients alone."""
    for way, works in _mapping(probe.get(ACROSS)).items():
        ends: Sequence[str] = way.split(TO)
        if node in ends and (CLIENT in ends) == (effect is Effect.CUTS_CLIENTS):
            yield works if isinstance(works, bool) else None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
