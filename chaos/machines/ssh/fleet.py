"""A run's hosts, and the nodes on each: a node has ports of its own there, one to listen at and others to dial from."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

from chaos.driver import ClusterSpec
from chaos.errors import BadInput, DeploymentError, HostLost, MachineError
from chaos.experiment.inventory import PORTS, PORTS_OF_NODE, Inventory, place
from chaos.fault import NotNow
from chaos.machines import procfs
from chaos.machines.agent.machine import AgentMachine
from chaos.machines.iptables import Endpoint
from chaos.machines.machine import Address, Dial, Seat
from chaos.machines.node_package import node_wheel, packages_of
from chaos.machines.ssh.cargo import Cargo
from chaos.machines.ssh.heal import HostsLeft, take_down
from chaos.machines.ssh.host import SshHost
from chaos.machines.ssh.tunnel import Tunnel
from chaos.machines.ssh.watch import Watch
from chaos.node import NodeSpec
from chaos.program import Installation, Program, chosen
from chaos.tasks import gather

T = TypeVar("T")

#: The last of a node's ports are for connections that only probe.
PROBE_PORTS = 5


class HostMachine(AgentMachine):
    """A host: besides what its agent does on all machines, it dials for a node, and runs commands as root."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch.host.name, watch.ask, {"host": watch.host.name})
        self.watch = watch
        #: The first of each node's ports.
        self.ports: dict[str, int] = {}
        self._cargo = Cargo(watch.ask)
        self._dialled = count()

    def install(self, recipe: Installation) -> str:
        return self._cargo.bring(recipe)

    @property
    def losses(self) -> Sequence[str]:
        return self.watch.losses

    def run_as_root(self, command: Sequence[str], given: str) -> tuple[int, str]:
        return self.watch.use(lambda: self.watch.host.root(command, given))

    def reach(self, dials: Sequence[Dial], within_s: float) -> list[bool]:
        said = []
        for dial in dials:
            last = self.ports[dial.source] + PORTS_OF_NODE
            first = next(self._dialled)  # whose answer was cut off is not known at once when it dials again
            ports = [last - 1 - (first + turn) % PROBE_PORTS for turn in range(PROBE_PORTS)]
            host, port = dial.target
            said.append({"ports": ports, "host": host, "port": port})
        return [bool(works) for works in self.watch.ask("reach", dials=said, within_s=within_s)]


class SshFleet:
    """Implements :class:`chaos.machines.machine.Fleet`. ``tag``: what a run's folder on a host is called, and what its
    rules there are named after; hosts may serve others too."""

    def __init__(self, run_id: str, directory: Path, inventory: Inventory) -> None:
        self.tag = tag_of(run_id, directory)
        self._directory = directory
        self._inventory = inventory
        self._pool = ThreadPoolExecutor(2 * len(inventory) + 4, thread_name_prefix="ssh")
        self._machines: dict[str, HostMachine] = {}
        self._placed: dict[str, str] = {}
        self._left: HostsLeft | None = None
        self._tunnels: list[Tunnel] = []
        self._programs: dict[str, Program] = {}

    @property
    def losses(self) -> Sequence[str]:
        return [sentence for machine in self._machines.values() for sentence in machine.losses]

    async def off(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *arguments)

    async def run_as_root(self, machine: str, command: Sequence[str], given: str) -> tuple[int, str]:
        return await self.off(self._machines[machine].run_as_root, command, given)

    # Seats

    async def begin(self, cluster: ClusterSpec, *, clocks: bool) -> Mapping[str, Seat]:
        self._placed = {name: host.name for name, host in place(cluster.nodes, self._inventory).items()}
        self._programs = {spec.name: spec.program for spec in cluster.nodes if spec.program is not None}
        code = node_wheel(packages_of(cluster.nodes))
        for host in self._inventory:
            nodes = tuple(name for name, placed in self._placed.items() if placed == host.name)
            watch = Watch(SshHost(host, self.tag, code), nodes, self._directory, self.off)
            self._machines[host.name] = HostMachine(watch)
        self._note_what_is_left()
        hosts = [machine.watch.host for machine in self._machines.values()]
        await gather(*(self.off(meet, host) for host in hosts))
        check_addresses(hosts)
        if clocks:
            await gather(*(self.off(_check_clocks, host) for host in hosts))
        for name in self._placed:
            machine = self._machines[self._placed[name]]
            machine.ports[name] = self._next_port(machine.watch.host)
            if machine.ports[name] + PORTS_OF_NODE - 1 not in PORTS:
                raise BadInput(f"node {name} would have ports beyond {PORTS[-1]}: give a smaller `first_port`")
        return {spec.name: self._seat(spec.name) for spec in cluster.nodes}

    async def watch(self, on_return: Callable[[], Awaitable[None]]) -> None:
        for machine in self._machines.values():
            machine.watch.begin(on_return)

    async def add(self, spec: NodeSpec) -> Seat:
        """Have a seat ready on the host that has the fewest nodes."""
        there = [machine for machine in self._machines.values() if not machine.watch.gone]
        if not there:
            raise NotNow("no host can be reached")
        machine = min(there, key=lambda machine: len(machine.watch.nodes))
        port = self._next_port(machine.watch.host)
        if port + PORTS_OF_NODE - 1 not in PORTS:
            raise NotNow(f"host {machine.name} has no ports left for one more node")
        if spec.program is not None:
            self._programs[spec.name] = spec.program
        self._placed[spec.name], machine.ports[spec.name] = machine.name, port
        machine.watch.nodes = (*machine.watch.nodes, spec.name)
        self._note_what_is_left()
        return await self.off(self._seat, spec.name)

    def _next_port(self, host: SshHost) -> int:
        """Return the first of a new node's ports on this host."""
        return host.host.first_port + sum(len(machine.ports) for machine in self._machines.values()) * PORTS_OF_NODE

    def _seat(self, node: str) -> Seat:
        machine = self._machines[self._placed[node]]
        host, port = machine.watch.host, machine.ports[node]
        program = self._programs.get(node)
        if program is not None:
            return self._program_seat(machine, program, range(port, port + PORTS_OF_NODE - PROBE_PORTS))
        where = f"{host.address}:{port}"
        return Seat(
            machine=machine,
            address=self._way_to(host, port),
            peer=where,
            endpoint=Endpoint(host.name, host.address, f"{port}:{port + PORTS_OF_NODE - 1}"),
            dial_ports=(port + 1, port + PORTS_OF_NODE - 1 - PROBE_PORTS),
            hint=f"host {host.name}, {where}: let that port through, or say `tunnel: true` in the inventory",
        )

    def _program_seat(self, machine: HostMachine, program: Program, free: range) -> Seat:
        """Return the seat of a program. It dials from any port, so the packet filter knows it by its host."""
        host = machine.watch.host
        ports = chosen(program, free)
        reached = {name: self._way_to(host, number) for name, number in ports.items()}
        main = ports.get(program.main_port, free[0])
        where = f"{host.address}:{main}"
        return Seat(
            machine=machine,
            address=reached.get(program.main_port, (host.address, main)),
            peer=where,
            endpoint=Endpoint(host.name, host.address),
            hint=f"host {host.name}, {where}: let that port through, or say `tunnel: true` in the inventory",
            ip=host.address,
            ports=ports,
            reached=reached,
        )

    def _way_to(self, host: SshHost, port: int) -> Address:
        """Return where this machine reaches a node."""
        if not (host.host.tunnel or host.host.jump):
            return host.address, port
        self._tunnels.append(Tunnel(host, port))
        return self._tunnels[-1].address

    # What is left on the hosts

    def _note_what_is_left(self) -> None:
        """Write down where our nodes are, before they are there."""
        self._left = HostsLeft(tag=self.tag, harness=procfs.harness(), hosts=self._inventory, placed=self._placed)
        self._left.write(self._directory)

    async def end(self) -> None:
        machines, self._machines = list(self._machines.values()), {}
        failures = await gather(*(machine.watch.end() for machine in machines))
        for tunnel in self._tunnels:
            tunnel.close()
        try:
            ends = await gather(*(self.off(self._leave, machine.watch) for machine in machines))
            if self._left is not None and machines and not any(ends):
                replace(self._left, cleared=True).write(self._directory)
        finally:
            self._pool.shutdown(wait=False)
        for failure in (*failures, *ends):
            if failure is not None and not isinstance(failure, HostLost):
                raise failure

    def _leave(self, watch: Watch) -> DeploymentError | None:
        """Take down what is on one host; what went wrong there must not keep the others from being done."""
        host = watch.host
        try:
            host.own()
            if watch.gone:
                host.connect()
            if host.folder:
                take_down(host, watch.nodes, self._directory)
        except (DeploymentError, NotNow, MachineError) as error:
            return error if isinstance(error, DeploymentError) else DeploymentError(str(error))
        finally:
            host.close()
        return None


def tag_of(run_id: str, directory: Path) -> str:
    """Return what a run is called on hosts, which may serve other machines' runs of the same name."""
    origin = crc32(f"{socket.gethostname()}{directory}".encode())
    return f"{re.sub(r'[^A-Za-z0-9_.-]', '-', run_id)}-{origin:08x}"


def check_addresses(hosts: Sequence[SshHost]) -> None:
    """Raise :class:`BadInput` for hosts' addresses that can't serve: packets are kept apart by them."""
    seen: dict[str, str] = {}
    for host in hosts:
        address = host.address
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            found = ipaddress.ip_address("::")
        if found.version != 4 or (found.is_loopback and len(hosts) > 1):
            raise BadInput(
                f"host {host.name}: other hosts can't reach it at {address or 'an address that it does not report'}:"
                " say as `address` in the inventory at which IPv4 address they do"
            )
        if address in seen:
            raise BadInput(f"hosts {seen[address]} and {host.name} are one machine, {address}: list it once")
        seen[address] = host.name


def meet(host: SshHost) -> None:
    try:
        host.connect()
        host.become_root()
    except HostLost as error:  # at the start that is trouble like any other
        raise MachineError(str(error)) from error


def _check_clocks(host: SshHost) -> None:
    """Raise :class:`MachineError` when the clocks of nodes on a host can't be set."""
    if not host.call("can_skew_clocks"):
        raise MachineError(
            f"host {host.name} has no libfaketime, which faults on nodes' clocks need: install it there (Debian/Ubuntu:"
            " apt-get install libfaketime), or say `on: [sim]` for these faults, which needs nothing"
        )
