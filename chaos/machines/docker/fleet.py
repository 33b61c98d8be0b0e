"""A run's containers: a network that only this machine can reach, and on it a machine for each node."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

from chaos.driver import ClusterSpec
from chaos.errors import DeploymentError
from chaos.machines.docker.engine import (
    DIRECTORY,
    HARNESS_PROCESS,
    RUN,
    THREADS,
    USER,
    connect_for,
    engine_errors,
    held_packages,
)
from chaos.machines.docker.heal import clear
from chaos.machines.docker.machine import ContainerMachine
from chaos.machines.docker.node import PORT, NodeContainers, Placement
from chaos.machines.iptables import Endpoint
from chaos.machines.machine import Seat
from chaos.machines.procfs import Process
from chaos.node import NodeSpec
from chaos.program import chosen
from chaos.tasks import gather

if TYPE_CHECKING:
    from docker import DockerClient

T = TypeVar("T")

#: A container's name may be long, but a person should be able to read it.
LONGEST_STEM = 60


class DockerFleet:
    """Implements :class:`chaos.machines.machine.Fleet`."""

    losses: Sequence[str] = ()

    def __init__(self, run_id: str, directory: Path) -> None:
        self._run_id = run_id
        self._directory = directory
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="docker")
        self._client: DockerClient | None = None
        self._placement: Placement | None = None
        self._machines: dict[str, ContainerMachine] = {}

    async def off(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *arguments)

    async def run_as_root(self, machine: str, command: Sequence[str], given: str) -> tuple[int, str]:
        return await self.off(self._machines[machine].run_as_root, command, given)

    async def begin(self, cluster: ClusterSpec, *, clocks: bool) -> Mapping[str, Seat]:
        self._client = client = await self.off(connect_for, cluster.nodes)
        self._placement = await self.off(self._place, client, clocks)
        seats = await gather(*(self.add(spec) for spec in cluster.nodes))
        if clocks:
            await self.off(next(iter(self._machines.values())).check_clocks)
        return {spec.name: seat for spec, seat in zip(cluster.nodes, seats, strict=True)}

    async def watch(self, on_return: Callable[[], Awaitable[None]]) -> None:
        pass  # this machine is not lost

    async def add(self, spec: NodeSpec) -> Seat:
        if self._client is None or self._placement is None:
            raise DeploymentError("the cluster is not running: start it first")
        containers = NodeContainers(self._client, spec, self._placement)
        machine = self._machines[spec.name] = ContainerMachine(containers, self._directory)
        await self.off(containers.create)
        where = containers.address
        endpoint = Endpoint(spec.name, where)
        if spec.program is None:
            return Seat(machine=machine, address=(where, PORT), peer=f"{where}:{PORT}", endpoint=endpoint)
        ports = chosen(spec.program, range(PORT, PORT + 100))
        main = ports.get(spec.program.main_port, PORT)
        return Seat(
            machine=machine,
            address=(where, main),
            peer=f"{where}:{main}",
            endpoint=endpoint,
            ip=where,
            ports=ports,
            reached={name: (where, number) for name, number in ports.items()},
        )

    async def end(self) -> None:
        off = asyncio.get_running_loop().run_in_executor
        await off(None, self._pool.shutdown)  # nothing is under way any more
        client, self._client = self._client, None
        if client is not None:
            for machine in self._machines.values():
                machine.containers.close()
            await off(None, clear, client, self._directory)
            client.close()

    def _place(self, client: DockerClient, clocks: bool) -> Placement:
        """Make the run's network."""
        stem = re.sub(r"[^a-zA-Z0-9_.-]", "-", f"stormproof-{self._run_id}")[:LONGEST_STEM]
        prefix = f"{stem}-{crc32(str(self._directory).encode()):08x}"  # another folder may hold a run of this name
        labels = {
            RUN: self._run_id,
            DIRECTORY: str(self._directory),
            HARNESS_PROCESS: str(Process.of(os.getpid())),
            USER: str(os.getuid()),
        }
        with engine_errors():
            client.networks.create(prefix, driver="bridge", internal=True, check_duplicate=True, labels=labels)
        return Placement(
            labels=labels,
            prefix=prefix,
            network=prefix,
            directory=self._directory,
            clocks=clocks,
            packages=held_packages(client),
        )
