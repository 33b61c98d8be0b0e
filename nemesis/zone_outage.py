"""Crash all nodes of a zone at once, as when a data centre loses its power."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from chaos.deployment import CanKill
from chaos.driver import ClusterView
from chaos.fault import Injection, NotNow, World
from chaos.run.probes import silence
from nemesis._lives import How, downs, starts, take_down


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``zone``: its name, as the system has it; the seed draws one without."""

    zone: str = ""


@dataclass(frozen=True, slots=True)
class ZoneOutage:
    options: Options
    needs: Sequence[type] = (CanKill,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        zone = self.options.zone
        if not view.zones or (zone and zone not in view.zones):
            raise NotNow(f"there is no zone {zone!r}, only {', '.join(view.zones) or 'nodes without zones'}")
        zone = zone or rng.choice(sorted(view.zones))
        targets = tuple(sorted(view.zones[zone]))
        return Injection(targets=targets, undo=starts(targets), detail={"zone": zone}, effects=downs(targets))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await take_down(world, How.KILL, injection.targets)

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await silence(world, injection.targets)


def create(options: Options) -> ZoneOutage:
    return ZoneOutage(options)
