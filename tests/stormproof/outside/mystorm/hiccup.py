"""Stop a node for a moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import cast

from chaos.deployment import CanPause
from chaos.driver import ClusterView
from chaos.experiment.targets import choose
from chaos.fault import Effect, Injection, Undo, Verb, World, each, on


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: a word or a node's name."""

    target: str = "one"


class Hiccup:
    needs: Sequence[type] = (CanPause,)

    def __init__(self, options: Options) -> None:
        self._options = options

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        targets = choose(self._options.target, view, rng)
        return Injection(
            targets=targets,
            undo=tuple(Undo(verb=Verb.RESUME, subject=name) for name in targets),
            effects=on(targets, Effect.TAKES_DOWN),
        )

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await each(injection.targets, cast(CanPause, world.deployment).pause)


def create(options: Options) -> Hiccup:
    return Hiccup(options)
