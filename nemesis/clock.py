"""Make nodes' wall clocks jump and their monotonic clocks run fast or slow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import cast

from chaos.deployment import CanSkewClocks
from chaos.driver import ClusterView
from chaos.experiment.targets import choose
from chaos.fault import Effect, Injection, Undo, Verb, World, each, on

ALIASES: Mapping[str, Mapping[str, object]] = {
    "bump-clock": {"target": "random", "drift_ppm": 0},  # Jepsen, as all of these
    "clock-scrambler": {"target": "all", "drift_ppm": 0},
    "faketime": {"target": "all", "jump_s": 0.0},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``. The wall clock jumps by ``jump_s`` seconds and the monotonic clock drifts by
    ``drift_ppm`` millionths. The seed draws the direction for each node."""

    target: str = "one"
    jump_s: float = 60.0
    drift_ppm: int = 50_000

    def __post_init__(self) -> None:
        if not self.jump_s and not self.drift_ppm:
            raise ValueError("jump_s or drift_ppm must be more than 0")


@dataclass(frozen=True, slots=True)
class Clock:
    options: Options
    needs: Sequence[type] = (CanSkewClocks,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        targets = choose(self.options.target, view, rng)
        detail = {
            "jump_ns": round(rng.choice((-1, 1)) * self.options.jump_s * 1_000_000_000),
            "drift_ppm": rng.choice((-1, 1)) * self.options.drift_ppm,
        }
        undo = tuple(Undo(verb=Verb.RESET_CLOCK, subject=name) for name in targets)
        effects = on(targets, Effect.SKEWS_CLOCKS)
        return Injection(targets=targets, undo=undo, detail=detail, effects=effects)

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        clocks = cast(CanSkewClocks, world.deployment)
        jump_ns = cast(int, injection.detail["jump_ns"])
        drift_ppm = cast(int, injection.detail["drift_ppm"])

        async def skew(node: str) -> Mapping[str, object]:
            return await clocks.set_clock(node, jump_ns=jump_ns, drift_ppm=drift_ppm)

        return await each(injection.targets, skew)


def create(options: Options) -> Clock:
    return Clock(options)
