"""All that a node of the system under test sees of the world: messages, timers, a disk, two clocks and a trace.

Node code is a synchronous step function. A shell (the simulator, or the TCP shell of ``python -m reference``) calls
one of the methods of :class:`Node`; all that the node wants to happen goes through the :class:`Env` it is given. So the
same class runs in virtual time and as an operating-system process, and a crash can never run half of a ``finally``.

This module imports the standard library, and :mod:`chaos.program` that does the same: reference code, shells and
drivers all build on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from chaos.events import Event
from chaos.program import Program

RESPONSE = 1
ONEWAY = 2

NO_FIELDS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One RocketMQ ``RemotingCommand``; the codec that turns it into a frame sits in the shells.

    ``flags``: bit 0 response, bit 1 one-way. ``opaque`` pairs a response with its request on one connection.
    ``fields`` are the ``extFields``: names and values are strings. Never change a message after it was sent: the
    simulator hands the same object to the receiver.
    """

    code: int
    flags: int = 0
    opaque: int = 0
    fields: Mapping[str, str] = field(default_factory=lambda: NO_FIELDS)
    body: bytes = b""
    remark: str = ""

    @property
    def is_response(self) -> bool:
        return bool(self.flags & RESPONSE)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flags & ONEWAY)

    def numbered(self, opaque: int, flags: int = 0) -> Message:
        """Return the same message under this number, with these flags besides."""
        return Message(
            code=self.code,
            flags=self.flags | flags,
            opaque=opaque,
            fields=self.fields,
            body=self.body,
            remark=self.remark,
        )

    def reply(
        self, code: int = 0, fields: Mapping[str, str] = NO_FIELDS, body: bytes = b"", remark: str = ""
    ) -> Message:
        """Answer this request: same ``opaque``, response bit set."""
        return Message(code=code, flags=RESPONSE, opaque=self.opaque, fields=fields, body=body, remark=remark)


#: RocketMQ's codes for a request that failed, that its sender may not make, and that can't be understood.
SYSTEM_ERROR, NO_PERMISSION, INVALID_PARAMETER = 1, 16, 29


class Malformed(ValueError):
    """A message that its receiver can't understand: fields are missing, of the wrong type, or out of all bounds.

    :meth:`Node.message` raises it before the step has had any effect. Then a request is answered with ``code`` and the
    text, and the connection over which anything else came is dropped; the node lives on. Every other exception is an
    error of the node's own and ends its life, and so does this one after the step has sent or traced something.
    """

    def __init__(self, text: str, code: int = INVALID_PARAMETER) -> None:
        super().__init__(text)
        self.code = code


class DiskFull(OSError):
    """The disk has no room for a write; nothing of that write happened."""


class Disk(Protocol):
    """A private directory whose changes are durable only after :meth:`sync` has ended.

    Paths are relative, with ``/`` between folders; folders need not be made. Reads see the node's own latest writes.
    After a crash each unsynced change (sector of 512 bytes, file size, truncation, creation, removal, rename) may
    or may not be there, whatever happened to the others.
    """

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """Read up to ``length`` bytes (all that follow by default). Raises ``FileNotFoundError``."""

    def size(self, path: str) -> int:
        """Size in bytes, or -1 when there is no such file."""

    def list(self, prefix: str = "") -> list[str]:
        """Paths of all files that begin with ``prefix``, sorted."""

    def write(self, path: str, offset: int, data: bytes) -> None:
        """Write at ``offset``; makes the file and zero-fills a gap. Raises :class:`DiskFull`."""

    def truncate(self, path: str, size: int) -> None:
        """Cut the file to ``size`` bytes. Raises ``FileNotFoundError``."""

    def rename(self, old: str, new: str) -> None:
        """Replace ``new`` by ``old`` in one step. Durable (both names) once ``new`` has been synced after it."""

    def remove(self, path: str) -> None:
        """Remove the file; durable once the path has been synced. No error when it is absent."""

    def sync(self, paths: Iterable[str]) -> int:
        """Start to make all changes so far to these paths (bytes, sizes, directory entries) durable.

        Returns a token at once; ``Node.done(env, token)`` follows. Syncs end in the order in which they were started.
        A sync that fails discards its bytes and stops the node, so ``done`` needs no outcome.
        """


#: An address of TCP over IPv4: the host in decimals and dots, and the port.
Address = tuple[str, int]
#: Where a connection ends whose addresses are unknown, as in the simulator.
NOWHERE: Address = ("127.0.0.1", 0)


class Env(Protocol):
    """All that a node may do. Valid only during the call that it was handed to, and only for the node's own life."""

    @property
    def name(self) -> str:
        """The node's name, which is also its address: ``broker-0``."""

    @property
    def incarnation(self) -> int:
        """How often the harness has started this node, from 1. Orders traces; says nothing about the disk."""

    @property
    def rng(self) -> Random:
        """The only source of randomness."""

    @property
    def disk(self) -> Disk: ...

    def send(self, to: str, message: Message, *, after: int | None = None) -> None:
        """Send to a node, or to a client that has a connection to this node.

        Connections are opened on demand, ordered, and lose what is under way when they break: then ``Node.closed``
        is called. ``after`` holds the message back until that sync token is done; messages to one peer never
        overtake each other, held ones included.
        """

    def close(self, peer: str) -> None:
        """Drop the connection with ``peer``; what is still buffered in either direction is lost. The peer's
        ``closed`` is called, ours is not."""

    def endpoints(self, peer: str) -> tuple[Address, Address]:
        """Both ends of the connection that ``peer`` has opened to this node: the peer's, then our own;
        :data:`NOWHERE` for both where there is none."""

    def set_timer(self, name: str, delay_ns: int) -> None:
        """Call ``Node.timer(env, name)`` once after ``delay_ns`` of this node's monotonic clock; a timer that is set is
        set again."""

    def cancel_timer(self, name: str) -> None: ...

    def mono_ns(self) -> int:
        """Monotonic clock in ns; may drift. For timeouts."""

    def wall_ns(self) -> int:
        """Wall clock in ns since 1970; may jump. For time stamps and retention, never for an order."""

    def trace(self, event: Event) -> None:
        """Record what the node just did or learned (:mod:`chaos.events`). Durable, as a plain write, before any message
        of this step leaves."""


class Node(Protocol):
    """A server of the system under test. Each call is one step: bounded in bytes and records, and never blocking."""

    def start(self, env: Env) -> None:
        """Begin a life on whatever the disk holds. Long recovery goes on in timers of delay 0."""

    def message(self, env: Env, source: str, message: Message) -> None:
        """Take one message from a node or a client; answer with ``env.send(source, …)``, now or later. Raises
        :class:`Malformed`, before anything else happens, for one that can't be understood."""

    def timer(self, env: Env, name: str) -> None: ...

    def done(self, env: Env, token: int) -> None:
        """Learn that the sync with this token is durable."""

    def closed(self, env: Env, peer: str) -> None:
        """Learn that the connection with ``peer`` broke or could not be opened; what was under way may or may not have
        arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One server of a cluster, in a form that travels as JSON to a process or a host.

    ``package`` is a Python package with ``build(spec: NodeSpec) -> Node`` for shells in this process, and which runs
    as ``python -m package`` where nodes are processes. ``role`` is its kind in the system's own words. ``program``: the
    node is this program of somebody else's, and there is no package.
    """

    name: str
    role: str
    package: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    mutant: str = ""
    program: Program | None = None

    def __post_init__(self) -> None:
        if bool(self.package) == (self.program is not None):
            raise ValueError(f"node {self.name}: give it either a package or a program")
