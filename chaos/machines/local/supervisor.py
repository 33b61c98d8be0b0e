"""The supervisor of one run: a process of its own that holds the node processes, and here the proxy of their links.

It outlives the harness, so that a killed command line cuts no connection silently and the cluster can still be healed
or used by hand; its nodes never outlive it. It obeys all commands of an agent (:mod:`chaos.machines.agent.commands`)
and its own, over a loopback connection whose first line must be the token of ``supervisor.json``. Each is answered at
once; what takes time (a node's start, a death) is asked for again by ``status``.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from chaos.effects import requests
from chaos.effects.links import ACTIONS, LinkRule, Pass
from chaos.errors import MachineError
from chaos.frames import Framing
from chaos.machines.agent import powered_disk
from chaos.machines.agent.commands import SLOW, Agent, command_of, failure
from chaos.machines.procfs import Process
from chaos.machines.proxy import HOST, Proxy

#: How it is started.
MODULE = "chaos.machines.local.supervisor"
#: Says where it is, or only, as :data:`PROBLEM`, why this machine can't serve.
FILE, PROBLEM = "supervisor.json", "problem"
#: Who has not shown the token within so many bytes and seconds is dropped.
MAX_TOKEN_BYTES, TOKEN_S = 128, 10.0
#: How often what nodes have written is looked at.
CAP_EVERY_S = 0.5
_ACTIONS = {**ACTIONS, **requests.ACTIONS, Pass.__name__: Pass}


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """All that a supervisor is given at its start."""

    run_id: str
    directory: str
    seed: int
    harness: str  # PID:START
    cuts_power: bool = False  # nodes get disks that can lose their power


class Supervisor:
    """Its own commands are its methods whose names begin with ``do_``, besides those of its agent. ``control``: where
    it listens for them; ``slow``: which of them are done on a thread."""

    slow = SLOW

    def __init__(self, charge: Charge, agent: Agent, control: socket.socket) -> None:
        self.charge = charge
        self.token = secrets.token_hex(16)
        self.agent = agent
        self.over = asyncio.Event()
        self._control = control

    async def serve(self, **fields: object) -> None:
        """Serve until asked to end; ``fields``: what ``supervisor.json`` says besides."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self.forget_dead)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.over.set)
        control = await loop.create_server(lambda: _Control(self), sock=self._control)
        self._publish(**fields)
        capping = loop.create_task(self._cap_logs())
        await self.over.wait()
        capping.cancel()
        self.agent.end_all()
        control.close()

    def _publish(self, **fields: object) -> None:
        own = {"process": str(Process.of(os.getpid())), "port": self._control.getsockname()[1], "token": self.token}
        publish(self.charge, **own, **fields)

    def do_shutdown(self) -> None:
        """End all nodes, then this process."""
        self.agent.end_all()
        asyncio.get_running_loop().call_soon(self.over.set)

    def forget_dead(self) -> None:
        """Note that a child has ended."""

    async def _cap_logs(self) -> None:
        while True:
            await asyncio.sleep(CAP_EVERY_S)
            await asyncio.to_thread(self.agent.cap_logs)


class ProxySupervisor(Supervisor):
    """One whose proxy is all links."""

    def __init__(self, charge: Charge) -> None:
        agent = Agent(Path(charge.directory), os.environ, shelters=True)
        super().__init__(charge, agent, socket.create_server((HOST, 0)))
        self.proxy = Proxy(charge.seed, self._hello)

    async def serve(self, **fields: object) -> None:
        try:
            await super().serve(proxy_port=await self.proxy.listen(), **fields)
        finally:
            self.proxy.close()

    # Commands

    def do_port(self, node: str) -> int:
        """Return where a node listens; 0 until its first step is over, and once it has ended."""
        self.forget_dead()
        return self.proxy.addresses.get(node, (HOST, 0))[1]

    def do_read_requests(self, reader: str, kinds: list[str], ruled: bool) -> None:
        self.proxy.read_requests(Framing(reader=reader, kinds=kinds), ruled=ruled)

    def do_set_rule(self, rule_id: str, rule: Mapping[str, Any]) -> None:
        self.proxy.set_rule(rule_id, rule_from_json(rule))

    def do_clear_rule(self, rule_id: str) -> None:
        self.proxy.clear_rule(rule_id)

    def do_rule_hits(self, rule_id: str) -> int:
        return self.proxy.hits.get(rule_id, 0)

    def do_rule_ends(self, rule_id: str) -> list[str]:
        return sorted(self.proxy.ends.get(rule_id, ()))

    def do_serve(self, node: str, ports: Mapping[str, tuple[str, int]]) -> None:
        """Take a node for a program of others, which listens at these ports for as long as it lives."""
        self.proxy.programs[node] = {name: (host, number) for name, (host, number) in ports.items()}

    def do_know(self, node: str, addresses: Mapping[str, str]) -> None:
        self.proxy.endpoints.book.enter(node, addresses)

    def do_unknown(self) -> list[str]:
        """Return the addresses that nodes have named to clients, and that are no node's."""
        return list(self.proxy.endpoints.unknown)

    def do_endpoint(self, client: str, node: str, port: str) -> tuple[str, int]:
        return HOST, self.proxy.endpoints.port(client, node, port)

    # Nodes

    def _hello(self, hello: Mapping[str, object], transport: asyncio.Transport) -> None:
        """Note where a node says that it listens."""
        node, port = str(hello.get("node")), hello.get("port")
        if hello.get("pid") != self.agent.life(node).pid or not isinstance(port, int):
            transport.abort()
            return
        self.proxy.addresses[node] = (HOST, port)

    def forget_dead(self) -> None:
        """Lead nobody to a node that has ended: its port may be another's soon."""
        for node in [node for node in self.proxy.addresses if not self.agent.state(node)]:
            del self.proxy.addresses[node]


def prepare(charge: Charge) -> None:
    """Do what a supervisor does first, before any thread begins. Raises :class:`MachineError`."""
    if charge.cuts_power:
        powered_disk.begin(Path(charge.directory))


def publish(charge: Charge, **fields: object) -> None:
    """Write ``supervisor.json`` in one step: who finds it can use it."""
    path = Path(charge.directory) / FILE
    part = path.with_suffix(".part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump({"run": charge.run_id, "harness": charge.harness, **fields}, file)
    part.replace(path)


class _Control(asyncio.Protocol):
    """One connection of a harness."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._buffer = b""
        self._trusted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._impatience = asyncio.get_running_loop().call_later(TOKEN_S, transport.abort)

    def connection_lost(self, error: Exception | None) -> None:
        self._impatience.cancel()
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        if not self._trusted and len(lines[0] if lines else self._buffer) > MAX_TOKEN_BYTES:
            self._transport.abort()
            return
        for line in lines:
            if self._trusted:
                asyncio.get_running_loop().create_task(self._obey(line))
            elif secrets.compare_digest(line, self._supervisor.token.encode()):
                self._trusted = True
                self._impatience.cancel()
            else:
                self._transport.abort()
                return

    async def _obey(self, line: bytes) -> None:
        try:
            name, do = command_of((self._supervisor.agent, self._supervisor), line)
            # Nothing else must stand still meanwhile: nodes would take each other for dead.
            result = await asyncio.to_thread(do) if name in self._supervisor.slow else do()
            answer = {"ok": await result if asyncio.iscoroutine(result) else result}
        except Exception as error:  # whatever it is, the harness must hear of it
            answer = failure(error)
        self._transport.write(json.dumps(answer).encode() + b"\n")


def rule_to_json(rule: LinkRule) -> dict[str, object]:
    action = {"name": type(rule.action).__name__, **asdict(rule.action)}
    names = {"sources": sorted(rule.sources), "targets": sorted(rule.targets), "but": sorted(rule.but)}
    return {**names, "action": action}


def rule_from_json(fields: Mapping[str, Any]) -> LinkRule:
    action = dict(fields["action"])
    sources, targets, but = (frozenset(fields[key]) for key in ("sources", "targets", "but"))
    return LinkRule(sources, targets, _ACTIONS[action.pop("name")](**action), but)


def main() -> None:
    charge = Charge(**json.loads(sys.argv[1]))
    try:
        prepare(charge)
    except MachineError as error:
        publish(charge, **{PROBLEM: str(error)})
        return
    asyncio.run(ProxySupervisor(charge).serve())


if __name__ == "__main__":
    main()
