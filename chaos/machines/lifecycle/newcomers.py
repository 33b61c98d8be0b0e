"""The nodes that have joined a running cluster: every node finds in a file who they are."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from chaos.errors import HostLost
from chaos.machines.machine import Machine, Off
from chaos.shell import membership
from chaos.shell.node_files import NodeFile
from chaos.tasks import gather


class Newcomers:
    """Who they are so far, with their addresses."""

    def __init__(self, off: Off) -> None:
        self._off = off
        self._addresses: dict[str, str] = {}
        self._announcing = asyncio.Lock()  # what is announced last must be what is known last

    async def join(self, node: str, address: str, all_nodes: Mapping[str, Machine]) -> None:
        """Add one more; ``all_nodes`` learn of it, each on its machine."""
        self._addresses[node] = address
        await self.announce(all_nodes)

    async def announce(self, nodes: Mapping[str, Machine]) -> None:
        """Announce all newcomers to these nodes, if there are any. A node whose machine can't be reached must get them
        when that is back."""
        if not self._addresses:
            return
        async with self._announcing:
            content = membership.content(self._addresses)
            await gather(*(self._put(machine, node, content) for node, machine in nodes.items()))

    async def _put(self, machine: Machine, node: str, content: bytes) -> None:
        try:
            await self._off(machine.put, node, NodeFile.MEMBERSHIP, content)
        except HostLost:
            pass
