"""The clocks of all nodes: each node finds in a file how far they are off."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from functools import partial

from chaos.machines.clock_skew import skewed
from chaos.machines.machine import Address, Machine, Off, Opener
from chaos.shell.clocks import Skew
from chaos.shell.node_files import NodeFile


class NodeClocks:
    """Sets the clocks of nodes. Those of one node are set one after the other, so that each setting reports its own
    jump."""

    def __init__(self, off: Off) -> None:
        self._off = off
        self._skews: dict[str, Skew] = {}
        self._ready: set[str] = set()
        self._setting: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def prepare(self, machine: Machine, node: str) -> None:
        """Put the file there before the first life of the node."""
        if node not in self._ready:
            async with self._setting[node]:
                await self._put(machine, node, self._skews.get(node, Skew()))
            self._ready.add(node)

    async def set(
        self,
        machine: Machine,
        node: str,
        where: Address,
        *,
        jump_ns: int,
        drift_ppm: int,
        opener: Opener | None = None,
    ) -> Mapping[str, object]:
        """Make the clocks of the node that listens there jump and drift; see :func:`skewed`."""
        async with self._setting[node]:
            skew = self._skews[node] = self._skews.get(node, Skew()).after(jump_ns=jump_ns, drift_ppm=drift_ppm)
            return await skewed(where, opener, jump_ns, partial(self._put, machine, node, skew))

    async def reset(self, machine: Machine, node: str) -> None:
        """Set the clocks of a node right again; nothing happens when they were never set."""
        async with self._setting[node]:
            if node in self._skews:
                await self._put(machine, node, Skew())
                del self._skews[node]

    async def _put(self, machine: Machine, node: str, skew: Skew) -> None:
        await self._off(machine.put, node, NodeFile.CLOCK, skew.content())
