"""The lifecycle where nodes' files are ours to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chaos.machines.lifecycle import programs
from chaos.machines.lifecycle.deployment import MachineDeployment


class ReadsDisks(MachineDeployment):
    """Implements ``CanReadFiles`` besides."""

    async def files(self, node: str, globs: Sequence[str]) -> Mapping[str, int]:
        return await self._off(self._machine(node).files, node, globs)

    async def read_file(self, node: str, path: str, begin: int = 0, length: int = programs.PIECE_BYTES) -> bytes:
        return await self._off(self._machine(node).read, node, path, begin, length)
