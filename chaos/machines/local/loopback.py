"""Addresses for programs that share this machine: each node gets one of the loopback network of its own.

So every node may listen at the same fixed port, as on machines of their own, as long as it binds to the address that it
was given. Ports that the deployment chooses are free on all addresses, for programs that bind to every one.
"""

from __future__ import annotations

import os
import socket
from itertools import count
from pathlib import Path
from typing import TypedDict
from zlib import crc32

from chaos.errors import MachineError
from chaos.machines.machine import Address
from chaos.program import Program

#: Below those from which the kernel takes ports for connections.
PORTS = range(10_000, 32_000)
#: So many nodes fit into the part of the loopback network that a run takes.
MOST_NODES = 250


class Listens(TypedDict):
    """Fields of :class:`chaos.machines.machine.Seat`."""

    ip: str
    ports: dict[str, int]
    reached: dict[str, Address]


class LoopbackAddresses:
    """The addresses of one run: other runs on this machine most probably take others."""

    def __init__(self, directory: Path) -> None:
        number = crc32(f"{directory}/{os.getpid()}".encode())
        self._network = f"127.{1 + number % 253}.{number // 253 % 256}"
        self._nodes = count(2)
        self._taken: set[int] = set()
        self._next = number % len(PORTS)

    def of(self, name: str, program: Program) -> Listens:
        """Return an address for one more node, and its ports. Raises :class:`MachineError` when none are free."""
        node = next(self._nodes)
        if node > MOST_NODES:
            raise MachineError(f"no addresses are left for more than {MOST_NODES} programs")
        ip = f"{self._network}.{node}"
        ports = {port: number or self._free() for port, number in program.ports.items()}
        taken = [number for number in program.ports.values() if number and not _is_free(number, ip)]
        if taken:
            raise MachineError(
                f"port {taken[0]} of node {name} is taken by another program on this machine, at all addresses: end"
                f" that (`ss -ltnp 'sport = :{taken[0]}'` says which it is), or use `--on netns`"
            )
        return Listens(ip=ip, ports=ports, reached={port: (ip, number) for port, number in ports.items()})

    def _free(self) -> int:
        """Return a port that nobody uses at any address."""
        for _ in PORTS:
            self._next = (self._next + 1) % len(PORTS)
            port = PORTS[self._next]
            if port not in self._taken and _is_free(port):
                self._taken.add(port)
                return port
        raise MachineError(f"no port from {PORTS[0]} to {PORTS[-1]} is free")


def _is_free(port: int, host: str = "") -> bool:
    with socket.socket() as probe:
        if host:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: what has ended takes nothing
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
