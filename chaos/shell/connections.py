"""The TCP connections of a node that is a process.

Node code knows names only. All connections are dialled to the supervisor's proxy (``chaos/machines/proxy.py`` has the
protocol of the first line), or, on a machine of its own, to the peers themselves. Imports only the standard library.
"""

from __future__ import annotations

import asyncio
import errno
import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from chaos.node import NOWHERE, Address, Message
from chaos.shell import clocks
from chaos.shell.address_rewriting import AddressRewriter
from chaos.shell.launch import Launch
from chaos.shell.membership import MembershipFile

#: Sent to who dialled when its target has accepted.
CONNECTED = b"+"
#: A first line that asks for nothing but :data:`CONNECTED`.
PING = b'{"ping":true}'
#: Bytes that may wait for one peer; then its connection breaks, as a buffer that is never read would.
MAX_WAITING_BYTES = 64 * 1024 * 1024
MAX_PREAMBLE_BYTES = 4096


class Codec(Protocol):
    """:class:`chaos.driver.Codec`, for a shell that may not import it."""

    def encode(self, message: Message) -> bytes: ...

    def decode(self, buffer: bytearray) -> list[Message]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Who hears of what comes in. ``message(source, message)``; ``closed(peer)``: the connection broke or could not be
    opened. ``clocks()``: the answer to :data:`chaos.shell.clocks.ASK`."""

    message: Callable[[str, Message], None]
    closed: Callable[[str], None]
    clocks: Callable[[], bytes]


class Connections:
    """All connections of one node, by the name of the peer. ``launch`` grows with the nodes that join."""

    def __init__(self, launch: Launch, codec: Codec, listener: Listener) -> None:
        self.launch = launch
        self.codec = codec
        self.listener = listener
        self.loop = asyncio.get_running_loop()
        self.peers: dict[str, Peer] = {}
        #: For clients that know nodes by addresses only.
        self.rewriters: dict[str, AddressRewriter] = {}
        self._members = MembershipFile(launch.membership)
        self._dials = 7 * launch.incarnation  # peers may not know yet that connections of the last life are over

    async def listen(self) -> asyncio.Server:
        """Bind the port that the launch says; nobody is accepted until the server is told to serve."""
        return await self.loop.create_server(
            lambda: _Accepted(self), *self.launch.listens, backlog=512, start_serving=False
        )

    def frame(self, to: str, message: Message) -> bytes:
        """What goes to this peer on the wire. Raises whatever the codec raises."""
        rewriter = self.rewriters.get(to)
        return self.codec.encode(message if rewriter is None else rewriter.rewritten(message))

    def send(self, to: str, frame: bytes) -> None:
        """Send, and dial first if need be. What goes to nobody, or to a client that has gone, is lost."""
        peer = self.peers.get(to)
        if peer is None:
            if to == self.launch.spec.name or not self._knows(to):
                return
            peer = self.peers[to] = Peer(self, to)
            peer.dial()
        peer.send(frame)

    def endpoints(self, name: str) -> tuple[Address, Address]:
        """Where the connection that this peer has opened comes from, and where it has reached us."""
        peer = self.peers.get(name)
        accepted = peer.accepted if peer is not None else None
        return accepted.endpoints() if accepted is not None else (NOWHERE, NOWHERE)

    def disconnect(self, name: str) -> None:
        """Drop the connections with this peer, and what waits for it; nobody is told."""
        peer = self.peers.get(name)
        if peer is not None:
            peer.drop()

    def accepted(self, name: str, connection: Connection) -> None:
        """A peer has dialled us. If it had done so before, it has given up that connection."""
        peer = self.peers.get(name)
        if peer is not None and peer.accepted is not None:
            peer.lost()
            peer = self.peers.get(name)
        if peer is None:
            peer = self.peers[name] = Peer(self, name)
        peer.accept(connection)

    async def dialled(self, where: tuple[str, int]) -> socket.socket:
        """Dial, from the next of our own ports if we have some. Raises ``OSError``."""
        first, last = self.launch.dial_ports or (0, 0)
        for _ in range(first, last + 1):
            port = first + self._dials % (last + 1 - first)
            self._dials += 1
            dialling = socket.socket()
            try:
                dialling.setblocking(False)
                if port:
                    dialling.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    dialling.bind(("", port))
                await self.loop.sock_connect(dialling, where)
            except BaseException as error:
                dialling.close()
                if getattr(error, "errno", 0) not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
                    raise
            else:
                return dialling
        raise OSError(f"no port is free of {first} to {last}")

    def _knows(self, name: str) -> bool:
        """Whether a node is called so, also one that has joined since our start."""
        if name not in self.launch.nodes and (joined := self._members.changed()):
            self.launch = self.launch.joined_by(joined)
        return name in self.launch.nodes


class Peer:
    """All that connects us with one other name: the connection that we dialled, the one that we accepted, or both when
    both dialled at once. They break together. What we say goes over one of them, the first that there was."""

    def __init__(self, connections: Connections, name: str) -> None:
        self.name = name
        self.accepted: Connection | None = None
        self._connections = connections
        self._loop = connections.loop
        self._dialled: Connection | None = None
        self._speaks: Connection | None = None
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._dialling: asyncio.Task[None] | None = None
        self._over = False

    def dial(self) -> None:
        self._dialling = self._loop.create_task(self._dial())

    async def _dial(self) -> None:
        launch = self._connections.launch
        try:
            dialled = await self._connections.dialled(launch.address_of(self.name))
            _, connection = await self._loop.create_connection(lambda: _Dialled(self._connections, self), sock=dialled)
        except OSError:
            self.lost()
            return
        if self._over:
            connection.abort()
            return
        self._dialled = connection
        connection.write(json.dumps({"from": launch.spec.name, "to": self.name}).encode() + b"\n")
        if launch.addresses:  # nobody stands between us: who has taken the connection is the node itself
            connection.open = True
            self.connected(connection)

    def connected(self, connection: Connection) -> None:
        """Our dial was answered: what waited for it leaves."""
        self._speaks = connection
        connection.write(b"".join(self._waiting))
        self._waiting.clear()

    def accept(self, connection: Connection) -> None:
        connection.peer = self
        self.accepted = connection
        if self._speaks is None and self._dialling is None:
            self._speaks = connection

    def send(self, frame: bytes) -> None:
        if self._speaks is not None:
            if self._speaks.write(frame) > MAX_WAITING_BYTES:
                self._loop.call_soon(self.lost)
            return
        self._waiting.append(frame)
        self._waiting_bytes += len(frame)
        if self._waiting_bytes > MAX_WAITING_BYTES:
            self._loop.call_soon(self.lost)

    def lost(self) -> None:
        """Some connection with this peer broke, or was refused: all of them are over, and the node hears of it."""
        if not self._over:
            self.drop()
            self._connections.listener.closed(self.name)

    def drop(self) -> None:
        self._over = True
        self._connections.peers.pop(self.name, None)
        self._connections.rewriters.pop(self.name, None)
        self._waiting.clear()
        for connection in (self._dialled, self.accepted):
            if connection is not None:
                connection.abort()


class Connection(asyncio.Protocol):
    """One TCP connection: first whatever opens it, then frames."""

    def __init__(self, connections: Connections, peer: Peer | None = None) -> None:
        self.connections = connections
        self.peer = peer
        self.open = False
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def opening(self, buffer: bytearray) -> bool:
        """Read off the buffer what opens the connection; False if more is needed. Raises ``ValueError``."""
        raise NotImplementedError

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        try:
            if not self.open:
                self.open = self.opening(self._buffer)
            messages = self.connections.codec.decode(self._buffer) if self.open else []
        except ValueError as error:
            print(f"bytes that are no frame, from {self.peer.name if self.peer else 'somebody'}: {error}", flush=True)
            self.abort()
            if self.peer is not None:
                self.peer.lost()
            return
        for message in messages:
            if self.peer is None or self._transport.is_closing():
                return  # the node has closed the connection meanwhile
            rewriter = self.connections.rewriters.get(self.peer.name)
            if rewriter is not None:
                rewriter.asks(message)
            self.connections.listener.message(self.peer.name, message)

    def connection_lost(self, error: Exception | None) -> None:
        if self.peer is not None:
            self.peer.lost()

    def write(self, data: bytes) -> int:
        """Send, and return how many bytes still wait here."""
        self._transport.write(data)
        return self._transport.get_write_buffer_size()

    def endpoints(self) -> tuple[Address, Address]:
        """Its far end and its near end."""
        (far, far_port, *_), (near, near_port, *_) = map(self._transport.get_extra_info, ("peername", "sockname"))
        return (far, far_port), (near, near_port)

    def abort(self) -> None:
        self._transport.abort()


class _Dialled(Connection):
    """We have dialled; one byte says that the target has accepted."""

    def opening(self, buffer: bytearray) -> bool:
        if buffer[:1] != CONNECTED:
            raise ValueError(f"the proxy answered {bytes(buffer[:20])!r}")
        del buffer[:1]
        assert self.peer is not None
        self.peer.connected(self)
        return True


class _Accepted(Connection):
    """Somebody has dialled us; the first line says who, or asks something of the shell itself."""

    def opening(self, buffer: bytearray) -> bool:
        if self.connections.launch.addresses and buffer[:1] != b"{":
            self._accept_outsider()
            return True
        line, found, rest = bytes(buffer).partition(b"\n")
        if not found:
            if len(buffer) > MAX_PREAMBLE_BYTES:
                raise ValueError("the first line never ends")
            return False
        if line in (PING, clocks.ASK):
            self._transport.write(CONNECTED if line == PING else self.connections.listener.clocks())
            self._transport.close()
            return False
        hello = json.loads(line)
        if not isinstance(hello, dict) or not isinstance(hello.get("from"), str):
            raise ValueError("the first line names no peer")
        buffer[:] = rest
        self.connections.accepted(hello["from"], self)
        if "addresses" in hello:
            self._rewrite(hello["from"], hello["addresses"])
        return True

    def _accept_outsider(self) -> None:
        """No frame begins as a first line does, so where no proxy stands between us, what begins otherwise comes from
        a client that speaks the system's protocol only: its address is its name."""
        launch = self.connections.launch
        host, port = self._transport.get_extra_info("peername")[:2]
        name = f"{host}:{port}"
        self.connections.accepted(name, self)
        self._rewrite(name, launch.exposed or launch.addresses)

    def _rewrite(self, name: str, addresses: Mapping[str, str]) -> None:
        self.connections.rewriters[name] = AddressRewriter(self.connections.codec, addresses)
