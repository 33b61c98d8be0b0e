"""What a machine is: it starts a node's program, signals its whole group, and does to it what faults need.

Processes on this machine, containers and hosts behind SSH differ in this alone; how a cluster lives on machines stands
once, in :mod:`chaos.machines.lifecycle.deployment`. The machines of one run come from a :class:`Fleet`; where a node
stands on one of them, and how it is reached there, is its :class:`Seat`.
"""

from __future__ import annotations

from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from chaos.driver import ClusterSpec, Connection
from chaos.effects.corruption import AtDisk
from chaos.effects.links import LinkRule, Reach
from chaos.frames import Framing
from chaos.machines.dials import Address, Opener
from chaos.machines.iptables import Endpoint
from chaos.machines.local_resources import Kind
from chaos.node import Codec, NodeSpec
from chaos.program import Installation
from chaos.shell.launch import Launch
from chaos.shell.node_files import NodeFile

T = TypeVar("T")

Streams = tuple[StreamReader, StreamWriter]


class Signal(StrEnum):
    """What all processes of a node's program are sent."""

    KILL = "kill"
    TERMINATE = "terminate"
    STOP = "stop"
    CONTINUE = "continue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """The present or the last life of a node, as its machine reports it.

    ``state``: the machine's own word for how it runs, "" when no process of it lives; ``paused``: all of its processes
    are stopped. ``started``: when its first process began, in the machine's own words, so that two lives differ.
    ``exit_code``: None while it lives, or when nobody saw it end; a negative one is a signal. ``of_a_fault``: it may
    have ended, in this life, of what was done to its memory or its descriptors. ``oom_killed``: it ended while the
    kernel is seen to have killed a process for want of memory. ``starved``: it was seen that its
    descriptors are limited and that it has none left now, so that it can take no connection."""

    incarnation: int
    pid: int
    started: int | str
    state: str
    paused: bool
    exit_code: int | None
    of_a_fault: bool
    starved: bool = False
    oom_killed: bool = False

    @property
    def alive(self) -> bool:
        return bool(self.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dial:
    """A fresh connection from where the node ``source`` stands to an address."""

    source: str
    target: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the program of a node finds its disk, and the folder in which it is started."""

    disk: str
    home: str


class Machine(Protocol):
    """One machine, with the nodes that have a seat on it.

    All calls block: they belong on a thread, and threads may share a machine. Each raises
    :class:`chaos.errors.HostLost` while the machine can't be reached, :class:`chaos.errors.DeploymentError` when it
    fails, and :class:`chaos.fault.NotNow` where that is said.
    """

    @property
    def name(self) -> str:
        """What it is called among the machines of the run, and by the rules on links."""

    @property
    def proof(self) -> Mapping[str, object]:
        """What the proof of each fault on this machine says besides, such as its host."""

    @property
    def losses(self) -> Sequence[str]:
        """In sentences: when it could not be reached. Nodes that have ended on such a machine have not crashed."""

    def lives(self, nodes: Sequence[str]) -> Mapping[str, Life]:
        """Return the life of each of these nodes; incarnation 0 for one that never lived."""

    def start(self, launch: Launch) -> None:
        """Start the program of a node, unless it lives. The machine itself knows where the node's disk, its trace and
        its files are: it fills in those fields, ``clock`` if there is anything in it."""

    def signal(self, node: str, number: Signal) -> None:
        """Send a signal to every process of the node; ``lives`` shows whether it has had its effect. Raises NotNow
        when the node does not run; ``CONTINUE`` then does nothing."""

    def log(self, node: str) -> str:
        """Return the end of what a node wrote, over all its lives."""

    def places(self, node: str) -> Places:
        """Return where a node that is a program of others is at home."""

    def install(self, recipe: Installation) -> str:
        """Return the folder in which nodes here find what this recipe has made; brought there if it lacks."""

    def runs_program(self, node: str) -> bool:
        """Return whether a node's own command runs by now, and not only what starts it."""

    def says(self, node: str, pattern: str) -> bool:
        """Return whether a line that the node has written in its present life holds a match of this regular
        expression."""

    def listening(self, node: str) -> Sequence[str]:
        """Return where the processes of a node listen now, as ``HOST:PORT``."""

    def files(self, node: str, globs: Sequence[str]) -> Mapping[str, int]:
        """Return the size of each regular file on a node's disk or in its home whose path there one of these
        matches."""

    def read(self, node: str, path: str, begin: int, length: int) -> bytes:
        """Return up to so many bytes of such a file from this one on; nothing where there is none."""

    def put(self, node: str, file: NodeFile, content: bytes) -> None:
        """Replace one of the files of a node in one step; without content it is removed. The node need not live."""

    def get(self, node: str, file: NodeFile, begin: int) -> bytes:
        """Return what is in one of the files of a node from this byte on; nothing when there is no such file."""

    def wipe(self, node: str) -> int:
        """Empty the disk of a node that is down; how many files that were."""

    def at_disk(self, node: str, do: AtDisk, arguments: Mapping[str, Any]) -> Any:
        """Call :func:`chaos.effects.corruption.at_disk` where the disk of this node is."""

    def press(self, node: str, kind: Kind, amount: int) -> Mapping[str, object]:
        """Begin pressure of this kind; what shows it. It lasts over the node's lives. Raises NotNow."""

    def release(self, node: str, kind: Kind) -> None:
        """End pressure of this kind; nothing happens when there is none."""

    def born(self, node: str) -> None:
        """Have the life that the node has begun feel the pressure that the one before felt."""

    def run_as_root(self, command: Sequence[str], given: str) -> tuple[int, str]:
        """Run a command where the links of the nodes here are filtered, with this on its standard input; its exit code
        and its output."""

    def reach(self, dials: Sequence[Dial], within_s: float) -> list[bool]:
        """Return which of these fresh connections come about in time, all begun at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Where a node stands.

    On a network: ``address`` is where the harness reaches it, ``peer`` the ``HOST:PORT`` at which other nodes do,
    ``exposed`` the one at which clients outside of the network do if that is another, ``endpoint`` how the packet
    filter knows it, and ``dial_ports`` as in :class:`Launch`. Without: all links lead through the proxy at
    ``proxy_port``, and nothing else is set. ``hint``: what to look at when a node there runs and can't be reached.

    Of a node that is a program of others: other nodes get its ``ip`` and ``ports``, the numbers of its ports by name,
    and ``reached`` is where the harness finds each; ``names`` are host names that it has besides."""

    machine: Machine
    address: Address | None = None
    peer: str = ""
    endpoint: Endpoint | None = None
    exposed: str = ""
    dial_ports: tuple[int, ...] = ()
    proxy_port: int = 0
    hint: str = ""
    ip: str = ""
    ports: Mapping[str, int] = field(default_factory=dict)
    reached: Mapping[str, Address] = field(default_factory=dict)
    names: Sequence[str] = ()

    def known_as(self, node: str) -> Mapping[str, str]:
        """Return the addresses by which nodes may name this one, each with the name of its port. Nodes of packages know
        each other by their names alone."""
        hosts = [host for host in (node, self.ip, *self.names) if host]
        ports = {f"{host}:{number}": port for host in hosts for port, number in self.ports.items()}
        reached = {f"{host}:{number}": port for port, (host, number) in self.reached.items()}
        return {node: "", **reached, **ports}


class Off(Protocol):
    """Makes a call that blocks, on a thread."""

    async def __call__(self, call: Callable[..., T], *arguments: Any) -> T: ...


class Fleet(Protocol):
    """The machines of one run: found or made, given more nodes, taken down."""

    @property
    def off(self) -> Off: ...

    @property
    def losses(self) -> Sequence[str]:
        """In sentences: when which machine could not be reached."""

    async def begin(self, cluster: ClusterSpec, *, clocks: bool) -> Mapping[str, Seat]:
        """Have a seat ready for each node; ``clocks``: theirs will be set. Raises
        :class:`chaos.errors.MachineError` when the machines can't serve."""

    async def watch(self, on_return: Callable[[], Awaitable[None]]) -> None:
        """Watch the machines: all seats and links are ready, and the first lives begin. ``on_return`` is awaited
        whenever a machine that was lost can be reached again."""

    async def add(self, spec: NodeSpec) -> Seat:
        """Have a seat ready for one node more. Raises NotNow when there is no place for it."""

    async def end(self) -> None:
        """End all that runs on the machines and leave nothing there; idempotent."""


class Links(Protocol):
    """The links of one run, whatever carries out their rules."""

    @property
    def token(self) -> str:
        """The secret that nodes show one another, and clients nodes; "" where only this machine reaches them."""

    @property
    def opener(self) -> Opener | None:
        """By what the harness reaches the nodes' addresses; None: it can dial them itself."""

    async def begin(
        self, codec: Codec | None, addresses: Mapping[str, Address], endpoints: Mapping[str, Endpoint]
    ) -> None:
        """Begin. ``addresses`` and ``endpoints`` as in :class:`Seat`; nothing where there is no network."""

    async def admit(self, node: str, address: Address | None, endpoint: Endpoint | None) -> None:
        """Take in one node more; the rules that stand hold for it from now on."""

    async def read_requests(self, framing: Framing, *, ruled: bool) -> None:
        """See :meth:`chaos.deployment.CanRuleRequests.read_requests`; it holds for connections that begin from now
        on."""

    async def know(self, node: str, addresses: Mapping[str, str]) -> None:
        """Learn all addresses of a node, each with the name of its port, as :mod:`chaos.addresses` has it."""

    async def unknown(self) -> Sequence[str]:
        """Return addresses that nodes have named to clients with endpoints, and that are no node's."""

    async def put_up(self, rule_id: str, rule: LinkRule) -> None: ...

    async def clear(self, rule_id: str) -> None: ...

    async def hits(self, rule_id: str) -> int: ...

    async def ends(self, rule_id: str) -> frozenset[str]:
        """Return the ends, nodes and clients, of the links of clients on which a rule has hit something so far."""

    async def address(self, node: str) -> Address | None:
        """Return where the harness reaches a node; None while it listens nowhere."""

    async def serve(self, node: str, ports: Mapping[str, Address]) -> None:
        """Take a node for a program of others: it is found at these ports, by name, and takes no first line."""

    async def try_client(self, client: str, node: str, within_s: float, port: str = "") -> Reach:
        """Return what becomes in time of a fresh connection of this client with the node; without a network, also of a
        node. ``port``: of a program, "" for its first."""

    async def stopped(self, dial: Dial) -> Mapping[object, int]:
        """Return, of the rules that let no packet of this dial pass, or none of its answers, how many packets each has
        stopped on that way so far. One that stops another packet there while the dial is under way stops the dial
        too."""

    async def dial(self, client: str, node: str, port: str) -> Streams:
        """See :meth:`chaos.driver.Dials.dial`."""

    async def endpoint(self, client: str, node: str, port: str) -> Address:
        """See :meth:`chaos.driver.Dials.endpoint`."""

    def connect(self, client: str, node: str) -> Connection: ...

    def expose(self, client: str, node: str) -> Address:
        """Return where a client that knows nothing of us reaches this node."""

    def close(self) -> None:
        """End the clients' connections."""
