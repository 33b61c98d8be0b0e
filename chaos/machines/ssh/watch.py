"""A host for as long as a run lasts: what its nodes write is brought over, and when it is lost, it is looked for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from chaos.errors import DeploymentError, HostLost, MachineError
from chaos.machines.machine import Off
from chaos.machines.ssh.heal import fetch
from chaos.machines.ssh.host import SshHost

T = TypeVar("T")

#: How often what the nodes wrote is brought over, and how often a lost host is looked for.
FETCH_EVERY_S = 0.08
LOOK_EVERY_S = 1.0


class Watch:
    """``nodes``: those on the host. ``losses`` says in sentences when it could not be reached."""

    def __init__(self, host: SshHost, nodes: tuple[str, ...], directory: Path, off: Off) -> None:
        self.host = host
        self.nodes = nodes
        self.gone = False
        self._directory = directory
        self._off = off
        self._since_s = 0.0
        self._losses: list[str] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def losses(self) -> list[str]:
        still = [self._sentence("and was not found again")] if self.gone else []
        return [*self._losses, *still]

    def begin(self, on_return: Callable[[], Awaitable[None]]) -> None:
        """Begin to follow the host; ``on_return`` is awaited when it can be reached again."""
        self._task = asyncio.get_running_loop().create_task(self._follow(on_return))

    async def end(self) -> Exception | None:
        """Follow no more; return what went wrong meanwhile."""
        task, self._task = self._task, None
        if task is None:
            return None
        if not task.done():
            task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass
        except Exception as error:  # whatever it was, the hosts must still be left
            return error
        return None

    def ask(self, do: str, **arguments: object) -> Any:
        """Have the host's agent do this; blocks. Raises as :meth:`SshHost.call` does."""
        return self.use(lambda: self.host.call(do, **arguments))

    def use(self, call: Callable[[], T]) -> T:
        """Make a call that needs the host. Raises :class:`HostLost` at once while it is gone."""
        if self.gone:
            raise HostLost(f"host {self.host.name} can't be reached since {time.monotonic() - self._since_s:.0f} s")
        asked_s = time.monotonic()
        try:
            return call()
        except HostLost:
            if not self.gone:
                self.gone, self._since_s = True, asked_s
            raise

    async def _follow(self, on_return: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                more = await self._off(self.use, lambda: fetch(self.host, self.nodes, self._directory))
                await asyncio.sleep(0 if more else FETCH_EVERY_S)
            except HostLost:
                await self._look(on_return)

    async def _look(self, on_return: Callable[[], Awaitable[None]]) -> None:
        """Look for the host until it is there again."""
        while self.gone:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await self._off(self.host.connect)
            except (DeploymentError, MachineError):
                continue
            self._losses.append(self._sentence(f"for {time.monotonic() - self._since_s:.0f} s"))
            self.gone = False
            await on_return()

    def _sentence(self, how_long: str) -> str:
        return f"host {self.host.name} with {', '.join(self.nodes) or 'no node'} could not be reached, {how_long}"
