"""Clog links one after another, then unclog them one by one in another order; again and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from random import Random
from typing import cast

from chaos.deployment import CanRuleLinks
from chaos.driver import ClusterView
from chaos.effects.links import PASS, Action, Drop, LinkRule
from chaos.experiment.targets import CLIENT, choose
from chaos.fault import Effect, Injection, NotNow, Rest, World, on
from nemesis._links import nodes_of, put_up, undo_of

ALIASES: Mapping[str, Mapping[str, object]] = {"swizzle": {}, "swizzle-clogging": {}}  # FoundationDB


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``. The seed draws at most ``links`` of the links between these nodes and all nodes.
    Every ``step_s`` one more of them is clogged, until all are; then every ``step_s`` one is released."""

    target: str = "all"
    links: int = field(default=6, metadata={"within": range(1, 101)})
    step_s: float = 0.4

    def __post_init__(self) -> None:
        if self.step_s <= 0:
            raise ValueError("step_s must be more than 0")
        if self.target == CLIENT:
            raise ValueError("only links between nodes are clogged one by one; target client is for other faults")


@dataclass(frozen=True, slots=True)
class SwizzleClog:
    options: Options
    needs: Sequence[type] = (CanRuleLinks,)
    link_actions: Sequence[type] = (Drop,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        targets = choose(self.options.target, view, rng)
        pairs = [pair for pair in combinations(nodes_of(view), 2) if set(pair) & set(targets)]
        if not pairs:
            raise NotNow("there are no two nodes with a link between them")
        links = rng.sample(pairs, min(self.options.links, len(pairs)))
        order = rng.sample(range(len(links)), len(links))
        detail = {"links": [list(pair) for pair in links], "unclogged": order}
        undo = undo_of(tag, range(len(links)))
        return Injection(
            targets=targets,
            undo=undo,
            detail=detail,
            effects=on(sorted({*chain(*links)}), Effect.CUTS),
            concerns={step.subject: pair for step, pair in zip(undo, links, strict=True)},
        )

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        clogged = [number == 0 for number in range(len(injection.undo))]
        return await put_up(
            world, injection, [_rule(injection, n, Drop() if on else PASS) for n, on in enumerate(clogged)]
        )

    async def act(self, world: World, injection: Injection, rest: Rest) -> None:
        numbers = range(len(injection.undo))
        steps: list[tuple[int, Action]] = [(number, Drop()) for number in numbers]
        steps += [(number, PASS) for number in cast(list[int], injection.detail["unclogged"])]
        turn = 1  # the first link is clogged already
        while await rest(self.options.step_s):
            number, action = steps[turn % len(steps)]
            rule = _rule(injection, number, action)
            await cast(CanRuleLinks, world.deployment).set_rule(injection.undo[number].subject, rule)
            turn += 1


def _rule(injection: Injection, number: int, action: Action) -> LinkRule:
    """Return the rule for a link, both ways."""
    ends = frozenset(cast(list[list[str]], injection.detail["links"])[number])
    return LinkRule(ends, ends, action)


def create(options: Options) -> SwizzleClog:
    return SwizzleClog(options)
