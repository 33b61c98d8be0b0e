"""The TCP connections of a node that is a process.

Node code knows names only. All connections are dialled to the supervisor's proxy (``chaos/machines/proxy.py`` has the
protocol of the first line), or, on a machine of its own, to the peers themselves. Imports only the standard library.
"""

from __future__ import annotations

import asyncio
import errno
import json
import resource
import secrets
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from chaos.node import NOWHERE, Address, Codec, Forbidden, Message
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
MAX_NAME_CHARACTERS = 255
#: A connection whose first line isn't there by then is dropped.
PREAMBLE_S = 10.0
#: Bytes of all that is no whole message yet, over all connections; who sends more is dropped.
MAX_BUFFERED_BYTES = 256 * 1024 * 1024
#: Connections that others may hold with us, and the share of this process's descriptors that they may take.
MAX_CONNECTIONS, DESCRIPTORS_SHARE = 4096, 0.5


class CanTellInternal(Protocol):
    """Optional power of a codec whose messages are not all for everybody."""

    def is_internal(self, message: Any) -> bool:
        """Return whether only nodes of the cluster and the harness may say this."""


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
        #: Of those that were accepted: how many there are, and the bytes that are no whole message yet.
        self.accepted_count = self.buffered_bytes = 0
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.most_accepted = min(MAX_CONNECTIONS, int(descriptors * DESCRIPTORS_SHARE))
        self._members = MembershipFile(launch.membership)
        self._dials = 7 * launch.incarnation  # peers may not know yet that connections of the last life are over

    async def listen(self) -> asyncio.Server:
        """Bind the port that the launch says; nobody is accepted until the server is asked to serve."""
        return await self.loop.create_server(
            lambda: _Accepted(self), *self.launch.listens, backlog=512, start_serving=False
        )

    def frame(self, to: str, message: Message) -> bytes:
        """Return what goes to this peer on the wire. Raises whatever the codec raises."""
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
        """Return where the connection that this peer has opened comes from, and where it has reached us."""
        peer = self.peers.get(name)
        accepted = peer.accepted if peer is not None else None
        return accepted.endpoints() if accepted is not None else (NOWHERE, NOWHERE)

    def disconnect(self, name: str) -> None:
        """Drop the connections with this peer, and what waits for it; nobody is informed."""
        peer = self.peers.get(name)
        if peer is not None:
            peer.drop()

    def accepted(self, name: str, connection: Connection) -> None:
        """Take the connection of a peer that has dialled us. If it had done so before, it has given up that one."""
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
        """Return whether a node is called so, also one that has joined since our start."""
        if name in self.launch.foreign:
            return True
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
        if self.name not in launch.foreign:
            hello = {"from": launch.spec.name, "to": self.name}
            hello |= {"token": launch.token} if launch.token else {}
            connection.write(json.dumps(hello).encode() + b"\n")
        if launch.addresses:  # nobody stands between us: who has taken the connection is the node itself
            connection.open = True
            self.connected(connection)

    def connected(self, connection: Connection) -> None:
        """Send what waited for our dial, which was answered."""
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
        """Drop all connections with this peer, since one broke, or was refused, and let the node hear of it."""
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
        self._buffered = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def opening(self, buffer: bytearray) -> bool:
        """Read off the buffer what opens the connection; False if more is needed. Raises ``ValueError``."""
        raise NotImplementedError

    def data_received(self, data: bytes) -> None:
        connections, before = self.connections, len(self._buffer)
        self._buffer += data
        try:
            if not self.open:
                self.open = self.opening(self._buffer)
            messages = connections.codec.decode(self._buffer) if self.open else []
            connections.buffered_bytes += len(self._buffer) - before
            self._buffered += len(self._buffer) - before
            if connections.buffered_bytes > MAX_BUFFERED_BYTES:
                raise ValueError("others have sent too much of frames that have not ended")
        except ValueError as error:
            self._refuse(error)
            return
        for message in messages:
            if self.peer is None or self._transport.is_closing():
                return  # the node has closed the connection meanwhile
            self.take(self.peer.name, message)

    def take(self, source: str, message: Message) -> None:
        """Hand on a whole message that has come."""
        self.connections.listener.message(source, message)

    def _refuse(self, error: ValueError) -> None:
        said = ascii(str(error))[:MAX_NAME_CHARACTERS]
        print(f"bytes that are no frame, from {ascii(self.peer.name) if self.peer else 'somebody'}: {said}", flush=True)
        self.abort()
        if self.peer is not None:
            self.peer.lost()

    def connection_lost(self, error: Exception | None) -> None:
        self._forget()
        if self.peer is not None:
            self.peer.lost()

    def _forget(self) -> None:
        """Free what has come and is no whole message."""
        self.connections.buffered_bytes -= self._buffered
        self._buffered = 0
        self._buffer.clear()

    def write(self, data: bytes) -> int:
        """Send, and return how many bytes still wait here."""
        self._transport.write(data)
        return self._transport.get_write_buffer_size()

    def endpoints(self) -> tuple[Address, Address]:
        """Return its far end and its near end."""
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

    _trusted = True
    _rewriter: AddressRewriter | None = None
    _impatience: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.connections.accepted_count += 1
        if self.connections.accepted_count > self.connections.most_accepted:
            self.abort()
        else:
            self._impatience = self.connections.loop.call_later(PREAMBLE_S, self._late)

    def connection_lost(self, error: Exception | None) -> None:
        self.connections.accepted_count -= 1
        super().connection_lost(error)

    def _late(self) -> None:
        if not self.open:
            self.abort()

    def opening(self, buffer: bytearray) -> bool:
        if self.connections.launch.addresses and buffer[:1] != b"{":
            self._accept_outsider()
            return True
        line, found, rest = bytes(buffer).partition(b"\n")
        if len(line) > MAX_PREAMBLE_BYTES:
            raise ValueError("the first line never ends")
        if not found:
            return False
        if line in (PING, clocks.ASK):
            self._transport.write(CONNECTED if line == PING else self.connections.listener.clocks())
            self._transport.close()
            return False
        name = _read_hello(line, self.connections.launch)
        buffer[:] = rest
        self._begin(name)
        return True

    def _accept_outsider(self) -> None:
        """Accept who sends no first line. No frame begins as one does, so where no proxy stands between us, what begins
        otherwise comes from a client that speaks the system's protocol only: its address is its name, and it knows no
        secret. A program among the nodes reaches them as they reach each other."""
        launch = self.connections.launch
        self._trusted = False
        (host, port), _ = self.endpoints()
        inside = any(host == where.rpartition(":")[0] for where in launch.foreign)
        self._begin(f"{host}:{port}", (not inside and launch.exposed) or launch.addresses)

    def _begin(self, name: str, addresses: Mapping[str, str] = {}) -> None:
        self._impatience.cancel()
        self.connections.accepted(name, self)
        if addresses:
            self._rewriter = self.connections.rewriters[name] = AddressRewriter(self.connections.codec, addresses)

    def take(self, source: str, message: Message) -> None:
        if not self._trusted and self._is_internal(message):
            if message.is_oneway:
                self.abort()
            else:
                refusal = message.refused(Forbidden(f"request code {message.kind} is for nodes of the cluster only"))
                self.connections.send(source, self.connections.codec.encode(refusal))
            return
        if self._rewriter is not None:
            self._rewriter.asks(message)
        super().take(source, message)

    def _is_internal(self, message: Message) -> bool:
        codec: object = self.connections.codec
        return hasattr(codec, "is_internal") and cast("CanTellInternal", codec).is_internal(message)


def _read_hello(line: bytes, launch: Launch) -> str:
    """Return who a first line says that it is. Raises ``ValueError``."""
    try:
        hello = json.loads(line)
        name, token = hello["from"], hello.get("token", "")
        problem = (
            not isinstance(name, str)
            or not 0 < len(name.encode()) <= MAX_NAME_CHARACTERS
            or name == launch.spec.name
            or not isinstance(token, str)
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        problem = True
    if problem:
        raise ValueError("the first line names no peer")
    if launch.token and not secrets.compare_digest(token.encode("utf-8", "replace"), launch.token.encode()):
        raise ValueError("the first line does not hold the token of this cluster")
    assert isinstance(name, str)
    return name
