"""The shell of a node that is a process: TCP connections, timers and a strict disk around the same step functions.

``python -m PACKAGE JSON`` ends up in :func:`main`; the JSON, or the file of that name, is a :class:`Launch`. With a
node's name after it, it tells of the whole cluster (:meth:`Launch.of_cluster`). Imports only the standard library and
:mod:`chaos.node`, so that a host needs nothing but the wheel. Node code knows names: all
connections are dialled to the supervisor's proxy (``chaos/machines/proxy.py`` has the protocol of the first line),
or, on a machine of its own, to the peers themselves.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import json
import os
import signal
import socket
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Protocol

from chaos.node import Disk, Message, Node, NodeSpec
from chaos.shell import clocks as _clocks
from chaos.shell.address_rewriting import Stranger
from chaos.shell.membership import Newcomers
from chaos.shell.strict_disk import StrictDisk

HOST = "127.0.0.1"
#: Sent to who dialled when its target has accepted.
CONNECTED = b"+"
#: A first line that asks for nothing but :data:`CONNECTED`.
PING = b'{"ping":true}'
#: How a process ends that an exception of its own node code has stopped.
CRASHED = 70
#: Bytes that may wait for one peer; then its connection breaks, as a buffer that is never read would.
MAX_WAITING_BYTES = 64 * 1024 * 1024
MAX_PREAMBLE_BYTES = 4096
_PR_SET_PDEATHSIG = 1


class Codec(Protocol):
    """:class:`chaos.driver.Codec`, for a shell that may not import it."""

    def encode(self, message: Message) -> bytes: ...

    def decode(self, buffer: bytearray) -> list[Message]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """All that a node's process is told. ``nodes``: the names that can be dialled; others are clients.

    Behind a proxy: ``proxy_port`` leads to everybody, and ``parent`` is the supervisor's process id; the node dies with
    it. On a machine or in a container of its own: ``addresses`` (node → ``HOST:PORT``) lead to the peers, the node
    listens on all interfaces at its own port of them, and ``exposed`` is how clients that know nothing of us reach the
    nodes, where that differs. ``dial_ports``: the first and the last of the ports that it dials from, where nodes share
    a machine and the packet filter must know them apart; nothing for any port. ``incarnation`` 0: nobody counts the
    lives; the time of the start orders them. ``disk_rules``: a file of :mod:`chaos.shell.disk_rules`.
    ``gate``: while there is a file of that name, no sync of the disk ends. ``newcomers``: the file of
    :mod:`chaos.shell.membership`; nothing where no node is ever added. ``clock``: the file of
    :mod:`chaos.shell.clocks`; nothing where clocks are left alone.
    """

    spec: NodeSpec
    nodes: tuple[str, ...]
    incarnation: int
    seed: int
    disk: str
    trace: str
    disk_rules: str = ""
    proxy_port: int = 0
    parent: int = 0
    addresses: Mapping[str, str] = field(default_factory=dict)
    exposed: Mapping[str, str] = field(default_factory=dict)
    dial_ports: tuple[int, ...] = ()
    gate: str = ""
    newcomers: str = ""
    clock: str = ""

    def knowing(self, newcomers: Mapping[str, str]) -> Launch:
        """The same with more nodes, each with its address."""
        nodes = tuple(dict.fromkeys((*self.nodes, *newcomers)))
        return replace(self, nodes=nodes, addresses={**self.addresses, **newcomers} if self.addresses else {})

    def way_to(self, node: str) -> tuple[str, int]:
        """Where to dial for this node."""
        return address(self.addresses[node]) if self.addresses else (HOST, self.proxy_port)

    @property
    def listens(self) -> tuple[str, int]:
        """Where this node listens; port 0 is any."""
        return ("0.0.0.0", address(self.addresses[self.spec.name])[1]) if self.addresses else (HOST, 0)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Launch:
        told = json.loads(text)
        told["spec"] = NodeSpec(**told["spec"])
        told["nodes"] = tuple(told["nodes"])
        return Launch(**told)

    @staticmethod
    def of_cluster(text: str, name: str) -> Launch:
        """The launch of one node from what all of them are told alike: the same, but ``nodes`` holds their specs."""
        told = json.loads(text)
        specs = {spec["name"]: NodeSpec(**spec) for spec in told["nodes"]}
        return Launch(**{"incarnation": 0, **told, "nodes": tuple(specs), "spec": specs[name]})


def address(text: str) -> tuple[str, int]:
    """Read ``HOST:PORT``."""
    host, _, port = text.rpartition(":")
    return host, int(port)


def main(build: Callable[[NodeSpec], Node], codec: Callable[[NodeSpec], Codec]) -> None:
    """Be the node that the command line asks for, until killed, or told by SIGTERM to end in good order."""
    if len(sys.argv) not in (2, 3):
        sys.exit("expected a node's launch as JSON, or its file; or what a cluster's nodes are told, and a node's name")
    _clocks.leave_nothing_shared()
    told = sys.argv[1] if sys.argv[1].startswith("{") else Path(sys.argv[1]).read_text("utf-8")
    launch = Launch.of_cluster(told, sys.argv[2]) if len(sys.argv) == 3 else Launch.from_json(told)
    if not launch.incarnation:
        launch = replace(launch, incarnation=int(time.time()))
    if launch.parent:
        die_with(launch.parent)
    asyncio.run(Shell(launch, build(launch.spec), codec(launch.spec)).run())


def die_with(parent: int) -> None:
    """Have the system kill this process when its parent ends, for whatever reason."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the supervisor is gone")


class Shell:
    """Runs one node's steps, one after the other, each whole: its trace rows are written, then its messages leave."""

    def __init__(self, launch: Launch, node: Node, codec: Codec) -> None:
        self.launch = launch
        self.codec = codec
        self.clocks = _clocks.Clocks(Path(launch.clock) if launch.clock else None)
        self.step = 0
        self.synced = 0
        self.rows: list[bytes] = []
        self.sends: list[tuple[str, Message]] = []
        self.held: dict[str, deque[tuple[int, Message]]] = {}
        self.timers: dict[str, asyncio.TimerHandle] = {}
        self.peers: dict[str, Peer] = {}
        self.strangers: dict[str, Stranger] = {}
        self._dials = 7 * launch.incarnation  # peers may not know yet that connections of the last life are over
        self._node = node
        self._newcomers = Newcomers(launch.newcomers)
        self._trace = _open_trace(Path(launch.trace))

    async def run(self) -> None:
        self.loop = asyncio.get_running_loop()
        tell = self.loop.call_soon_threadsafe
        self.disk = StrictDisk(
            Path(self.launch.disk),
            lambda token: _ignore(tell(self._sync_done, token)),
            lambda error: _ignore(tell(self.crash, error)),
            rules=Path(self.launch.disk_rules) if self.launch.disk_rules else None,
            gate=Path(self.launch.gate) if self.launch.gate else None,
        )
        self._env = ShellEnv(self)
        self.loop.add_signal_handler(signal.SIGTERM, self.end)
        server = await self.loop.create_server(
            lambda: _Accepted(self), *self.launch.listens, backlog=512, start_serving=False
        )
        self.take(self._node.start)
        if self.launch.addresses:
            await server.serve_forever()
        await server.start_serving()
        await self._register(server.sockets[0].getsockname()[1])

    async def _register(self, port: int) -> None:
        """Tell the supervisor where we listen, and stay for as long as it does."""
        reader, writer = await asyncio.open_connection(HOST, self.launch.proxy_port)
        hello = {
            "node": self.launch.spec.name,
            "incarnation": self.launch.incarnation,
            "port": port,
            "pid": os.getpid(),
        }
        writer.write(json.dumps(hello).encode() + b"\n")
        await reader.read()

    # Steps

    def take(self, what: Callable[..., None], *arguments: object) -> None:
        """Run one step of the node's code."""
        self.step += 1
        try:
            what(self._env, *arguments)
            frames = [(to, self._frame(to, message)) for to, message in self.sends]
        except Exception as error:
            self.crash(error)
            raise
        self.sends.clear()
        if self.rows:
            self._write_rows()
        for to, frame in frames:
            self._transmit(to, frame)

    def crash(self, error: Exception) -> None:
        """An exception of the node's own code, or of its disk, ends the process; nothing of this step leaves."""
        try:
            where = traceback.extract_tb(error.__traceback__)
            at = f"{where[-1].name}:{where[-1].lineno}" if where else "disk"
            self._env.trace("crash", error=f"{type(error).__name__}: {error}", at=at)
            self._write_rows()
            traceback.print_exception(error)
            sys.stderr.flush()
        finally:  # to tell of it may fail too, where there is no memory; to go on after half a step would be worse
            os._exit(CRASHED)

    def end(self) -> None:
        """End in good order: no step is taken any more, and all that the node has written becomes durable."""
        self.disk.sync_all()
        self.disk.close()
        sys.stdout.flush()
        os._exit(0)

    def message(self, source: str, message: Message) -> None:
        self.take(self._node.message, source, message)

    def timer(self, name: str) -> None:
        del self.timers[name]
        self.take(self._node.timer, name)

    def closed(self, name: str) -> None:
        self.held.pop(name, None)
        self.take(self._node.closed, name)

    def _sync_done(self, token: int) -> None:
        self.synced = token
        for peer in list(self.held):
            waiting = self.held[peer]
            while waiting and waiting[0][0] <= token:
                self.sends.append((peer, waiting.popleft()[1]))
            if not waiting:
                del self.held[peer]
        self.take(self._node.done, token)

    def _write_rows(self) -> None:
        data = memoryview(b"".join(self.rows))
        self.rows.clear()
        while data:
            data = data[os.write(self._trace, data) :]

    def _frame(self, to: str, message: Message) -> bytes:
        stranger = self.strangers.get(to)
        return self.codec.encode(message if stranger is None else stranger.readdressed(message))

    # Peers

    async def connected(self, where: tuple[str, int]) -> socket.socket:
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

    def _transmit(self, to: str, frame: bytes) -> None:
        peer = self.peers.get(to)
        if peer is None:
            if to == self.launch.spec.name or not self._knows(to):
                return  # a client that has gone, or nobody
            peer = self.peers[to] = Peer(self, to)
            peer.dial()
        peer.send(frame)

    def _knows(self, name: str) -> bool:
        """Whether a node is called so, also one that has joined since our start."""
        if name not in self.launch.nodes and (news := self._newcomers.news()):
            self.launch = self.launch.knowing(news)
        return name in self.launch.nodes

    def accepted(self, name: str, connection: Connection) -> None:
        """A peer has dialled us. If it had done so before, it has given up that connection."""
        peer = self.peers.get(name)
        if peer is not None and peer.accepted is not None:
            peer.lost()
            peer = self.peers.get(name)
        if peer is None:
            peer = self.peers[name] = Peer(self, name)
        peer.accept(connection)

    def forget(self, name: str) -> None:
        """Drop the connections with this peer, and all that waits for it."""
        self.held.pop(name, None)
        self.sends = [(to, message) for to, message in self.sends if to != name]
        peer = self.peers.get(name)
        if peer is not None:
            peer.drop()


class Peer:
    """All that connects us with one other name: the connection that we dialled, the one that we accepted, or both when
    both dialled at once. They break together. What we say goes over one of them, the first that there was."""

    def __init__(self, shell: Shell, name: str) -> None:
        self.name = name
        self.accepted: Connection | None = None
        self._shell = shell
        self._dialled: Connection | None = None
        self._speaks: Connection | None = None
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._dialling: asyncio.Task[None] | None = None
        self._over = False

    def dial(self) -> None:
        self._dialling = self._shell.loop.create_task(self._dial())

    async def _dial(self) -> None:
        launch = self._shell.launch
        try:
            connected = await self._shell.connected(launch.way_to(self.name))
            _, connection = await self._shell.loop.create_connection(
                lambda: _Dialled(self._shell, self), sock=connected
            )
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
                self._shell.loop.call_soon(self.lost)
            return
        self._waiting.append(frame)
        self._waiting_bytes += len(frame)
        if self._waiting_bytes > MAX_WAITING_BYTES:
            self._shell.loop.call_soon(self.lost)

    def lost(self) -> None:
        """Some connection with this peer broke, or was refused: all of them are over, and the node hears of it."""
        if not self._over:
            self.drop()
            self._shell.closed(self.name)

    def drop(self) -> None:
        self._over = True
        self._shell.peers.pop(self.name, None)
        self._shell.strangers.pop(self.name, None)
        self._waiting.clear()
        for connection in (self._dialled, self.accepted):
            if connection is not None:
                connection.abort()


class Connection(asyncio.Protocol):
    """One TCP connection with the proxy: first whatever opens it, then frames."""

    def __init__(self, shell: Shell, peer: Peer | None = None) -> None:
        self.shell = shell
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
            messages = self.shell.codec.decode(self._buffer) if self.open else []
        except ValueError as error:
            print(f"bytes that are no frame, from {self.peer.name if self.peer else 'somebody'}: {error}", flush=True)
            self.abort()
            if self.peer is not None:
                self.peer.lost()
            return
        for message in messages:
            if self.peer is None or self._transport.is_closing():
                return  # the node has closed the connection meanwhile
            if self.peer.name in self.shell.strangers:
                self.shell.strangers[self.peer.name].asks(message)
            self.shell.message(self.peer.name, message)

    def connection_lost(self, error: Exception | None) -> None:
        if self.peer is not None:
            self.peer.lost()

    def write(self, data: bytes) -> int:
        """Send, and return how many bytes still wait here."""
        self._transport.write(data)
        return self._transport.get_write_buffer_size()

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
    """Somebody has dialled us; the first line says who. No frame begins as such a line does, so where nobody stands
    between us, what begins otherwise comes from a client that knows nothing of us: its address is its name."""

    def opening(self, buffer: bytearray) -> bool:
        launch = self.shell.launch
        if launch.addresses and buffer[:1] != b"{":
            host, port = self._transport.get_extra_info("peername")[:2]
            name = f"{host}:{port}"
            self.shell.accepted(name, self)
            self.shell.strangers[name] = Stranger(self.shell.codec, launch.exposed or launch.addresses)
            return True
        line, found, rest = bytes(buffer).partition(b"\n")
        if not found:
            if len(buffer) > MAX_PREAMBLE_BYTES:
                raise ValueError("the first line never ends")
            return False
        if line == PING:
            self._transport.write(CONNECTED)
            self._transport.close()
            return False
        if line == _clocks.ASK:
            self._transport.write(self.shell.clocks.tell())
            self._transport.close()
            return False
        hello = json.loads(line)
        if not isinstance(hello, dict) or not isinstance(hello.get("from"), str):
            raise ValueError("the first line names no peer")
        buffer[:] = rest
        self.shell.accepted(hello["from"], self)
        if "addresses" in hello:
            self.shell.strangers[hello["from"]] = Stranger(self.shell.codec, hello["addresses"])
        return True


class ShellEnv:
    """Implements :class:`chaos.node.Env` for the life of this process."""

    def __init__(self, shell: Shell) -> None:
        launch = shell.launch
        self._shell = shell
        self.name = launch.spec.name
        self.incarnation = launch.incarnation
        self.rng = Random(f"{launch.seed}/{self.name}/{self.incarnation}")
        self.disk: Disk = shell.disk

    def send(self, to: str, message: Message, *, after: int | None = None) -> None:
        shell = self._shell
        for name, value in message.fields.items():
            if value.__class__ is not str:
                raise TypeError(f"message {message.code} to {to}: field {name} is {value!r}, but fields are strings")
        held = shell.held.get(to)
        if held is not None:
            held.append((after or 0, message))
        elif after is not None and after > shell.synced:
            shell.held[to] = deque(((after, message),))
        else:
            shell.sends.append((to, message))

    def close(self, peer: str) -> None:
        self._shell.forget(peer)

    def set_timer(self, name: str, delay_ns: int) -> None:
        shell = self._shell
        self.cancel_timer(name)
        shell.timers[name] = shell.loop.call_later(shell.clocks.true_s(delay_ns), shell.timer, name)

    def cancel_timer(self, name: str) -> None:
        timer = self._shell.timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def mono_ns(self) -> int:
        return self._shell.clocks.mono_ns()

    def wall_ns(self) -> int:
        return self._shell.clocks.wall_ns()

    def trace(
        self,
        f: str,
        *,
        epoch: int = -1,
        queue: int = -1,
        offset: int = -1,
        position: int = -1,
        message: int = -1,
        hash: int = -1,
        **value: object,
    ) -> None:
        row: Mapping[str, Any] = {
            "kind": "trace",
            "time_ns": time.monotonic_ns(),
            "node": self.name,
            "incarnation": self.incarnation,
            "step": self._shell.step,
            "f": f,
            "epoch": epoch,
            "queue": queue,
            "offset": offset,
            "position": position,
            "message": message,
            "hash": hash,
            "value": value,
        }
        self._shell.rows.append(json.dumps(row, separators=(",", ":")).encode() + b"\n")


def _ignore(handle: object) -> None:
    """Drop a handle that nobody will cancel."""


def _open_trace(path: Path) -> int:
    """Open for appending; a line that a kill has torn is cut off: nothing of its step ever left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    size = os.fstat(handle).st_size
    keep = size
    while keep and os.pread(handle, 1, keep - 1) != b"\n":
        back = max(0, keep - 65536)
        keep = back + os.pread(handle, keep - back, back).rfind(b"\n") + 1
    if keep < size:
        os.ftruncate(handle, keep)
    return handle
