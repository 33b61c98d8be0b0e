"""One machine alone, this one: a run's supervisor starts the nodes, and the supervisor's proxy is all their links."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from chaos.driver import ClusterSpec
from chaos.effects.links import LinkRule, Reach
from chaos.errors import DeploymentError, MachineError
from chaos.frames import Framing
from chaos.machines import procfs
from chaos.machines.agent import logs
from chaos.machines.agent.machine import AgentMachine, result_of
from chaos.machines.client import NO_CODEC, ProcessConnection, dial
from chaos.machines.iptables import Endpoint
from chaos.machines.local.loopback import LoopbackAddresses
from chaos.machines.local.supervisor import FILE, MODULE, PROBLEM, Charge, rule_to_json
from chaos.machines.machine import Address, Dial, Seat, Streams
from chaos.machines.procfs import Process
from chaos.machines.proxy import HOST, try_link
from chaos.machines.real_time import until
from chaos.node import Codec, NodeSpec

T = TypeVar("T")

#: Bounds on waiting: for the supervisor to begin, for an answer, for the end.
BEGIN_S = 60.0
ANSWER_S = 30.0
END_S = 10.0
THREADS = 8


class LocalFleet:
    """Implements :class:`chaos.machines.machine.Fleet`, of one machine."""

    losses: Sequence[str] = ()

    def __init__(self, run_id: str, directory: Path, seed: int) -> None:
        self._directory = directory
        self._charge = Charge(run_id=run_id, directory=str(directory), seed=seed, harness=str(Process.of(os.getpid())))
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="process")
        self._supervisor: Supervisor | None = None
        self._machine = AgentMachine("here", self.ask, {})
        self._addresses = LoopbackAddresses(directory)
        #: Set before ``begin``: whether programs get disks that can lose their power.
        self.cuts_power = False
        self._powered = 0

    def ask(self, do: str, **arguments: object) -> Any:
        """Give the supervisor a command; return its result. Raises :class:`NotNow` and :class:`DeploymentError`."""
        return self.supervisor.call(do, **arguments)

    @property
    def supervisor(self) -> Supervisor:
        if self._supervisor is None:
            raise DeploymentError("the cluster is not running: start it first")
        return self._supervisor

    async def off(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *arguments)

    async def begin(self, cluster: ClusterSpec, *, clocks: bool) -> Mapping[str, Seat]:
        await self._supervise(cluster.nodes, MODULE)
        return {spec.name: self._seat(spec) for spec in cluster.nodes}

    async def watch(self, on_return: Callable[[], Awaitable[None]]) -> None:
        pass  # this machine is not lost

    async def add(self, spec: NodeSpec) -> Seat:
        await self._power_disks([spec])
        return self._seat(spec)

    async def _supervise(self, nodes: Sequence[NodeSpec], module: str, *descriptors: int) -> None:
        """Begin the supervisor, and have it make the disks that some nodes need."""
        cuts_power = self.cuts_power = self.cuts_power and any(spec.program for spec in nodes)
        charge = replace(self._charge, cuts_power=cuts_power)
        self._supervisor = await Supervisor.begin(charge, module, *descriptors)
        await self._power_disks(nodes)

    async def _power_disks(self, nodes: Sequence[NodeSpec]) -> None:
        """Give those of these nodes that are programs disks that can lose their power, if that was said."""
        names = [spec.name for spec in nodes if spec.program is not None]
        if self.cuts_power and names:
            self._powered += len(names)
            await self.off(lambda: self.ask("power_disks", nodes=names, of=self._powered))

    def _seat(self, spec: NodeSpec) -> Seat:
        proxy_port = self.supervisor.proxy_port
        if spec.program is None:
            return Seat(machine=self._machine, proxy_port=proxy_port)
        return Seat(machine=self._machine, proxy_port=proxy_port, **self._addresses.of(spec.name, spec.program))

    async def end(self) -> None:
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            await supervisor.end()
            await self._clear_away()
            for path in (self._directory / "logs").glob("*.log"):
                logs.close_up(path)
        self._pool.shutdown(wait=False)

    async def _clear_away(self) -> None:
        """End what outlived its supervisor: nodes die with one that was killed, but only a moment later."""

        def left() -> list[Process]:
            return procfs.of_run(self._directory)

        for process in left():
            process.signal(signal.SIGKILL)
        await until(lambda: not left(), END_S)


class ProxyLinks:
    """Implements :class:`chaos.machines.machine.Links` by the supervisor's proxy, through which every connection
    leads: nodes listen on the loopback interface alone, and know no secret."""

    token = ""
    opener = None

    def __init__(self, fleet: LocalFleet) -> None:
        self._fleet = fleet
        self._codec: Codec | None = None
        self._connections: dict[tuple[str, str], ProcessConnection] = {}

    async def begin(
        self, codec: Codec | None, addresses: Mapping[str, Address], endpoints: Mapping[str, Endpoint]
    ) -> None:
        self._codec = codec

    async def admit(self, node: str, address: Address | None, endpoint: Endpoint | None) -> None:
        pass  # the proxy rules by names

    async def read_requests(self, framing: Framing, *, ruled: bool) -> None:
        await self._ask("read_requests", reader=framing.reader, kinds=list(framing.kinds), ruled=ruled)

    async def know(self, node: str, addresses: Mapping[str, str]) -> None:
        await self._ask("know", node=node, addresses=addresses)

    async def unknown(self) -> Sequence[str]:
        return [str(address) for address in await self._ask("unknown")]

    async def put_up(self, rule_id: str, rule: LinkRule) -> None:
        await self._ask("set_rule", rule_id=rule_id, rule=rule_to_json(rule))

    async def clear(self, rule_id: str) -> None:
        await self._ask("clear_rule", rule_id=rule_id)

    async def hits(self, rule_id: str) -> int:
        return int(await self._ask("rule_hits", rule_id=rule_id))

    async def ends(self, rule_id: str) -> frozenset[str]:
        return frozenset(map(str, await self._ask("rule_ends", rule_id=rule_id)))

    async def address(self, node: str) -> Address | None:
        port = int(await self._ask("port", node=node))
        return (HOST, port) if port else None

    async def serve(self, node: str, ports: Mapping[str, Address]) -> None:
        await self._ask("serve", node=node, ports=ports)

    async def try_client(self, client: str, node: str, within_s: float, port: str = "") -> Reach:
        return await try_link(self._fleet.supervisor.proxy_port, client, node, within_s, port)

    async def stopped(self, dial: Dial) -> Mapping[object, int]:
        return {}  # nodes dial each other by the proxy too

    async def dial(self, client: str, node: str, port: str) -> Streams:
        return await dial(self._fleet.supervisor.proxy_port, client, node, port)

    async def endpoint(self, client: str, node: str, port: str) -> Address:
        host, number = await self._ask("endpoint", client=client, node=node, port=port)
        return str(host), int(number)

    def connect(self, client: str, node: str) -> ProcessConnection:
        known = self._connections.get((client, node))
        if known is None:
            if self._codec is None:
                raise DeploymentError(NO_CODEC)
            known = ProcessConnection(client, node, self._fleet.supervisor.proxy_port, self._codec)
            self._connections[client, node] = known
        return known

    def expose(self, client: str, node: str) -> Address:
        """Open a port that leads to this node, as this client, under the same rules."""
        host, port = self._fleet.ask("endpoint", client=client, node=node, port="")
        return str(host), int(port)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    async def _ask(self, do: str, **arguments: object) -> Any:
        return await self._fleet.off(lambda: self._fleet.ask(do, **arguments))


class Supervisor:
    """The harness's hold on its supervisor. Every command is answered at once; threads may share it."""

    def __init__(self, process: subprocess.Popen[bytes], fields: Mapping[str, Any]) -> None:
        self.proxy_port = int(fields.get("proxy_port", 0))
        self._process = process
        self._lock = threading.Lock()
        self._socket = socket.create_connection((HOST, int(fields["port"])), timeout=ANSWER_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(str(fields["token"]).encode() + b"\n")
        self._answers = self._socket.makefile("rb")

    @staticmethod
    async def begin(charge: Charge, module: str, *descriptors: int) -> Supervisor:
        """Start the supervisor of this module in a session of its own: a Ctrl-C at the terminal isn't for it. It gets
        these descriptors too, whose numbers follow its charge. Raises :class:`MachineError` where it can't serve."""
        directory = Path(charge.directory)
        log = directory / "logs" / "supervisor.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        path = directory / FILE
        path.unlink(missing_ok=True)
        environment = {
            **os.environ,
            procfs.RUN: procfs.mark(directory),
            procfs.HARNESS_PROCESS: charge.harness,
            "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path),
        }
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, json.dumps(asdict(charge)), *map(str, descriptors)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=directory,
                env=environment,
                start_new_session=True,
                pass_fds=descriptors,
            )
        try:
            await until(lambda: path.exists() or process.poll() is not None, BEGIN_S)
            if not path.exists():
                raise DeploymentError(f"the supervisor did not start; its log is {log}")
            fields = json.loads(path.read_text("utf-8"))
            if PROBLEM in fields:
                raise MachineError(str(fields[PROBLEM]))
            return Supervisor(process, fields)
        except BaseException:  # also an interrupt: nobody else knows yet that it runs
            process.kill()
            process.wait()
            raise

    def call(self, do: str, **arguments: object) -> Any:
        """Give a command; return its result. Raises :class:`NotNow` and :class:`DeploymentError`."""
        try:
            with self._lock:
                self._socket.sendall(json.dumps({"do": do, **arguments}).encode() + b"\n")
                line = self._answers.readline()
        except OSError as error:
            raise DeploymentError(f"the supervisor does not answer: {error}") from error
        if not line.endswith(b"\n"):
            raise DeploymentError("the supervisor has ended, and the nodes with it")
        return result_of(json.loads(line), f"the supervisor could not {do}")

    async def end(self) -> None:
        """End the nodes and the supervisor, by force if need be; when this returns the supervisor has ended."""
        try:
            self.call("shutdown")
        except DeploymentError:
            pass  # then by force; the nodes die with it
        self._socket.close()
        self._answers.close()
        if not await until(lambda: self._process.poll() is not None, END_S):
            self._process.kill()
            self._process.wait()
