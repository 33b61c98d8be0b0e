"""Programs that run already on hosts behind SSH, one on each, taken as they are, and left so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from chaos.driver import ClusterSpec
from chaos.errors import BadInput, DeploymentError, HostLost, MachineError
from chaos.experiment.attached import Attach
from chaos.experiment.inventory import Host, Inventory
from chaos.fault import NotNow
from chaos.machines import procfs
from chaos.machines.attach.fleet import follow
from chaos.machines.attach.host_left import ProgramsLeft
from chaos.machines.attach.host_machine import HostedProgram
from chaos.machines.attach.ledger import Ledger
from chaos.machines.iptables import FILTER, Endpoint
from chaos.machines.machine import Seat
from chaos.machines.node_package import node_wheel
from chaos.machines.ssh.fleet import check_addresses, meet, tag_of
from chaos.machines.ssh.heal import clear_filter
from chaos.machines.ssh.host import SshHost
from chaos.machines.ssh.watch import Watch
from chaos.node import NodeSpec
from chaos.plugins import nearest
from chaos.program import Program
from chaos.tasks import gather

T = TypeVar("T")


def placed(attach: Attach, programs: Mapping[str, Program], inventory: Inventory) -> dict[str, Host]:
    """Return the host of each node. Raises :class:`BadInput` with everything that is wrong with what was written."""
    attach.check(programs)
    if not inventory:
        raise BadInput(
            "attach, programs: the hosts are missing: list them as `hosts` in the experiment (docs/where-to-run.md)"
        )
    known, found, problems = {host.name: host for host in inventory}, {}, []
    for node, program in programs.items():
        where = attach.service(node)
        if node not in attach.programs:
            problems.append(f"attach, programs: node {node} is missing: say `{node}: {{pid: COMMAND, start: COMMAND}}`")
        if where not in known:
            problems.append(f"attach, nodes: there is no host {where!r} for node {node}; {nearest(where, known)}")
            continue
        host = found[node] = known[where]
        if host.jump or host.tunnel:
            problems.append(
                f"attach, nodes: host {where} is reached through another (`jump`, `tunnel`), which is not for attach"
            )
        shared = [other for other, its in found.items() if its is host and other != node]
        if shared:
            problems.append(
                f"attach, nodes: {shared[0]} and {node} are both on host {where}; each needs one of its own"
            )
        problems += (
            f"attach, ports: which number has port {port!r} of node {node}? Say `ports: {{{port}: NUMBER}}`"
            for port, number in _ports(attach, node, program).items()
            if not number
        )
    if problems:
        raise BadInput(*problems)
    return found


def _ports(attach: Attach, node: str, program: Program) -> dict[str, int]:
    """Return the number of each port; 0 for an unknown one."""
    given = attach.ports
    return {name: given.get(f"{node}.{name}") or given.get(name) or number for name, number in program.ports.items()}


class HostFleet:
    """Implements :class:`chaos.machines.machine.Fleet`. ``cuts``: links between nodes will be ruled; ``on_life`` is
    awaited when a node has begun another life. ``tag``: what the run's rules on the hosts are named after."""

    def __init__(self, run_id: str, directory: Path, attach: Attach, inventory: Inventory) -> None:
        self.cuts = False
        self.on_life: Callable[[str], Awaitable[None]] | None = None
        self.tag = tag_of(run_id, directory)
        self._directory = directory
        self._attach = attach
        self._inventory = inventory
        self._pool = ThreadPoolExecutor(2 * len(inventory) + 4, thread_name_prefix="attach")
        self._ledger: Ledger[ProgramsLeft] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._ports: dict[str, Mapping[str, int]] = {}
        self.machines: dict[str, HostedProgram] = {}

    @property
    def losses(self) -> Sequence[str]:
        return [loss for machine in self.machines.values() for loss in machine.losses]

    async def off(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *arguments)

    async def run_as_root(self, machine: str, command: Sequence[str], given: str) -> tuple[int, str]:
        return await self.off(self.machines[machine].run_as_root, command, given)

    async def begin(self, cluster: ClusterSpec, *, clocks: bool) -> Mapping[str, Seat]:
        programs = {spec.name: spec.program for spec in cluster.nodes if spec.program is not None}
        hosts, code = placed(self._attach, programs, self._inventory), node_wheel()
        for node, host in hosts.items():
            watch = Watch(SshHost(host, self.tag, code), (node,), self._directory, self.off)
            self.machines[node] = HostedProgram(node, watch, self._attach.programs[node])
            self._ports[node] = _ports(self._attach, node, programs[node])
        await gather(*(self.off(meet, machine.watch.host) for machine in self.machines.values()))
        check_addresses([machine.watch.host for machine in self.machines.values()])
        await gather(*(self.off(machine.found) for machine in self.machines.values()))
        self._ledger = Ledger(
            self._directory,
            ProgramsLeft(
                tag=self.tag,
                harness=procfs.harness(),
                hosts=tuple(hosts.values()),
                placed={node: host.name for node, host in hosts.items()},
                programs={node: self._attach.programs[node] for node in hosts},
                names={node: machine.named for node, machine in self.machines.items()},
                cuts=self.cuts,
            ),
        )
        for machine in self.machines.values():
            machine.ledger = self._ledger
        return {node: self._begun(node) for node in self.machines}

    def _begun(self, node: str) -> Seat:
        seat = self._seat(node)
        return replace(seat, endpoint=Endpoint(node, seat.ip)) if self.cuts else seat

    def seat(self, node: str) -> Seat:
        """Return where a node is; its rules stay when it begins another life. Raises :class:`HostLost` while it is
        down."""
        if not self.machines[node].look()["process"]:
            raise HostLost(f"{node} is down")
        return self._seat(node)

    def _seat(self, node: str) -> Seat:
        machine, ports = self.machines[node], self._ports[node]
        ip = machine.watch.host.address
        main = next(iter(ports.values()), 0)
        return Seat(
            machine=machine,
            address=(ip, main),
            peer=f"{ip}:{main}",
            hint=f"it is on host {machine.watch.host.name}",
            ip=ip,
            ports=ports,
            reached={name: (ip, number) for name, number in ports.items()},
        )

    async def watch(self, on_return: Callable[[], Awaitable[None]]) -> None:
        for machine in self.machines.values():
            machine.watch.begin(on_return)
        self._watching = asyncio.get_running_loop().create_task(follow(self))

    async def add(self, spec: NodeSpec) -> Seat:
        raise NotNow("a cluster that was attached gets no nodes of ours")

    async def end(self) -> None:
        """Leave the hosts; their programs run on."""
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
        machines = list(self.machines.values())
        failures = [await machine.watch.end() for machine in machines]
        try:
            failures += await gather(*(self.off(self._leave, machine.watch) for machine in machines))
        finally:
            self._pool.shutdown(wait=False)
        if self._ledger is not None and not any(failures):
            self._ledger.close()
        for failure in failures:
            if failure is not None and not isinstance(failure, HostLost):
                raise failure

    def _leave(self, watch: Watch) -> DeploymentError | None:
        """Take down our rules on one host; what went wrong there must not keep the others from being left."""
        host = watch.host
        try:
            host.own()
            if watch.gone:
                host.connect()
            if host.folder and self.cuts:
                clear_filter(host, FILTER)
        except (DeploymentError, NotNow, MachineError) as error:
            return error if isinstance(error, DeploymentError) else DeploymentError(str(error))
        finally:
            host.close()
        return None
