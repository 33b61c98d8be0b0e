"""How deployments press on the machines of nodes: the kinds of pressure are the same wherever the machine is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from chaos.machines.local_resources import Kind


class _Host(Protocol):
    """What a deployment gives for it."""

    async def _press(self, node: str, kind: Kind, amount: int) -> Mapping[str, object]:
        """Begin that pressure. Raises :class:`chaos.fault.NotNow`."""


class PressesMachines:
    """Implements ``CanSlowProcessors``, ``CanLimitMemory``, ``CanLimitDescriptors`` and ``CanHangIo`` for a
    :class:`_Host`."""

    async def slow_processor(self: _Host, node: str, share_percent: int) -> Mapping[str, object]:
        return await self._press(node, Kind.CPU, share_percent)

    async def limit_memory(self: _Host, node: str, spare_mb: int) -> Mapping[str, object]:
        return await self._press(node, Kind.MEMORY, spare_mb)

    async def limit_descriptors(self: _Host, node: str) -> Mapping[str, object]:
        return await self._press(node, Kind.DESCRIPTORS, 0)

    async def hang_io(self: _Host, node: str) -> Mapping[str, object]:
        return await self._press(node, Kind.IO, 0)
