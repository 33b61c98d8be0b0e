"""The containers of a Compose project that runs already, taken as they are, and left so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from chaos.driver import ClusterSpec
from chaos.errors import DeploymentError, HostLost, MachineError
from chaos.experiment.attached import Attach
from chaos.fault import NotNow
from chaos.machines import procfs
from chaos.machines.attach.ledger import Ledger
from chaos.machines.attach.left import ProjectLeft, labels, stem
from chaos.machines.attach.machine import AttachedMachine
from chaos.machines.attach.project import find
from chaos.machines.docker.engine import THREADS, connect, image_problem
from chaos.machines.iptables import Endpoint
from chaos.machines.machine import Off, Seat
from chaos.node import NodeSpec

if TYPE_CHECKING:
    from docker import DockerClient

T = TypeVar("T")

#: How often it is looked whether a container was started again, by whomever.
LOOK_S = 0.5


class Attached(Protocol):
    """A fleet whose machines begin lives also by others' doing."""

    on_life: Callable[[str], Awaitable[None]] | None

    @property
    def off(self) -> Off: ...

    @property
    def machines(self) -> Mapping[str, Lives]: ...


class Lives(Protocol):
    life: str

    def look(self) -> object: ...


async def follow(fleet: Attached) -> None:
    """Have it learn of each life that a node of it begins, for as long as it is attached."""
    while True:
        for node, machine in fleet.machines.items():
            before = machine.life
            with suppress(DeploymentError):  # who needs it learns of it
                await fleet.off(machine.look)
            if machine.life != before and fleet.on_life is not None:
                with suppress(HostLost):
                    await fleet.on_life(node)
        await asyncio.sleep(LOOK_S)


class AttachedFleet:
    """Implements :class:`chaos.machines.machine.Fleet`. ``cuts``: links between nodes will be ruled; without that
    nothing of ours enters their networks. ``on_life`` is awaited when a node has begun another life."""

    def __init__(self, run_id: str, directory: Path, attach: Attach) -> None:
        self.cuts = False
        self.tag = str(directory)
        self.on_life: Callable[[str], Awaitable[None]] | None = None
        self._run_id = run_id
        self._directory = directory
        self._attach = attach
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="attach")
        self._client: DockerClient | None = None
        self._ledger: Ledger[ProjectLeft] | None = None
        self._watching: asyncio.Task[None] | None = None
        self.machines: dict[str, AttachedMachine] = {}

    @property
    def losses(self) -> Sequence[str]:
        return [loss for machine in self.machines.values() for loss in machine.losses]

    async def off(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *arguments)

    async def run_as_root(self, machine: str, command: Sequence[str], given: str) -> tuple[int, str]:
        return await self.off(self.machines[machine].run_as_root, command, given)

    async def begin(self, cluster: ClusterSpec, *, clocks: bool) -> Mapping[str, Seat]:
        return await self.off(self._begin, cluster)

    def _begin(self, cluster: ClusterSpec) -> dict[str, Seat]:
        self._client = client = connect()
        if self.cuts and (problem := image_problem(client)):
            raise MachineError(problem)
        programs = {spec.name: spec.program for spec in cluster.nodes if spec.program is not None}
        found = find(client, self._attach, programs, cuts=self.cuts)
        containers = {node: one.container for node, one in found.items()}
        project = self._attach.compose
        left = ProjectLeft(harness=procfs.harness(), project=project, containers=containers, cuts=self.cuts)
        self._ledger = ledger = Ledger(self._directory, left)
        ours = labels(self._run_id, self._directory)
        self.machines = {node: AttachedMachine(client, one, ledger, ours) for node, one in found.items()}
        # Rules hold once the network of a node's first life was taken over, like that of any other.
        return {node: replace(self.seat(node), endpoint=None) for node in self.machines}

    def seat(self, node: str) -> Seat:
        """Return where a node is in its present life. Raises :class:`HostLost` while it is down."""
        machine = self.machines[node]
        network, ports = machine.network(), machine.found.ports
        main = next(iter(ports.values()), 0)
        return Seat(
            machine=machine,
            address=(network.ip, main),
            peer=f"{network.ip}:{main}",
            endpoint=Endpoint(node, ",".join(network.addresses)) if self.cuts else None,
            hint=f"its container is {machine.found.name}",
            ip=network.ip,
            ports=ports,
            reached=machine.found.reached(network.ip),
            names=(machine.found.name, machine.found.service, *network.addresses),
        )

    async def watch(self, on_return: Callable[[], Awaitable[None]]) -> None:
        """Watch the containers. They don't come back from being lost: ``on_return`` is never awaited."""
        self._watching = asyncio.get_running_loop().create_task(follow(self))

    async def add(self, spec: NodeSpec) -> Seat:
        raise NotNow("a cluster that was attached gets no nodes of ours")

    async def end(self) -> None:
        """Leave the cluster; its containers run on."""
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
        off = asyncio.get_running_loop().run_in_executor
        await off(None, self._pool.shutdown)  # nothing is under way any more
        client, self._client = self._client, None
        if client is None:
            return
        try:
            await off(None, self._leave)
        finally:
            client.close()

    def _leave(self) -> None:
        problems = []
        for machine in self.machines.values():
            try:
                machine.leave(stem(self._directory))
            except DeploymentError as error:
                problems.append(str(error))
        if problems:
            raise DeploymentError("\n".join(problems))
        if self._ledger is not None:
            self._ledger.close()
