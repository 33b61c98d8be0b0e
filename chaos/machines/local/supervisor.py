"""The supervisor of one run: a process of its own that holds the node processes and the proxy of their links.

It outlives the harness, so that a killed command line cuts no connection silently and the cluster can still be healed
or used by hand; its nodes never outlive it. The harness commands it over a loopback connection: one JSON object a line,
``{"do": NAME, …}``, after a first line with the token of ``supervisor.json``; each is answered at once by one line,
``{"ok": …}`` or ``{"error": TEXT}``. What takes time (a node's start, a death) is asked for again by ``status``.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from chaos.deployment import trace_file
from chaos.effects.disks import from_json
from chaos.effects.links import ACTIONS, LinkRule, Pass
from chaos.machines.local_resources import DEADLY, Kind, Pressure
from chaos.machines.procfs import NODE, Process
from chaos.machines.proxy import HOST, Proxy
from chaos.node import NodeSpec
from chaos.shell import membership
from chaos.shell.disk_rules import WrittenRules, rules_of
from chaos.shell.launch import Launch

FILE = "supervisor.json"
#: How much of a dead node's log goes into its crash.
LOG_TAIL_BYTES = 4096
_ACTIONS = {**ACTIONS, Pass.__name__: Pass}


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """All that a supervisor is told at its start."""

    run_id: str
    directory: str
    seed: int
    harness: str  # PID:START


@dataclass(slots=True, kw_only=True)
class _Server:
    """One node over all its lives; ``ended``: its exit code, once the current life is over."""

    spec: NodeSpec
    pressure: Pressure
    disk_rules: WrittenRules
    incarnation: int = 0
    popen: subprocess.Popen[bytes] | None = None
    process: Process = field(default_factory=lambda: Process(0, 0))
    ended: int | None = None
    killed: bool = False

    @property
    def alive(self) -> bool:
        return self.popen is not None and self.ended is None


class Supervisor:
    """All commands are its methods whose names begin with ``do_``; their keyword arguments come from the line."""

    def __init__(self, charge: Charge) -> None:
        self.charge = charge
        self.token = secrets.token_hex(16)
        self.servers: dict[str, _Server] = {}
        self.newcomers: list[str] = []
        self.crashes: list[dict[str, object]] = []
        self.proxy = Proxy(charge.seed, self._hello)
        self.over = asyncio.Event()

    async def serve(self) -> None:
        """Serve until told to end."""
        loop = asyncio.get_running_loop()
        self.proxy_port = await self.proxy.listen()
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.over.set)
        control = await loop.create_server(lambda: _Control(self), HOST, 0)
        self._tell_where(control.sockets[0].getsockname()[1])
        await self.over.wait()
        self._end_all()
        self.proxy.close()
        control.close()

    def _tell_where(self, port: int) -> None:
        """Write ``supervisor.json`` in one step: whoever finds it can use it."""
        told = {
            "run": self.charge.run_id,
            "process": str(Process.of(os.getpid())),
            "harness": self.charge.harness,
            "port": port,
            "token": self.token,
            "proxy_port": self.proxy_port,
        }
        path = Path(self.charge.directory) / FILE
        part = path.with_suffix(".part")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(told, file)
        part.replace(path)

    # Commands

    def do_define(self, nodes: list[dict[str, Any]]) -> None:
        """Learn the cluster's nodes; starts none."""
        for told in nodes:
            spec = NodeSpec(**told)
            pressure = Pressure(gate_of(Path(self.charge.directory), spec.name))
            disk_rules = WrittenRules(rules_of(Path(self.charge.directory), spec.name))
            self.servers[spec.name] = _Server(spec=spec, pressure=pressure, disk_rules=disk_rules)

    def do_add(self, node: dict[str, Any]) -> bool:
        """Learn one node more, and tell those that run of it; starts none. False if there is one of that name."""
        if node["name"] in self.servers:
            return False
        self.do_define([node])
        self.newcomers.append(node["name"])
        membership.write(newcomers_of(Path(self.charge.directory)), dict.fromkeys(self.newcomers, ""))
        return True

    def do_spawn(self, node: str) -> bool:
        """Start the node's next life unless it lives."""
        server = self._server(node)
        if server.alive:
            return False
        server.incarnation += 1
        server.killed = False
        server.ended = None
        server.disk_rules.born()
        directory = Path(self.charge.directory)
        launch = Launch(
            spec=server.spec,
            nodes=tuple(self.servers),
            incarnation=server.incarnation,
            seed=self.charge.seed,
            disk=str(disk_of(directory, node)),
            trace=str(trace_file(directory, node)),
            disk_rules=str(rules_of(directory, node)),
            proxy_port=self.proxy_port,
            parent=os.getpid(),
            gate=str(gate_of(directory, node)),
            membership=str(newcomers_of(directory)),
        )
        log = log_of(directory, node)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            server.popen = subprocess.Popen(
                [sys.executable, "-P", "-m", server.spec.package, launch.to_json()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, NODE: node},
                start_new_session=True,
            )
        server.process = Process.of(server.popen.pid)
        return True

    def do_kill(self, node: str) -> bool:
        """Send SIGKILL; False if the node doesn't live."""
        server = self._server(node)
        self._reap()
        if not server.alive:
            return False
        server.killed = True
        return server.process.signal(signal.SIGKILL)

    def do_terminate(self, node: str) -> bool:
        """Send SIGTERM; False if the node doesn't live."""
        server = self._server(node)
        self._reap()
        if not server.alive:
            return False
        server.killed = True
        return server.process.signal(signal.SIGTERM)

    def do_pause(self, node: str) -> bool:
        server = self._server(node)
        return server.alive and server.process.signal(signal.SIGSTOP)

    def do_resume(self, node: str) -> bool:
        server = self._server(node)
        return server.alive and server.process.signal(signal.SIGCONT)

    def do_press(self, node: str, kind: str, amount: int) -> dict[str, object]:
        server = self._server(node)
        self._reap()
        # One that is just starting would end of what it is only to do without.
        ready = server.alive and (Kind(kind) not in DEADLY or node in self.proxy.addresses)
        return server.pressure.press(Kind(kind), amount, server.process if ready else None)

    def do_release(self, node: str, kind: str) -> None:
        server = self._server(node)
        self._reap()
        server.pressure.release(Kind(kind), server.process if server.alive else None)

    def do_status(self) -> dict[str, object]:
        """Each node's life: ``listening`` once its first step is over, then at ``port`` (0: nowhere)."""
        self._reap()
        return {
            name: {
                "incarnation": server.incarnation,
                "process": str(server.process),
                "alive": server.alive,
                "listening": server.alive and name in self.proxy.addresses,
                "port": self.proxy.addresses.get(name, (HOST, 0))[1] if server.alive else 0,
                "ended": server.ended,
            }
            for name, server in self.servers.items()
        }

    def do_crashes(self) -> list[dict[str, object]]:
        self._reap()
        return self.crashes

    def do_set_rule(self, rule_id: str, rule: Mapping[str, Any]) -> None:
        self.proxy.set_rule(rule_id, rule_from_json(rule))

    def do_clear_rule(self, rule_id: str) -> None:
        self.proxy.clear_rule(rule_id)

    def do_rule_hits(self, rule_id: str) -> int:
        return self.proxy.hits.get(rule_id, 0)

    def do_set_disk_rule(self, node: str, rule_id: str, action: Mapping[str, Any]) -> None:
        self._server(node).disk_rules.put_up(rule_id, from_json(action))

    def do_clear_disk(self, rule_id: str) -> list[str]:
        """Take a rule away from all disks; returns the nodes that may be about to end of it."""
        for server in self.servers.values():
            server.disk_rules.clear(rule_id)
        hit = [name for name, server in self.servers.items() if server.disk_rules.count(rule_id)]
        return [name for name in hit if self.servers[name].alive and self.servers[name].disk_rules.deadly]

    def do_disk_rule_hits(self, rule_id: str) -> int:
        return sum(server.disk_rules.count(rule_id) for server in self.servers.values())

    async def do_expose(self, client: str, node: str) -> tuple[str, int]:
        self._server(node)
        return HOST, await self.proxy.expose(client, node)

    def do_shutdown(self) -> None:
        """End all nodes, then this process."""
        self._end_all()
        asyncio.get_running_loop().call_soon(self.over.set)

    # Nodes

    def _server(self, node: str) -> _Server:
        server = self.servers.get(node)
        if server is None:
            raise ValueError(f"there is no node {node!r}; the nodes are {', '.join(self.servers) or 'none yet'}")
        return server

    def _hello(self, hello: Mapping[str, object], transport: asyncio.Transport) -> None:
        """A node says where it listens."""
        server = self.servers.get(str(hello.get("node")))
        port = hello.get("port")
        if server is None or hello.get("pid") != server.process.pid or not isinstance(port, int):
            transport.abort()
            return
        self.proxy.addresses[server.spec.name] = (HOST, port)
        server.pressure.born(server.process)

    def _reap(self) -> None:
        """Learn of nodes that have ended; one that nobody killed has crashed."""
        for name, server in self.servers.items():
            if server.popen is None or server.ended is not None or server.popen.poll() is None:
                continue
            server.ended = server.popen.returncode
            self.proxy.addresses.pop(name, None)
            if not (server.killed or server.pressure.deadly or server.disk_rules.deadly):
                log = log_of(Path(self.charge.directory), name)
                self.crashes.append(
                    {
                        "node": name,
                        "incarnation": server.incarnation,
                        "exit_code": server.ended,
                        "log": log.read_bytes()[-LOG_TAIL_BYTES:].decode("utf-8", "replace"),
                    }
                )

    def _end_all(self) -> None:
        for server in self.servers.values():
            if server.popen is not None and server.alive:
                server.killed = True
                server.process.signal(signal.SIGKILL)
        for server in self.servers.values():
            if server.popen is not None:
                server.popen.wait()
            server.pressure.end()
        self._reap()


class _Control(asyncio.Protocol):
    """One connection of a harness."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._buffer = b""
        self._trusted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            if self._trusted:
                asyncio.get_running_loop().create_task(self._obey(line))
            elif secrets.compare_digest(line, self._supervisor.token.encode()):
                self._trusted = True
            else:
                self._transport.abort()
                return

    async def _obey(self, line: bytes) -> None:
        try:
            command = json.loads(line)
            do: Callable[..., Any] = getattr(self._supervisor, f"do_{command.pop('do')}")
            result = do(**command)
            answer = {"ok": await result if asyncio.iscoroutine(result) else result}
        except Exception as error:  # whatever it is, the harness must hear of it
            answer = {"error": f"{type(error).__name__}: {error}"}
        self._transport.write(json.dumps(answer).encode() + b"\n")


def disk_of(directory: Path, node: str) -> Path:
    return directory / "nodes" / node


def gate_of(directory: Path, node: str) -> Path:
    """While this file is there, no sync of the node's disk begins."""
    return directory / "nodes" / f"{node}.gate"


def newcomers_of(directory: Path) -> Path:
    return directory / "nodes" / membership.FILE


def log_of(directory: Path, node: str) -> Path:
    return directory / "logs" / f"{node}.log"


def rule_to_json(rule: LinkRule) -> dict[str, object]:
    action = {"name": type(rule.action).__name__, **asdict(rule.action)}
    names = {"sources": sorted(rule.sources), "targets": sorted(rule.targets), "but": sorted(rule.but)}
    return {**names, "action": action}


def rule_from_json(told: Mapping[str, Any]) -> LinkRule:
    action = dict(told["action"])
    sources, targets, but = (frozenset(told[key]) for key in ("sources", "targets", "but"))
    return LinkRule(sources, targets, _ACTIONS[action.pop("name")](**action), but)


def main() -> None:
    asyncio.run(Supervisor(Charge(**json.loads(sys.argv[1]))).serve())


if __name__ == "__main__":
    main()
