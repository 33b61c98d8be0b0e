"""A driver for tinyq whose programs misbehave, each in the way that the experiment says."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace

from mystorm.tinyq import BACKUP, PRIMARY, Tinyq, program

from chaos.api import ClientCommand, ClusterSpec, Network, NodeSpec, Program

#: Long lines, 40 MB of them: far more than is kept of a log.
FLOOD = f"yes {'flood' * 200} | head -c 40000000; echo"
#: It writes without end, hears no SIGTERM, and has left a process behind that is in no group of its own.
RUDE = f"trap '' TERM; setsid sleep 300 & {FLOOD}; exec python3 tinyq_server.py conf/tinyq.json"
CLIENTS = {
    "no-json": "echo hello; cat",
    "lies": """echo '{"id": 1, "type": "invoke", "f": "send", "time_ns": 9000000000000000000}'; cat""",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``how``: what goes wrong."""

    how: str = ""


def primary(how: str) -> Program:
    good = program(BACKUP)
    config = str(good.files["conf/tinyq.json"])
    match how:
        case "silent":
            return replace(good, argv=["sh", "-c", "echo warming up; exec sleep 60"], begin_s=3.0)
        case "ends":
            return replace(good, argv=["sh", "-c", "echo no licence >&2; exit 3"])
        case "missing":
            return replace(good, argv=["no-such-command", "--flag"])
        case "image":
            return replace(good, image="nobody/has:this")
        case "node" | "port":
            text = "{ip:queue-7}" if how == "node" else "{port:queue-1.peer}"
            return replace(good, files={**good.files, "conf/peer": text})
        case "address":
            files = {**good.files, "conf/tinyq.json": config.replace('"{ip}"', '"127.0.0.1"', 1)}
            return replace(good, files=files, ready=None, begin_s=4.0)
        case "rude":
            return replace(good, argv=["sh", "-c", RUDE], orderly_s=0.5)
    return good


class Rude(Tinyq):
    def __init__(self, options: Options) -> None:
        self._how = options.how

    def cluster(self, mutant: str) -> ClusterSpec:
        nodes = {PRIMARY: primary(self._how), BACKUP: program()}
        return ClusterSpec(nodes=[NodeSpec(name=name, role="broker", program=it) for name, it in nodes.items()])

    async def client_command(self, network: Network, name: str) -> ClientCommand:
        if self._how in CLIENTS:
            return ClientCommand(argv=shlex.split(f"sh -c {shlex.quote(CLIENTS[self._how])}"))
        return await super().client_command(network, name)


def create(options: Options) -> Rude:
    return Rude(options)
