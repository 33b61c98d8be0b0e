"""Power cuts of programs whose disks are this machine's: they lose what they have not synced."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.deployment import CanLoseUnsynced
from chaos.fault import NotNow
from chaos.machines.lifecycle.deployment import MachineDeployment
from chaos.machines.local.fleet import LocalFleet


class CutsPower(MachineDeployment):
    """Implements ``CanLoseUnsynced`` for programs of others too, and ``ExpectsPowerCuts``. A subclass sets
    ``_local``."""

    PROGRAM_POWERS = frozenset({CanLoseUnsynced})
    _local: LocalFleet

    def expect_power_cuts(self) -> None:
        self._local.cuts_power = True

    async def lose_unsynced(self, node: str) -> Mapping[str, object]:
        """Kill the program, then cut the power: so it never sees its disk fail, and acknowledges nothing after that."""
        if self._programs.of(node) is None:
            return await super().lose_unsynced(node)
        ended = await self.kill(node)
        async with self._beginning[node]:  # nobody starts it meanwhile
            if (life := await self._life(node)).alive:
                raise NotNow(f"{node} was started again (process {life.pid}) before its power was cut")
            return {**ended, **await self._off(lambda: self._local.ask("cut_power", node=node))}
