"""Power cuts of programs whose disks are this machine's: they lose what they have not synced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chaos.deployment import CanLoseUnsynced, Demands
from chaos.fault import NotNow
from chaos.machines.agent import powered_disk
from chaos.machines.lifecycle.node_disks import ReadsDisks
from chaos.machines.local.fleet import LocalFleet
from chaos.machines.trying import tried
from chaos.node import NodeSpec


def check(nodes: Sequence[NodeSpec], demands: Demands) -> None:
    """Raise :class:`MachineError` when programs are to lose their power and can't."""
    if CanLoseUnsynced in demands.powers and any(spec.program for spec in nodes):
        try_out()


def try_out() -> None:
    """Cut the power of a small disk. Raises :class:`MachineError` with what lacks."""
    tried(powered_disk.__name__)


class CutsPower(ReadsDisks):
    """Implements ``CanLoseUnsynced`` for programs of others too, and ``ExpectsPowerCuts``. A subclass sets
    ``_local``."""

    PROGRAM_POWERS = frozenset({CanLoseUnsynced})
    _local: LocalFleet

    def expect_power_cuts(self) -> None:
        self._local.cuts_power = True

    async def sync_disks(self) -> None:
        await self._off(lambda: self._local.ask("sync_disks"))

    async def lose_unsynced(self, node: str) -> Mapping[str, object]:
        """Kill the program, then cut the power: so it never sees its disk fail, and acknowledges nothing after that."""
        if self._programs.of(node) is None:
            return await super().lose_unsynced(node)
        ended = await self.kill(node)
        async with self._beginning[node]:  # nobody starts it meanwhile
            if (life := await self._life(node)).alive:
                raise NotNow(f"{node} was started again (process {life.pid}) before its power was cut")
            return {**ended, **await self._off(lambda: self._local.ask("cut_power", node=node))}
