"""Connections between nodes that are tried to see what rules do to them."""

from __future__ import annotations

import asyncio

from chaos.errors import HostLost
from chaos.machines.machine import Dial, Machine, Off

#: What takes longer doesn't work.
REACH_S = 0.5


class Dialling:
    """Those that are asked for at the same time on one machine are dialled there at the same time."""

    def __init__(self, off: Off) -> None:
        self._off = off
        self._waiting: dict[str, list[tuple[Dial, asyncio.Future[bool]]]] = {}

    async def works(self, machine: Machine, dial: Dial) -> bool:
        """Whether this connection comes about within :data:`REACH_S`; none does from a machine that is gone."""
        waiting = self._waiting.setdefault(machine.name, [])
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        waiting.append((dial, answer))
        if len(waiting) == 1:
            await asyncio.sleep(0)  # the others ask meanwhile
            del self._waiting[machine.name]
            try:
                works = await self._off(machine.reach, [dial for dial, _ in waiting], REACH_S)
            except HostLost:
                works = [False] * len(waiting)
            except BaseException:
                for _, one in waiting:
                    one.cancel()  # this error is told once
                raise
            for (_, one), found in zip(waiting, works, strict=True):
                if not one.done():
                    one.set_result(found)
        return await answer
