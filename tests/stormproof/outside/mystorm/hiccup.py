"""Stop a node for a moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import cast

from chaos.deployment import CanPause
from chaos.driver import ClusterView
from chaos.experiment.targets import choose
from chaos.fault import Injection, Undo, Verb, World


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
        return Injection(targets=targets, undo=tuple(Undo(verb=Verb.RESUME, subject=name) for name in targets))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await cast(CanPause, world.deployment).pause(injection.targets[0])


def create(options: Options) -> Hiccup:
    return Hiccup(options)
