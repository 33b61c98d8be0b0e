"""All that a node of the system under test sees of the world: messages, timers, a disk, two clocks and a trace.

Node code is a synchronous step function. A shell (the simulator, or the TCP shell of ``python -m reference``) calls
one of the methods of :class:`Node`; all that the node wants to happen goes through the :class:`Env` it is given. So the
same class runs in virtual time and as an operating-system process, and a crash can never run half of a ``finally``.

This module imports the standard library, and :mod:`chaos.program` that does the same: reference code, shells and
drivers all build on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol, Self, TypeVar

from chaos.events import Event
from chaos.program import Program

#: A message of the system's own class.
M = TypeVar("M", bound="Message")


class Message(Protocol):
    """What shells, links and connections ask of a message of whatever class a system has; all else stands between its
    nodes, its driver and its :class:`Codec`. :mod:`chaos.plain` has one for systems without a protocol of their own.

    Never change a message after it was sent: the simulator hands the same object to the receiver.
    """

    @property
    def kind(self) -> int:
        """Return what a request asks, as the system numbers it; it is recorded where a message is refused."""

    @property
    def number(self) -> int:
        """Return what pairs an answer with its request on one connection."""

    @property
    def size(self) -> int:
        """Return the bytes of its content; simulated links take longer for more."""

    @property
    def is_response(self) -> bool: ...

    @property
    def is_oneway(self) -> bool:
        """Return whether it is a request that wants no answer."""

    def numbered(self, number: int, *, oneway: bool = False) -> Self:
        """Return the same request under this number; ``oneway``: as one that wants no answer."""

    def refused(self, error: Exception) -> Message:
        """Return the answer that this request failed: :class:`Malformed`, :class:`Forbidden`, or anything else that
        the answer names. Called of an answer that makes no frame, return what is answered instead."""


class Codec(Protocol):
    """Turns messages into frames of the system's wire protocol and back. No frame begins with ``{``."""

    def encode(self, message: Any) -> bytes:
        """Make the frame of a message of the system's class. Raises ``ValueError`` where it would be too large."""

    def decode(self, buffer: bytearray) -> Sequence[Message]:
        """Take all complete frames off the front of ``buffer``. Raises ``ValueError`` on bytes that are no frame."""


#: So much is said of what is wrong with a message.
REFUSAL_CHARACTERS = 300


class Malformed(ValueError):
    """A message that its receiver can't understand: fields are missing, of the wrong type, or out of all bounds.

    :meth:`Node.message` raises it before the step has had any effect. Then a request is answered with the text and
    ``code``, one of the system's own or 0 for its usual one, and the connection over which anything else came is
    dropped; the node lives on. Every other exception is an error of the node's own and ends its life, and so does this
    one after the step has sent or traced something.
    """

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text[:REFUSAL_CHARACTERS])
        self.code = code


class Forbidden(ValueError):
    """A request that only nodes of the cluster and the harness may send, from somebody else."""


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


class NoDisk:
    """The disk of a node that has none: it raises whatever it is asked for, so that the node's life ends by it."""

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        raise self._error(path)

    def size(self, path: str) -> int:
        raise self._error(path)

    def list(self, prefix: str = "") -> list[str]:
        raise self._error(prefix)

    def write(self, path: str, offset: int, data: bytes) -> None:
        raise self._error(path)

    def truncate(self, path: str, size: int) -> None:
        raise self._error(path)

    def rename(self, old: str, new: str) -> None:
        raise self._error(old)

    def remove(self, path: str) -> None:
        raise self._error(path)

    def sync(self, paths: Iterable[str]) -> int:
        raise self._error(", ".join(paths))

    def _error(self, path: str) -> OSError:
        return OSError(f"this node has no disk, and asks for {path!r}")


#: Whom a node asks for what is outside of its cluster: :class:`chaos.shell.outside.Outside`, in its own process. No
#: node and no client can have this name.
OUTSIDE = ""

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

    def message(self, env: Env, source: str, message: Any) -> None:
        """Take one :class:`Message`, of the system's own class, from a node or a client; answer with
        ``env.send(source, …)``, now or later. Raises :class:`Malformed`, before anything else happens, for one that
        can't be understood."""

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
    node is this program of somebody else's, and there is no package. ``disk``: False for a node that keeps nothing on
    one, whose :attr:`Env.disk` is :class:`NoDisk`. ``outside``: the package of others by which it reaches what is
    outside of its cluster (:data:`OUTSIDE`), to be installed where it runs; the simulator has no outside.
    """

    name: str
    role: str
    package: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    mutant: str = ""
    program: Program | None = None
    disk: bool = True
    outside: str = ""

    def __post_init__(self) -> None:
        if bool(self.package) == (self.program is not None):
            raise ValueError(f"node {self.name}: give it either a package or a program")
