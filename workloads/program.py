"""Clients that are programs of the system's own: a library in any language is the load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from chaos.driver import HasClientPrograms
from chaos.workload import Load
from workloads._client_program import ClientProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``clients``: how many programs. They read no queue to its end: have a workload beside them that does."""

    clients: int = field(default=1, metadata={"within": range(1, 101)})


@dataclass(frozen=True, slots=True)
class Program:
    options: Options
    needs: Sequence[type] = (HasClientPrograms,)

    async def run(self, load: Load) -> None:
        await load.gather(*(self._client(load, f"program-{number}") for number in range(self.options.clients)))

    async def _client(self, load: Load, name: str) -> None:
        await ClientProgram(load, name, await load.client_command(name)).run()

    async def drain(self, load: Load) -> None:
        """Do nothing: others read what these have sent."""


def create(options: Options) -> Program:
    return Program(options)
