"""Make everything that nodes send and receive come late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import cast

from chaos.deployments._base import CanRuleLinks
from chaos.driver import ClusterView
from chaos.fault import Injection, Undo, Verb, World
from chaos.links import Delay, LinkRule
from chaos.targets import choose


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``, or the name of any node. ``delay_ms`` for all its bytes, each way, and up to
    ``jitter_ms`` more."""

    target: str = "one"
    delay_ms: int = 150
    jitter_ms: int = 100


@dataclass(frozen=True, slots=True)
class SlowLink:
    options: Options
    needs: Sequence[type] = (CanRuleLinks,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        undo = tuple(Undo(verb=Verb.CLEAR_RULE, subject=f"{tag}-{way}") for way in ("out", "in"))
        detail = {"delay_ms": self.options.delay_ms, "jitter_ms": self.options.jitter_ms}
        return Injection(targets=choose(self.options.target, view, rng), undo=undo, detail=detail)

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        links = cast(CanRuleLinks, world.deployment)
        slow = Delay(self.options.delay_ms * 1_000_000, self.options.jitter_ms * 1_000_000)
        targets, everybody = frozenset(injection.targets), frozenset({"*"})
        out_id, in_id = (step.subject for step in injection.undo)
        await links.set_rule(out_id, LinkRule(targets, everybody, slow))
        await links.set_rule(in_id, LinkRule(everybody, targets, slow))
        return {"rules": [out_id, in_id]}


def create(options: Options) -> SlowLink:
    return SlowLink(options)
