"""Ports of the proxy for clients that can't say who they are, and what such a client is told of nodes' addresses."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from chaos.addresses import AddressBook
from chaos.shell.launch import HOST

BACKLOG = 512
#: Of addresses that nodes have named and that are no node's, so many are remembered, each so far.
MOST_UNKNOWN, UNKNOWN_CHARACTERS = 20, 100

#: A client, a node, and the name of the node's port, "" for one that has no names of ports.
Route = tuple[str, str, str]


class Endpoints:
    """One port for each way from a client to a node; ``begin`` makes the protocol of a connection that comes there.
    ``main_port``: the name of a node's port where none is said."""

    def __init__(self, begin: Callable[[Route], asyncio.Protocol], main_port: Callable[[str], str]) -> None:
        self._begin = begin
        self._main_port = main_port
        #: Which node each address is that nodes may name.
        self.book = AddressBook()
        #: The addresses that nodes have named to clients, and that are no node's.
        self.unknown: dict[str, None] = {}
        self._ports: dict[Route, int] = {}
        self._serving: list[asyncio.Task[asyncio.Server]] = []

    def port(self, client: str, node: str, port: str) -> int:
        """Return the port of ours that leads this client to this port of a node; it is made when it is asked for first.
        Raises ``OSError`` where there is none left."""
        route = client, node, port or self._main_port(node)
        if route not in self._ports:
            listening = socket.create_server((HOST, 0), backlog=BACKLOG)  # who dials at once waits in the backlog
            self._ports[route] = listening.getsockname()[1]
            loop = asyncio.get_running_loop()
            serving = loop.create_server(lambda: self._begin(route), sock=listening, backlog=BACKLOG)
            self._serving.append(loop.create_task(serving))
        return self._ports[route]

    def reached(self, client: str, address: str) -> str:
        """Return where a client reaches the node that has this address; the same if no node has it."""
        place = self.book.find(address)
        if place is not None:
            return f"{HOST}:{self.port(client, *place)}"
        ours = (f"{HOST}:{number}" for (owner, _, _), number in self._ports.items() if owner == client)
        if len(self.unknown) < MOST_UNKNOWN and address not in ours:
            self.unknown[address[:UNKNOWN_CHARACTERS]] = None
        return address

    def close(self) -> None:
        for serving in self._serving:
            serving.add_done_callback(_closed)
            serving.cancel()


def _closed(serving: asyncio.Task[asyncio.Server]) -> None:
    if not serving.cancelled() and serving.exception() is None:
        serving.result().close()
