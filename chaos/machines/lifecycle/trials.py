"""What shows from outside: which connections between nodes come about, and which nodes answer.

Silence takes long to distinguish from lateness. So after a moment it is looked at what may explain it: a rule that has
just stopped what was sent, a node that its system has stopped. What nothing explains is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

from chaos.effects.links import Reach
from chaos.errors import DeploymentError, HostLost
from chaos.machines.machine import Dial, Life, Machine, Off
from chaos.tasks import gather

#: What takes longer doesn't work.
REACH_S = 0.5
#: Most of what works has come about by then; it is looked at what explains the rest.
GLANCE_S = 0.05
#: A node that can't take connections for want of descriptors may close some: so long it has to be silent.
STARVED_S = 0.25

#: See :meth:`chaos.machines.machine.Links.stopped`.
Stopped = Callable[[Dial], Coroutine[Any, Any, Mapping[object, int]]]


class Dialling:
    """Connections between nodes. Those that are asked for at the same time on one machine are dialled there at the same
    time."""

    def __init__(self, off: Off, stopped: Stopped) -> None:
        self._off = off
        self._stopped = stopped
        self._waiting: dict[str, list[tuple[Dial, asyncio.Future[Reach]]]] = {}

    async def reach(self, machine: Machine, dial: Dial) -> Reach:
        """Return what becomes of this connection within :data:`REACH_S`."""
        waiting = self._waiting.setdefault(machine.name, [])
        answer: asyncio.Future[Reach] = asyncio.get_running_loop().create_future()
        waiting.append((dial, answer))
        if len(waiting) == 1:
            await asyncio.sleep(0)  # the others ask meanwhile
            del self._waiting[machine.name]
            try:
                found = await self._try(machine, [dial for dial, _ in waiting])
            except BaseException:
                for _, one in waiting:
                    one.cancel()  # this error is reported once
                raise
            for (_, one), reach in zip(waiting, found, strict=True):
                if not one.done():
                    one.set_result(reach)
        return await answer

    async def _try(self, machine: Machine, dials: Sequence[Dial]) -> list[Reach]:
        """Return what becomes of each. A dial is cut when it does not come about, and a rule that lets none of its
        packets pass has stopped some on its way meanwhile. Packets of others count as well: the rule stands, and makes
        no difference between them."""
        before = await gather(*map(self._stopped, dials))
        found = [Reach.FAILS] * len(dials)
        for within_s in (GLANCE_S, REACH_S):
            left = [number for number, reach in enumerate(found) if reach is Reach.FAILS]
            works = await self._dialled(machine, [dials[number] for number in left], within_s)
            after = await gather(*(self._stopped(dials[number]) for number in left))
            for number, came, counts in zip(left, works, after, strict=True):
                cut = any(count > before[number].get(rule, 0) for rule, count in counts.items())
                found[number] = Reach.WORKS if came else Reach.CUT if cut else Reach.FAILS
        return found

    async def _dialled(self, machine: Machine, dials: Sequence[Dial], within_s: float) -> Sequence[bool]:
        """Return which of these come about; none does from a machine that is gone."""
        try:
            return await self._off(machine.reach, dials, within_s) if dials else ()
        except HostLost:
            return [False] * len(dials)


async def answered(asking: Awaitable[bool], life: Callable[[], Awaitable[Life]]) -> bool:
    """Return whether a node answers. ``asking`` waits for that; ``life`` looks whether the node can at all, again and
    again while it is silent."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    task = asyncio.ensure_future(asking)
    try:
        while not (await asyncio.wait({task}, timeout=GLANCE_S))[0]:
            with suppress(DeploymentError):  # its state is unknown: wait for its answer
                if _mute(await life(), loop.time() - began_s) and not task.done():
                    return False
        return task.result()
    finally:
        task.cancel()


def _mute(life: Life, silent_s: float) -> bool:
    return not life.alive or life.paused or (life.starved and silent_s >= STARVED_S)
