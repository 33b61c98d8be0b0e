"""How strict disks lose writes, and tear them: a rule has the next sync end in its middle, and the node with it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol
from zlib import crc32

from chaos.effects.disks import DiskRule, Tear
from chaos.fault import NotNow, Undo, Verb

#: A node that syncs nothing within this time has nothing to be torn.
WITHIN_S, LOOK_S = 2.0, 0.02


class _Host(Protocol):
    """What a deployment gives for it."""

    async def kill(self, node: str) -> Mapping[str, object]: ...

    async def set_disk_rule(self, rule_id: str, rule: DiskRule) -> None: ...

    async def disk_rule_hits(self, rule_id: str) -> int: ...

    async def undo(self, step: Undo) -> None: ...

    async def _life_of(self, node: str) -> int:
        """Return the incarnation of a node that runs, else 0."""


class LosesWrites:
    """Implements ``CanLoseUnsynced`` and ``CanTearWrites`` for a :class:`_Host`."""

    async def lose_unsynced(self: _Host, node: str) -> Mapping[str, object]:
        return await self.kill(node)  # a strict disk keeps nothing else

    async def tear_writes(self: _Host, node: str) -> Mapping[str, object]:
        life = await self._life_of(node)
        if not life:
            raise NotNow(f"{node} is not running")
        rule_id = f"tear-{node}-{life}"
        await self.set_disk_rule(rule_id, DiskRule(node, Tear(crc32(rule_id.encode()))))
        try:
            deadline_s = asyncio.get_running_loop().time() + WITHIN_S
            while (alive := await self._life_of(node) == life) and asyncio.get_running_loop().time() < deadline_s:
                await asyncio.sleep(LOOK_S)
            syncs = await self.disk_rule_hits(rule_id)
        finally:
            await self.undo(Undo(verb=Verb.CLEAR_DISK, subject=rule_id))
        if not syncs:
            raise NotNow(f"{node} has synced nothing within {WITHIN_S:g} s")
        return {"node": node, "incarnation": life, "torn_syncs": syncs, "alive": alive}
