"""Lose packets of nodes: on connections that shows as stalls (bytes come after a retransmission) or as resets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import cast

from chaos.deployments._base import CanRuleLinks
from chaos.driver import ClusterView
from chaos.fault import Injection, Undo, Verb, World
from chaos.links import LinkRule, Reset, Stall
from chaos.targets import choose


class Mode(StrEnum):
    STALL = "stall"
    RESET = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``. ``mode``: stall or reset; it hits each chunk of bytes with ``per_mille``/1000, and
    a stall holds its connection up for ``stall_ms``."""

    target: str = "one"
    mode: Mode = Mode.STALL
    per_mille: int = 50
    stall_ms: int = 300


@dataclass(frozen=True, slots=True)
class Loss:
    options: Options
    needs: Sequence[type] = (CanRuleLinks,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        undo = tuple(Undo(verb=Verb.CLEAR_RULE, subject=f"{tag}-{way}") for way in ("out", "in"))
        detail = {"mode": str(self.options.mode), "per_mille": self.options.per_mille}
        return Injection(targets=choose(self.options.target, view, rng), undo=undo, detail=detail)

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        links = cast(CanRuleLinks, world.deployment)
        options = self.options
        action = (
            Reset(options.per_mille)
            if options.mode == Mode.RESET
            else Stall(options.per_mille, options.stall_ms * 1_000_000)
        )
        targets, everybody = frozenset(injection.targets), frozenset({"*"})
        out_id, in_id = (step.subject for step in injection.undo)
        await links.set_rule(out_id, LinkRule(targets, everybody, action))
        await links.set_rule(in_id, LinkRule(everybody, targets, action))
        return {"rules": [out_id, in_id]}


def create(options: Options) -> Loss:
    return Loss(options)
