"""The links of a cluster of processes: every connection runs through here, so that rules can hold, delay or break it.

Who dials sends one line first, ``{"from": NAME, "to": NAME}``; once the target has accepted, it gets one byte
(:data:`CONNECTED`) back, and bytes flow. A connection that closes before that byte was refused. The target gets the
same line from us, so it knows its peer by name; of a dial with ``"probe": true`` it hears nothing, and if a rule stops
such a dial, that is said at once (:data:`CUT`). Everything that travels is a chunk in one of two pipes: the dial
itself, bytes, and the end; so a stalled link hides a peer's death as it hides its words.

A node that is a program of others gets no first line, and its ports have names, of which a dial may give one
(``"port"``); they stand in ``programs``.

A client that can't say who it is, as a library that dials by itself, gets a port for each node (``endpoint``); a node
of ours then learns a name that is this connection's own. Where nodes name one another by address, the answers that come
back this way name such ports, made for this client as they are needed.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from random import Random

from chaos.effects.links import FREE, HARNESS, LinkRule, Reach, Ruling, on_requests, ruling
from chaos.effects.requests import Standing
from chaos.frames import Frames, Framing, Readdresses
from chaos.machines.conversation import Conversation
from chaos.machines.dials import Address, Opener
from chaos.machines.endpoints import BACKLOG, Endpoints
from chaos.shell.connections import CONNECTED
from chaos.shell.launch import HOST

#: Sent to who has dialled with ``"probe": true`` when a rule holds the dial or its answer back, or breaks it.
CUT = b"-"
MAX_PREAMBLE_BYTES = 4096
#: Who has not said by then whom it wants is dropped.
PREAMBLE_S = 10.0
#: A pipe holds so much before its source has to wait, besides the buffers of the system's own sockets.
MAX_HELD_BYTES = 4 * 1024 * 1024
#: What may wait for the sink's socket before the source has to wait.
MAX_WRITING_BYTES = 256 * 1024


class _Dial:
    """The chunk that asks for the connection."""


class _End:
    """The last chunk of a pipe: its source is gone."""


_DIAL, _END = _Dial(), _End()
_Chunk = bytes | _Dial | _End


class Proxy:
    """All links. ``addresses``: where each node listens; a node that is not in it refuses. ``on_hello`` gets first
    lines that are no dial, with the transport they came by. ``token``: the secret that nodes want to see. ``opener``:
    by what nodes are reached that can't be dialled from here."""

    def __init__(
        self,
        seed: int,
        on_hello: Callable[[Mapping[str, object], asyncio.Transport], None],
        token: str = "",
        opener: Opener | None = None,
    ) -> None:
        self._token = token
        self._opener = opener
        self.addresses: dict[str, tuple[str, int]] = {}
        #: By node that is a program: the address of each of its ports, the main one first.
        self.programs: dict[str, Mapping[str, tuple[str, int]]] = {}
        #: For clients that know nothing of us: each of their connections with a node of ours gets a name of its own.
        self.endpoints = Endpoints(lambda route: _Side(self, route), self._main_port)
        #: The reader of what clients ask; None where there is none. ``ruled``: there will be rules on requests.
        self.framing: Framing | None = None
        self.ruled = False
        self.on_hello = on_hello
        self.rng = Random(f"{seed}/links")
        self.relays: dict[Relay, None] = {}
        self._rules: dict[str, LinkRule] = {}
        self.hits: dict[str, int] = {}
        #: By rule: the ends of the links on which it has hit something.
        self.ends: dict[str, set[str]] = {}
        self._server: asyncio.Server | None = None
        self._strangers = 0

    async def listen(self) -> int:
        """Begin to accept dials; return the port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Side(self).impatient(), HOST, 0, backlog=BACKLOG)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def address_of(self, node: str, port: str) -> tuple[str, int] | None:
        """Return where a node listens, by the name of the port if it is a program ("": its main one); None: nowhere."""
        if node not in self.programs:
            return self.addresses.get(node)
        ports = self.programs[node]
        return ports.get(port) if port else next(iter(ports.values()), None)

    def read_requests(self, framing: Framing, *, ruled: bool) -> None:
        """Read what clients ask from now on; raises at once what every connection would."""
        framing.open("")
        self.framing, self.ruled = framing, ruled

    def preamble(self, source: str, target: str) -> bytes:
        """Return the first line for the node."""
        return preamble(source, target, self._token)

    def stranger(self, client: str, node: str) -> bytes:
        """Return the first line for the node, of one more connection that comes by an endpoint."""
        self._strangers += 1
        return preamble(f"{client}/{self._strangers}", node, self._token)

    def close(self) -> None:
        self.endpoints.close()
        if self._server is not None:
            self._server.close()
        for relay in list(self.relays):
            relay.abort()

    async def dial(self, address: Address, side: asyncio.Protocol) -> None:
        """Connect this side with a node's address. Raises ``OSError``."""
        loop = asyncio.get_running_loop()
        if self._opener is None:
            await loop.create_connection(lambda: side, *address)
        else:
            await loop.create_connection(lambda: side, sock=await self._opener(address))

    def set_rule(self, rule_id: str, rule: LinkRule) -> None:
        self._rules[rule_id] = rule
        self.hits.setdefault(rule_id, 0)
        self._apply_rules()

    def clear_rule(self, rule_id: str) -> None:
        self.hits.pop(rule_id, None)
        self.ends.pop(rule_id, None)
        if self._rules.pop(rule_id, None) is not None:
            self._apply_rules()

    def ruling(self, source: str, target: str) -> Ruling:
        """Return what the rules do to this direction now."""
        return ruling(self._rules, source, target)

    def standing(self, source: str, target: str) -> Standing:
        """Return what the rules do to what ``source`` asks ``target`` now."""
        return on_requests(self._rules, source, target)

    def frames(self, source: str, target: str, port: str, *, by_endpoint: bool) -> Frames | None:
        """Return the reader of this connection, if it is a client's of which something must be read; None where there
        is none."""
        ruled = self.ruled and source != HARNESS
        if self.framing is None or not (ruled or by_endpoint) or source in self.addresses or source in self.programs:
            return None
        frames = self.framing.open(port or self._main_port(target))
        return frames if ruled or isinstance(frames, Readdresses) else None

    def _main_port(self, node: str) -> str:
        return next(iter(self.programs.get(node, ())), "")

    def hit(self, rule_id: str, ends: tuple[str, str]) -> None:
        if rule_id in self.hits:
            self.hits[rule_id] += 1
            self.ends.setdefault(rule_id, set()).update(ends)

    def _apply_rules(self) -> None:
        for relay in list(self.relays):
            for pipe in relay.pipes:
                pipe.rule_changed()
            if relay.conversation is not None:
                relay.conversation.rules_changed()


class _Side(asyncio.Protocol):
    """One end of a relay: a connection with who dialled, or with the target."""

    def __init__(self, proxy: Proxy, route: tuple[str, str, str] | None = None) -> None:
        self._proxy = proxy
        self._route = route
        self._preamble = bytearray()
        self.transport: asyncio.Transport | None = None
        self.out: Pipe | None = None  # what it says
        self.relay: Relay | None = None
        self.full = False
        self.gone = False
        self.known = False  # it has said who it is, and needs no relay
        self._silenced = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=MAX_WRITING_BYTES)
        if self._route is not None:
            source, target, port = self._route
            Relay(self._proxy, source, target, self, has_preamble=False, port=port)

    def impatient(self) -> _Side:
        """Drop this side unless it says soon whom it wants; return it."""
        asyncio.get_running_loop().call_later(PREAMBLE_S, self._late)
        return self

    def _late(self) -> None:
        if self.out is None and not self.known:
            self.abort()

    def data_received(self, data: bytes) -> None:
        if self.relay is not None:
            self.relay.said(self, data)
            return
        self._preamble += data
        line, found, rest = bytes(self._preamble).partition(b"\n")
        if len(line) > MAX_PREAMBLE_BYTES or self.known:
            self.abort()
        elif found:
            self._preamble.clear()
            self._begin(line, rest)

    def _begin(self, line: bytes, rest: bytes) -> None:
        assert self.transport is not None
        try:
            hello = json.loads(line)
            if not isinstance(hello, dict):
                raise TypeError("no JSON object")
            if "from" not in hello:
                self.known = True
                self._proxy.on_hello(hello, self.transport)
                return
            source, target, probe = str(hello["from"]), str(hello["to"]), bool(hello.get("probe"))
            port = str(hello.get("port", ""))
        except (ValueError, TypeError, KeyError, RecursionError, OSError):
            self.abort()
            return
        Relay(self._proxy, source, target, self, has_preamble=True, probe=probe, port=port)
        if rest and self.relay is not None:
            self.relay.said(self, rest)

    def connection_lost(self, error: Exception | None) -> None:
        if self.relay is not None:
            self.relay.lost(self)

    def pause_writing(self) -> None:
        self.full = True
        self._other_may_go_on()

    def resume_writing(self) -> None:
        self.full = False
        self._other_may_go_on()

    def _other_may_go_on(self) -> None:
        if self.relay is not None:
            for pipe in self.relay.pipes:
                pipe.throttle()

    def silence(self, silenced: bool) -> None:
        """Read no more from this connection, or go on: back-pressure, as TCP has it."""
        if silenced != self._silenced and self.transport is not None and not self.transport.is_closing():
            self._silenced = silenced
            if silenced:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def abort(self) -> None:
        """Break the connection; what either side has not read yet is lost."""
        if self.transport is not None:
            raw = self.transport.get_extra_info("socket")
            if raw is not None and raw.fileno() >= 0:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()


class Relay:
    """One connection from ``source`` to ``target``: two sides, two pipes. ``has_preamble``: who dials has sent a first
    line, and waits for the byte that says that the target has accepted."""

    def __init__(
        self,
        proxy: Proxy,
        source: str,
        target: str,
        dialler: _Side,
        *,
        has_preamble: bool,
        probe: bool = False,
        port: str = "",
    ) -> None:
        self._proxy = proxy
        self._source, self._target = source, target
        self._has_preamble = has_preamble
        self._probe = probe
        self._port = port
        self._dialler = dialler
        self._acceptor = _Side(proxy)
        self._dialling: asyncio.Task[None] | None = None
        self.over = False
        self.forward = Pipe(proxy, self, source, target, dialler, self._acceptor)
        self.back = Pipe(proxy, self, target, source, self._acceptor, dialler)
        self.pipes = (self.forward, self.back)
        frames = None if probe else proxy.frames(source, target, port, by_endpoint=not has_preamble)
        reached = None if has_preamble else partial(proxy.endpoints.reached, source)
        read = _Read(proxy, self, (source, target))
        self.conversation = None if frames is None else Conversation(frames, read, reached)
        for side, out in ((dialler, self.forward), (self._acceptor, self.back)):
            side.relay, side.out = self, out
        proxy.relays[self] = None
        self.forward.put(_DIAL)

    def dial(self) -> None:
        """Connect with the target: the dial has reached its machine."""
        address = self._proxy.address_of(self._target, self._port)
        if address is None:
            self.back.put(_END)
        else:
            self.forward.waiting = True
            self._dialling = asyncio.get_running_loop().create_task(self._connect(address))

    async def _connect(self, address: tuple[str, int]) -> None:
        try:
            await self._proxy.dial(address, self._acceptor)
        except OSError:
            self.back.put(_END)
            return
        if self.over:
            self._acceptor.abort()
            return
        assert self._acceptor.transport is not None
        foreign = self._target in self._proxy.programs
        if self._has_preamble:
            if not self._probe and not foreign:
                self._acceptor.transport.write(self._proxy.preamble(self._source, self._target))
            self.back.put(CONNECTED)
        elif not foreign:
            self._acceptor.transport.write(self._proxy.stranger(self._source, self._target))
        self.forward.waiting = False
        self.forward.pump()

    def said(self, side: _Side, data: bytes) -> None:
        """Pass on what a side has said, as far as rules on requests let it."""
        if self.conversation is None:
            (self.forward if side is self._dialler else self.back).put(data)
        elif side is self._dialler:
            self.conversation.ask(data)
        else:
            self.conversation.answer(data)

    def lost(self, side: _Side) -> None:
        """Pass on that a side's connection has ended: the other side hears of it when the link lets it."""
        if self.over or side.out is None:
            return
        side.gone = True
        other = self.back if side is self._dialler else self.forward
        other.drop()
        far = self._far(side)
        if far.transport is None or far.gone:
            self.abort()
        elif self.conversation is not None and side is self._acceptor:
            self.conversation.end()
        else:
            if self.conversation is not None:
                self.conversation.ask(b"", ended=True)
            side.out.put(_END)

    def stopped(self) -> bool:
        """Answer a probe whose connection a rule keeps from coming about; return whether this is one."""
        if self._probe and self._dialler.transport is not None:
            self._finish()
            self._dialler.transport.write(CUT)
            self._dialler.transport.close()
            self._acceptor.abort()
        return self._probe

    def ended(self, pipe: Pipe) -> None:
        """Close the sink of a pipe through which the end has come, after what is still to be written."""
        if pipe.sink.transport is not None:
            pipe.sink.transport.close()
        self._finish()

    def abort(self) -> None:
        self._finish()
        for side in (self._dialler, self._acceptor):
            side.abort()

    def _far(self, side: _Side) -> _Side:
        return self._acceptor if side is self._dialler else self._dialler

    def _finish(self) -> None:
        self.over = True
        self._proxy.relays.pop(self, None)
        if self.conversation is not None:
            self.conversation.close()
        for pipe in self.pipes:
            pipe.drop()


class _Read:
    """Implements :class:`chaos.machines.conversation.Ends` for a relay."""

    def __init__(self, proxy: Proxy, relay: Relay, ends: tuple[str, str]) -> None:
        self._proxy = proxy
        self._relay = relay
        self._names = ends
        self.rng = proxy.rng

    @property
    def standing(self) -> Standing:
        return self._proxy.standing(*self._names)

    def hit(self, rule_id: str) -> None:
        self._proxy.hit(rule_id, self._names)

    def to_node(self, data: bytes) -> None:
        self._relay.forward.put(data)

    def to_client(self, data: bytes) -> None:
        self._relay.back.put(data)

    def node_has_ended(self) -> None:
        self._relay.back.put(_END)

    def abort(self) -> None:
        self._relay.abort()


class Pipe:
    """One direction of a relay. ``waiting``: the target has not accepted yet. ``_chunks`` are in order, each with the
    time at which it has come through all that makes it late, and the time at which it may go on."""

    def __init__(self, proxy: Proxy, relay: Relay, source: str, target: str, origin: _Side, sink: _Side) -> None:
        self._proxy = proxy
        self._relay = relay
        self._names = source, target
        self._origin = origin
        self.sink = sink
        self._ruling = proxy.ruling(source, target)
        self._chunks: deque[tuple[float, float, _Chunk]] = deque()
        self._held_bytes = 0
        self._last_due_s = self._free_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._dropped = False
        self.waiting = False

    def put(self, chunk: _Chunk) -> None:
        """Take a chunk from the origin, and do with it what the rules say."""
        if self._dropped:
            return
        if self._ruling is FREE and not self._chunks and not self.waiting:
            self._deliver(chunk)
            return
        rng, hit = self._proxy.rng, self._hit
        arrives_s = asyncio.get_running_loop().time() + self._ruling.late_ns(rng, hit) / 1e9
        if chunk is _END:
            self._ruling.ends(hit)
        elif self._ruling.breaks(rng, hit):
            if not self._relay.stopped():
                self._relay.abort()
            return
        self._ruling.held(hit)
        if self._ruling.cut and self._relay.stopped():
            return
        if isinstance(chunk, bytes):
            for _ in range(self._ruling.flips(rng, hit)):
                chunk = flipped(chunk, rng)
            self._held_bytes += len(chunk)
        self._chunks.append((arrives_s, self._due_s(arrives_s, chunk), chunk))
        if len(self._chunks) == 1:
            self.pump()
        self.throttle()

    def _hit(self, rule_id: str) -> None:
        self._proxy.hit(rule_id, self._names)

    def _due_s(self, arrives_s: float, chunk: _Chunk) -> float:
        """Return when the next chunk may go on, by the loop's clock, if it comes to the end of the link at this
        time."""
        due_s = arrives_s
        if chunk is _END:
            due_s += self._ruling.end_delay_ns / 1e9
        elif self._ruling.bytes_per_s:
            size = len(chunk) if isinstance(chunk, bytes) else 0
            due_s = self._free_s = max(arrives_s, self._free_s) + size / self._ruling.bytes_per_s
        self._last_due_s = max(due_s, self._last_due_s)
        return self._last_due_s

    def pump(self) -> None:
        """Let go what is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        while self._chunks and not self.waiting and not self._ruling.cut:
            _, due_s, chunk = self._chunks[0]
            if due_s > loop.time():
                self._timer = loop.call_at(due_s, self.pump)
                break
            self._chunks.popleft()
            if isinstance(chunk, bytes):
                self._held_bytes -= len(chunk)
            self._deliver(chunk)
        self.throttle()

    def _deliver(self, chunk: _Chunk) -> None:
        if isinstance(chunk, bytes):
            if self.sink.transport is not None:
                self.sink.transport.write(chunk)
        elif isinstance(chunk, _Dial):
            self._relay.dial()
        else:
            self._relay.ended(self)

    def rule_changed(self) -> None:
        before, self._ruling = self._ruling, self._proxy.ruling(*self._names)
        if (before.bytes_per_s, before.end_delay_ns) != (self._ruling.bytes_per_s, self._ruling.end_delay_ns):
            self._free_s, self._last_due_s = asyncio.get_running_loop().time(), 0.0
            self._chunks = deque((came_s, self._due_s(came_s, chunk), chunk) for came_s, _, chunk in self._chunks)
        self.pump()

    def throttle(self) -> None:
        self._origin.silence(not self._dropped and (self._held_bytes > MAX_HELD_BYTES or self.sink.full))

    def drop(self) -> None:
        """Lose all that is under way and all that may come: nobody is there to read it."""
        self._dropped = True
        self._chunks.clear()
        self._held_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
        self.throttle()


def flipped(chunk: bytes, rng: Random) -> bytes:
    """Return the same bytes, but for one bit."""
    bit = rng.randrange(8 * len(chunk))
    changed = bytearray(chunk)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def preamble(source: str, target: str, token: str = "", **more: object) -> bytes:
    """Return the first line of a connection."""
    secret = {"token": token} if token else {}
    return json.dumps({"from": source, "to": target, **secret, **more}).encode() + b"\n"


async def try_link(proxy_port: int, source: str, target: str, within_s: float, port: str = "") -> Reach:
    """Ask the proxy that listens there for a connection, as if we were ``source``, with that port of a program: what
    became of it in time."""
    try:
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_connection(HOST, proxy_port)
            try:
                writer.write(preamble(source, target, probe=True, port=port))
                return {CONNECTED: Reach.WORKS, CUT: Reach.CUT}.get(await reader.read(1), Reach.FAILS)
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return Reach.FAILS
