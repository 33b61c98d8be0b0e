"""A run's network namespaces on this machine, each with a node in it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Mapping, Sequence
from errno import EINPROGRESS
from pathlib import Path

from chaos.driver import ClusterSpec
from chaos.errors import DeploymentError, MachineError
from chaos.machines.agent.machine import AgentMachine
from chaos.machines.dials import Address, begin, come_about
from chaos.machines.iptables import Endpoint
from chaos.machines.local.fleet import ANSWER_S, LocalFleet
from chaos.machines.machine import Dial, Seat
from chaos.machines.netns.namespaces import BRIDGE
from chaos.machines.netns.supervisor import MAX_NAME_BYTES
from chaos.machines.proxy import HOST
from chaos.node import NodeSpec
from chaos.program import chosen
from chaos.shell import clocks

MODULE = "chaos.machines.netns.supervisor"
#: Where a node listens, at an address of its own.
PORT = 10911
PORTS = range(PORT, PORT + 100)


class NamespaceMachine(AgentMachine):
    """The namespace of one node, which has its name."""

    def __init__(self, name: str, fleet: NetnsFleet) -> None:
        super().__init__(name, fleet.ask, {})
        self._fleet = fleet

    def run_as_root(self, command: Sequence[str], given: str) -> tuple[int, str]:
        code, output = self._fleet.ask("root", node=self.name, command=list(command), given=given)
        return int(code), str(output)

    def reach(self, dials: Sequence[Dial], within_s: float) -> list[bool]:
        return come_about([self._begun(*dial.target) for dial in dials], within_s)

    def _begun(self, host: str, port: int) -> socket.socket | None:
        try:
            probe = self._fleet.sockets.take(self.name)
        except OSError:  # the supervisor has ended: nobody reaches anybody
            return None
        if begin(probe, host, port) in (0, EINPROGRESS):
            return probe
        probe.close()
        return None


class NetnsFleet(LocalFleet):
    """Implements :class:`chaos.machines.machine.Fleet`, a machine for each node."""

    def __init__(self, run_id: str, directory: Path, seed: int) -> None:
        super().__init__(run_id, directory, seed)
        self._machines: dict[str, NamespaceMachine] = {}
        self._sockets: Sockets | None = None

    @property
    def sockets(self) -> Sockets:
        if self._sockets is None:
            raise DeploymentError("the cluster is not running: start it first")
        return self._sockets

    async def open(self, address: Address) -> socket.socket:
        """Return a connection with a node's address, for the harness. Raises ``OSError``."""
        taking = asyncio.ensure_future(self.off(self.sockets.take, BRIDGE))
        try:
            made = await asyncio.shield(taking)
        except asyncio.CancelledError:  # a thread is not cancelled: nobody else would close what it takes
            taking.add_done_callback(_closed)
            raise
        try:
            made.setblocking(False)
            await asyncio.get_running_loop().sock_connect(made, address)
        except BaseException:
            made.close()
            raise
        return made

    async def run_as_root(self, machine: str, command: Sequence[str], given: str) -> tuple[int, str]:
        return await self.off(self._machines[machine].run_as_root, command, given)

    async def begin(self, cluster: ClusterSpec, *, clocks: bool) -> Mapping[str, Seat]:
        if clocks:
            check_clocks()
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._sockets = Sockets(near)
        with far:
            await self._supervise(cluster.nodes, MODULE, far.fileno())
        return await self.off(self._admit, cluster.nodes)

    async def add(self, spec: NodeSpec) -> Seat:
        await self._power_disks([spec])
        return (await self.off(self._admit, [spec]))[spec.name]

    def _admit(self, specs: Sequence[NodeSpec]) -> dict[str, Seat]:
        exposed = {spec.name: self.sockets.hand_in(spec.name) for spec in specs}
        ports = {spec.name: chosen(spec.program, PORTS) if spec.program is not None else {} for spec in specs}
        mains = {node: next(iter(numbers.values()), PORT) for node, numbers in ports.items()}
        addresses: Mapping[str, str] = self.ask("admit", ports=mains)
        for node in ports:
            self._machines[node] = NamespaceMachine(node, self)
        return {node: self._seat_at(node, addresses[node], mains[node], exposed[node], ports[node]) for node in ports}

    def _seat_at(self, node: str, address: str, main: int, exposed: Address, ports: Mapping[str, int]) -> Seat:
        return Seat(
            machine=self._machines[node],
            address=(address, main),
            peer=f"{address}:{main}",
            exposed=f"{exposed[0]}:{exposed[1]}",
            endpoint=Endpoint(node, address),
            ip=address,
            ports=ports,
            reached={name: (address, number) for name, number in ports.items()},
        )

    async def end(self) -> None:
        await super().end()
        if self._sockets is not None:
            self._sockets.close()


class Sockets:
    """The harness's end of the supervisor's channel. Threads may share it."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._channel.settimeout(ANSWER_S)
        self._lock = threading.Lock()

    def take(self, node: str) -> socket.socket:
        """Return a new socket in the node's namespace. Raises ``OSError``."""
        with self._lock:
            try:
                self._channel.send(_named(node))
                data, descriptors, _, _ = socket.recv_fds(self._channel, MAX_NAME_BYTES, 1)
            except TimeoutError:
                self._channel.close()  # an answer that comes late must not be taken for the next one's
                raise
        if not data:
            raise ConnectionError("the supervisor has ended")
        return socket.socket(fileno=descriptors[0])

    def hand_in(self, node: str) -> Address:
        """Have the supervisor carry connections from a new port of this machine to a node; return the port's
        address."""
        with socket.create_server((HOST, 0)) as made, self._lock:
            try:
                socket.send_fds(self._channel, [_named(node)], [made.fileno()])
                self._channel.recv(MAX_NAME_BYTES)
            except OSError as error:
                raise DeploymentError(f"the supervisor takes no port: {error}") from error
            host, port = made.getsockname()
        return host, port

    def close(self) -> None:
        self._channel.close()


def _named(node: str) -> bytes:
    return f"={node}".encode()  # never empty, which would look like the end


def _closed(taking: asyncio.Future[socket.socket]) -> None:
    if not taking.cancelled() and taking.exception() is None:
        taking.result().close()


def check_clocks() -> None:
    """Raise :class:`MachineError` when the clocks of nodes can't be set."""
    if not clocks.installed():
        raise MachineError(
            "this machine has no libfaketime, which faults on nodes' clocks need: install it (Debian/Ubuntu: apt-get"
            " install libfaketime), or say `on: [sim]` for these faults, which needs nothing"
        )
