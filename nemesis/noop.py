"""Do nothing: the control group, which shows how a system behaves without faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from chaos.driver import ClusterView
from chaos.fault import Injection, World


@dataclass(frozen=True, slots=True)
class Noop:
    needs: Sequence[type] = ()

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        return Injection(targets=(), effects={})

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return {}


def create(options: object) -> Noop:
    return Noop()
