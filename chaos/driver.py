"""What a driver implements to put a system under test, and what it may use for that."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from chaos.errors import BadInput
from chaos.frames import Framing
from chaos.node import Address, Codec, M, Message, NodeSpec
from chaos.ops import Answer, QueueRef

if TYPE_CHECKING:  # it takes long to load, and most commands need no network
    from asyncio import StreamReader, StreamWriter


class Disconnected(ConnectionError):
    """The connection broke, or could not be opened. ``sent`` says whether any byte of the request may have left:
    when it is False the request surely did not happen."""

    def __init__(self, text: str, *, sent: bool = True) -> None:
        super().__init__(text)
        self.sent = sent


class Connection(Protocol):
    """A client's connection to one node. Opened by the first request, opened again after a break."""

    async def request(self, message: M, timeout_s: float) -> M:
        """Send a request (its number is filled in here) and await its response.

        Raises ``TimeoutError`` when none came in time, :class:`Disconnected` when the connection broke.
        """

    def oneway(self, message: Message) -> None:
        """Send without asking for an answer; lost silently when there is no connection."""

    def close(self) -> None: ...


@runtime_checkable
class TakesRequests(Connection, Protocol):
    """A connection over which the node asks its client by itself; those of all deployments can be."""

    def on_request(self, take: Callable[[Any], None]) -> None:
        """Have each request of the node's own given to ``take``, which must not wait; otherwise they are dropped."""


#: Makes the bytes of a request, in pieces.
MakeFrame = Callable[[M], Sequence[bytes]]


@runtime_checkable
class TakesFrames(Connection, Protocol):
    """A connection over which a client may send bytes that it has made itself; the simulator's can."""

    async def exchange(self, request: M, frame: MakeFrame[M], timeout_s: float) -> M:
        """As ``request`` does, but ``frame`` makes the bytes of the request (its number is filled in by then), and they
        arrive one piece after the other. Who does so counts as a client from outside of the cluster, which knows nodes
        by address."""


class Network(Protocol):
    """How a driver reaches nodes; the deployment implements it. Time is the recorder's own clock."""

    def connect(self, client: str, node: str) -> Connection:
        """Return the connection of this client (by name; link rules apply to it) with this node. One object per
        pair."""

    def now_ns(self) -> int: ...


@runtime_checkable
class Dials(Network, Protocol):
    """The network where nodes are programs, which speak whatever they speak: bytes to a port, under the rules on the
    links of the client. Every deployment but the simulator has it."""

    async def dial(self, client: str, node: str, port: str = "") -> tuple[StreamReader, StreamWriter]:
        """Open a fresh connection of this client with a port of the node, "" for its first. Raises
        :class:`Disconnected` (nothing was sent) when the node refused it; give it a bound of your own, for a cut link
        says nothing."""

    async def endpoint(self, client: str, node: str, port: str = "") -> Address:
        """Host and port at which a client library that dials by itself reaches this port of the node, as this client;
        the same for every call. What it finds there when the node refuses is a connection that closes at once. Nodes
        of packages have one port, "", and name nodes to this client by the addresses that it was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """The servers of a system, in the order in which they are started, and the frames that they speak; None for nodes
    that are programs, whose clients :class:`Dials` serves."""

    nodes: Sequence[NodeSpec]
    codec: Codec | None = None

    def names(self, role: str = "") -> tuple[str, ...]:
        return tuple(node.name for node in self.nodes if not role or node.role == role)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaGroup:
    """Nodes that hold copies of the same data, of which one leads: a master and its slaves, or one partition.

    ``replicas``: all members, by node name. ``leader``: the member that takes writes, "" while none is known; it leads
    since ``epoch``, which grows with each new leader (-1: unknown). ``in_sync``: the members that hold all that was
    acknowledged, as the system itself sees it (SyncStateSet, ISR). ``holds_data``: False where the members keep nothing
    themselves, and take turns to serve what others hold: the leader is called its owner then. ``gone``: it was there,
    and all nodes answer that they know nothing of it.
    """

    name: str
    replicas: tuple[str, ...]
    leader: str = ""
    epoch: int = -1
    in_sync: tuple[str, ...] = ()
    holds_data: bool = True
    gone: bool = False

    @property
    def followers(self) -> tuple[str, ...]:
        """The members other than the leader, in the order of ``replicas``; nobody follows while nobody leads."""
        return tuple(name for name in self.replicas if name != self.leader) if self.leader else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """Which node has which role, as far as the driver knows at this moment; faults choose their targets from it.

    ``groups``: one for a master and its slaves; as many as there are partitions where each has a leader of its own. A
    node may be in several of them. Names of groups never change during a run.
    ``controllers`` elect leaders and hold metadata, ``tier`` are object stores, ``others`` all other servers (name
    servers, proxies). ``controller_leader`` is "" while none is known. ``settled``: every group has a leader, every
    replica is in sync, and the system takes writes. ``newcomers``: the brokers that have never run so far, in the order
    in which they would join. ``zones``: the nodes that go down together, by the name of their zone. ``asked_ns``: when
    the runner asked for this view, which is nowhere older than that; a driver leaves it alone.
    """

    groups: tuple[ReplicaGroup, ...] = ()
    controllers: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    controller_leader: str = ""
    tier: tuple[str, ...] = ()
    settled: bool = False
    asked_ns: int = -1
    newcomers: tuple[str, ...] = ()
    zones: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def brokers(self) -> tuple[str, ...]:
        """The replicas of all groups, each once, in the order of the groups."""
        return self._replicas(self.groups)

    @property
    def servers(self) -> tuple[str, ...]:
        """The nodes that clients of queues ask: where some groups hold no data, the replicas of these; else all."""
        return self._replicas([group for group in self.groups if not group.holds_data] or self.groups)

    @property
    def leaders(self) -> tuple[str, ...]:
        """The nodes that lead a group, each once, in the order of the groups."""
        return tuple(dict.fromkeys(group.leader for group in self.groups if group.leader))

    @staticmethod
    def _replicas(groups: Sequence[ReplicaGroup]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for group in groups for name in group.replicas))

    @property
    def all_in_sync(self) -> bool:
        """Whether each replica of each group is in sync."""
        return all(set(group.replicas) == set(group.in_sync) for group in self.groups)

    def lacks(self) -> str:
        """Return what each group lacks of being settled, in words, as far as this view shows it."""
        if not self.groups:
            return "no group of replicas is known"
        lacking = [
            f"{group.name} {'is not there any more' if group.gone else 'has no leader'}"
            for group in self.groups
            if not group.leader
        ]
        for group in (one for one in self.groups if not one.gone):
            if out := sorted({*group.replicas} - {*group.in_sync}):
                lacking.append(f"{', '.join(out)} not in sync in {group.name}")
        return "; ".join(lacking) or "each group has a leader and all replicas in sync, but it is not ready for writes"

    def groups_of(self, node: str) -> tuple[ReplicaGroup, ...]:
        """Return the groups of which this node is a replica."""
        return tuple(group for group in self.groups if node in group.replicas)

    def with_leader(self, name: str, leader: str, epoch: int) -> ClusterView:
        """Return this view, once it is known that ``leader`` leads the group of this name since ``epoch``. Nothing
        changes unless that epoch is newer than the one in this view; if it is, the system isn't settled."""
        if not any(group.name == name and group.epoch < epoch for group in self.groups):
            return self
        groups = tuple(
            replace(group, leader=leader, epoch=epoch) if group.name == name else group for group in self.groups
        )
        return replace(self, groups=groups, settled=False)


class Client(Protocol):
    """A client of a message queue. Every method ends in an :class:`Answer`, or raises :class:`chaos.ops.Failed` (it
    surely did not happen) or :class:`chaos.ops.Unknown` (it may have happened); nothing else may escape. No hidden
    retries: one call is one attempt."""

    async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
        """Append one message; ok means acknowledged by the system's own policy."""

    async def pull(
        self, queue: QueueRef, offset: int, *, limit: int, max_bytes: int = 0, node: str = "", source: str = ""
    ) -> Answer:
        """Read up to ``limit`` messages from ``offset``, and no more than ``max_bytes`` of them (0: the system's own
        limit), but one message however large it is. ``node`` asks that replica, ``source`` (``local`` or ``tier``)
        demands where the data comes from. An ok answer without messages means the end is reached."""

    async def commit(self, queue: QueueRef, group: str, offset: int) -> Answer:
        """Store the group's next offset to read."""

    async def committed(self, queue: QueueRef, group: str) -> Answer:
        """Return the group's stored offset in ``Answer.offset``, -1 when it has none."""

    async def bounds(self, queue: QueueRef, node: str = "") -> Answer:
        """``minimum`` and ``maximum`` offset of the queue."""

    def close(self) -> None: ...


class Record(Protocol):
    """Takes one row for the history; keyword arguments are columns of :data:`chaos.history.columns.GIVEN`."""

    def __call__(self, kind: str, **columns: object) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What the system promises, as its operator has set it up; laws allow the losses that it permits.

    ``flush``: ``sync`` or ``async``. ``acks``: ``all`` (every member of the SyncStateSet), ``master``, or a number of
    replicas. ``unclean``: may a replica outside the SyncStateSet be elected? Raises ``ValueError`` for other words.
    """

    flush: str = "sync"
    acks: str | int = "all"
    unclean: bool = False
    min_in_sync: int = field(default=2, metadata={"within": range(1, 10)})

    def __post_init__(self) -> None:
        if self.flush not in ("sync", "async"):
            raise ValueError(f"flush: expected sync or async, got {self.flush!r}")
        if self.acks not in ("all", "master") and not re.fullmatch("[1-9][0-9]{0,8}", str(self.acks)):
            raise ValueError(f"acks: expected all, master or a number of replicas, got {self.acks!r}")

    @property
    def strict(self) -> bool:
        return not self.weaknesses

    @property
    def weaknesses(self) -> tuple[str, ...]:
        """The settings that permit losses, each as an experiment writes it: ``flush: async``."""
        weak = {
            "flush": self.flush != "sync",
            "acks": self.acks != "all",
            "unclean": self.unclean,
            "min_in_sync": self.min_in_sync < 2,
        }
        return tuple(self._written(name) for name, is_weak in weak.items() if is_weak)

    @property
    def words(self) -> str:
        """As an experiment writes it: ``flush: async, acks: all``. ``unclean`` and ``min_in_sync`` where they differ
        from what holds without a word of them."""
        other = [one.name for one in fields(self) if getattr(self, one.name) != one.default]
        return ", ".join(map(self._written, dict.fromkeys(("flush", "acks", *other))))

    def _written(self, name: str) -> str:
        value = getattr(self, name)
        return f"{name}: {str(value).lower() if isinstance(value, bool) else value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """For how long, and to whom, a system exposes what it may yet lose under a weaker profile.

    ``loss_window_s``: how many seconds what a node has acknowledged may be in danger: until its next flush, or until
    the slowest replica that still counts has it. Where no replica reports its role, a loss is excused only so long
    before a fault on the node that had acknowledged; without a window such losses are undecided.
    ``readers_see_confirmed``: readers are given nothing that the whole SyncStateSet lacks, so that ``acks`` explains
    nothing that they miss. Raises ``ValueError`` for a window below 0 or above an hour."""

    loss_window_s: float | None = None
    readers_see_confirmed: bool = False

    def __post_init__(self) -> None:
        if self.loss_window_s is not None and not 0 <= self.loss_window_s <= 3_600:
            raise ValueError(f"loss_window_s: expected 0 to 3600 seconds, got {self.loss_window_s!r}")


class Evidence(StrEnum):
    """What a driver can report of a run. What it declares and doesn't report leaves laws UNKNOWN; a law that needs what
    nobody declared is NOT APPLICABLE. ``docs/history.md`` says which rows each of them is."""

    OPERATIONS = "operations"  # what clients asked for and were answered; every driver declares it
    POLLS = "polls"  # what each node says of itself when it is asked (``view`` with ``record``)
    FINAL_LOGS = "final-logs"  # the whole content of every replica after recovery (``collect``)
    FINAL_METADATA = "final-metadata"  # topics and groups' offsets as every replica knows them then
    CONFIRM = "confirm"  # what each replica appends, has on its disk, cuts off, and calls confirmed
    RETENTION = "retention"  # every deletion of old messages, with its reason
    ROLES = "roles"  # every role that a replica takes, with its epoch
    ELECTIONS = "elections"  # every entry that the controllers commit
    ROUTES = "routes"  # whom each name server names as the master
    TIER = "tier"  # what uploaders ask of the tier, what the tier did, and what it holds after the run
    NODE_READS = "node-reads"  # what each node answers by itself after recovery; the power is CanReadThroughNodes
    TIER_CONTENT = "tier-content"  # only what the tier holds after the run; part of ``TIER``
    UPLOADS = "uploads"  # of one tier for all: what role each replica has, and how much it uploaded itself, as polled
    GROUPS = "groups"  # of a storage cluster: all that its groups, their owners and the catalogue of meta go through
    EXCHANGES = "exchanges"  # what clients put in and what came out, without offsets: of imported histories


#: What no driver reports: it stands in imported histories alone.
ONLY_IMPORTED = frozenset({Evidence.EXCHANGES})
#: What the reference system doesn't report, and no run from before drivers declared what they report.
SELDOM_REPORTED = frozenset({Evidence.NODE_READS, Evidence.UPLOADS, Evidence.GROUPS}) | ONLY_IMPORTED


class Driver(Protocol):
    """Puts one system under test. Build it with ``create(options)``; ``MUTANTS`` is optional in the module. A driver
    whose system can be set up for other promises has ``promising(profile) -> Driver`` besides; one that can report more
    than what its clients see has ``evidence() -> frozenset[Evidence]``."""

    def cluster(self, mutant: str) -> ClusterSpec:
        """Which servers to start; ``mutant`` names a planted bug that they shall have, "" for none. Raises
        ``ValueError`` for options that contradict one another."""

    def queues(self) -> tuple[QueueRef, ...]:
        """All queues that workloads may use, with the indexes 0, 1, 2, …; the same during the whole run. Empty for a
        system that only holds objects."""

    def profile(self) -> Profile:
        """Return what the system, as it is set up, promises to keep."""

    def client(self, network: Network, name: str) -> Client:
        """Return a client under this name, to which link rules apply. All that it sends goes through ``network``."""

    async def view(self, network: Network, record: Record | None = None) -> ClusterView:
        """Ask the system who is what, about twice a second. With ``record``, also write what each node said: a ``poll``
        row ``invoke``, and an ``ok`` one when it has answered. Never raises: of a system that is down little is known,
        and the view says so."""

    async def collect(self, network: Network, record: Record) -> None:
        """After recovery: write the whole content of every replica and of the tier as ``final`` rows. The last row of
        each node that was read to its end is ``complete``; a node that can't be read has none. Never raises."""


def promising(driver: Driver, profile: Profile) -> Driver:
    """Return the driver, set up for this profile. Raises :class:`chaos.errors.BadInput` when its system can't promise
    that, and says what to do."""
    able = getattr(driver, "promising", None)
    if able is not None:
        made: Driver = able(profile)
        return made
    if driver.profile() != profile:
        fixed = driver.profile().words
        raise BadInput(
            f"the driver can't set its system up for {{{profile.words}}}: it promises {{{fixed}}}, and nothing else;"
            " leave `profile` out, or have the driver implement promising(profile)"
        )
    return driver


def evidence_of(driver: Driver, *, has_files: bool = True) -> frozenset[Evidence]:
    """Return the evidence that a driver declares: operations always, ``node-reads`` with :class:`CanReadThroughNodes`,
    the rest with ``evidence()``; what it reads from files, only where the deployment has those. Raises
    :class:`BadInput` for words that mean nothing, that a power is missing for, or that an older contract has."""
    declared = getattr(driver, "evidence", None)
    able = isinstance(driver, CanReadThroughNodes)
    who = f"driver {type(driver).__name__}: evidence:"
    if hasattr(driver, "tells"):
        raise BadInput(f"{who} the driver has tells(), which is called evidence() now; rename it")
    try:
        words = frozenset(map(Evidence, declared())) if declared is not None else frozenset()
    except ValueError as error:
        raise BadInput(f"{who} {error}; known: {', '.join(Evidence)}") from error
    if Evidence.NODE_READS in words and not able:
        raise BadInput(f"{who} {Evidence.NODE_READS} needs the power CanReadThroughNodes, a method holders(queue)")
    if not has_files and isinstance(driver, ReadsFiles):
        words -= driver.evidence_from_files()
    return words | {Evidence.OPERATIONS, *((Evidence.NODE_READS,) if able else ())}


@runtime_checkable
class CanSetUp(Protocol):
    """Optional power of a driver: something must be made once in its system before clients come, such as topics."""

    async def set_up(self, network: Network) -> bool:
        """Make it, and return whether all of it is there, on each replica that is to hold it. Asked again and again
        from when all nodes have begun until it is, within the same bound as ``view``, and never after that; so what is
        there already stays as it is. What nodes had not synced by then is synced for them where faults cut power.
        Never raises."""


@runtime_checkable
class DeclaresExposure(Protocol):
    """Optional power of a driver whose system may be set up for less than a strict profile: it says how long what was
    acknowledged is in danger, and what readers are given."""

    def exposure(self) -> Exposure:
        """Return the exposure, which is the same during the whole run."""


@runtime_checkable
class ReadsFiles(Protocol):
    """Optional power of a driver: some of its evidence is what it reads from the files of nodes
    (:class:`chaos.deployment.CanReadFiles`). Where a deployment can't, that is not visible."""

    def evidence_from_files(self) -> frozenset[Evidence]:
        """Return which of ``evidence()`` that is."""


@runtime_checkable
class DeclaresGaps(Protocol):
    """Optional power of a driver whose system leaves out offsets: they ascend, but at some of them readers are given
    nothing, such as marks of the system's own. Laws then take no offset for a message that nobody sent or read, and no
    ``maximum`` for a sign that there is something to read. A run whose workloads use transactions has gaps anyway."""

    def offsets_have_gaps(self, uses: Collection[str]) -> bool:
        """Return whether offsets may have gaps, as the system is set up, in a run whose workloads operate on these
        (:class:`chaos.workload.Use`)."""


@runtime_checkable
class CanUpgrade(Protocol):
    """Optional power of a driver: nodes can run another version of the system on the data that they have, beside nodes
    that run the first one. ``system_version()`` says which that is."""

    def in_version(self, version: str) -> Mapping[str, NodeSpec]:
        """How each of the nodes is started in this version, by name: with the same ports. Raises ``ValueError`` or
        :class:`chaos.errors.BadInput` for a version that isn't to be had."""


@runtime_checkable
class CanFrame(Protocol):
    """Optional power of a driver: it can tell requests and answers apart in what its clients and nodes send, so that
    faults hit requests of a kind."""

    def framing(self) -> Framing:
        """Return who reads the connections of clients, and the kinds of requests. What a client of queues asks is
        called as its method is where that is one request: ``send``, ``pull``, ``commit``, ``committed``, ``bounds``."""


@runtime_checkable
class ReportsVersion(Protocol):
    """Optional power of a driver: it says which version of its system it runs, for the report."""

    def system_version(self) -> str:
        """Return the version as people write it, such as ``5.5.0``."""


@runtime_checkable
class CanSwitch(Protocol):
    """Optional power of a driver: a planned switch to another leader."""

    async def switch(self, network: Network, target: str, group: str) -> Mapping[str, object]:
        """Make ``target`` the leader of the group of this name, in which it follows. Returns evidence (old and new
        leader, epoch); raises :class:`chaos.ops.Failed` when the system refused."""


@runtime_checkable
class CanForceSwitch(Protocol):
    """Optional power of a driver: a switch to any replica that is up."""

    async def force_switch(self, network: Network, target: str, group: str) -> Mapping[str, object]:
        """As :meth:`CanSwitch.switch`, but also to a replica that is not in sync. That one lacks acknowledged data, so
        the system must refuse unless its profile permits the loss."""


@runtime_checkable
class CanRemoveBrokers(Protocol):
    """Optional power of a driver: a broker that is down leaves its groups for good. When it is started again, it joins
    as a new member."""

    async def remove_broker(self, network: Network, node: str) -> Mapping[str, object]:
        """Take a broker out. Returns evidence; raises :class:`chaos.ops.Failed` when the system refused, as it must for
        one that leads a group."""


@runtime_checkable
class CanAddBrokers(Protocol):
    """Optional power of a driver: new brokers join in mid-run, and stay."""

    def newcomers(self) -> tuple[str, ...]:
        """Their names, in the order in which they would join; also ``ClusterView.newcomers``."""

    def broker(self, node: str, mutant: str) -> NodeSpec:
        """How to start the newcomer of this name."""

    async def welcome(self, network: Network, node: str) -> Mapping[str, object]:
        """Welcome a newcomer that was just started: name it in views from now on, and wait, within a bound, until a
        group has taken it in. Returns evidence of that, or of its absence."""


@runtime_checkable
class CanTransferLeader(Protocol):
    """Optional power of a driver: the leader of the controllers hands over to another one."""

    async def transfer_leader(self, network: Network, target: str) -> Mapping[str, object]:
        """Make ``target`` the controllers' leader, and wait until it is. Returns evidence (old and new leader, term);
        raises :class:`chaos.ops.Failed` when the system refused."""


@runtime_checkable
class CanChangeControllers(Protocol):
    """Optional power of a driver: a controller that runs leaves their group, and joins it again."""

    async def remove_controller(self, network: Network, node: str) -> Mapping[str, object]:
        """Take a controller out. Returns evidence; raises :class:`chaos.ops.Failed` when the system refused, as for the
        leader."""

    async def add_controller(self, network: Network, node: str) -> bool:
        """Let it join again, and wait, within a bound, until it votes. Returns whether it does; if not (another fault
        keeps the others from agreeing), this is asked again when all faults are undone. Idempotent, and no error when
        nobody answers."""


@runtime_checkable
class CanDrain(Protocol):
    """Optional power of a driver: a node that runs gives up all that it serves or holds, one piece at a time."""

    async def drain(self, network: Network, node: str) -> Mapping[str, object]:
        """Have everything taken from a node. Returns evidence; raises :class:`chaos.ops.Failed` for a refusal."""

    async def undrain(self, network: Network, node: str) -> bool:
        """Let the node be given things again. Returns whether the system says so; if not, this is asked again when all
        faults are undone. Idempotent, and no error when nobody answers."""


@runtime_checkable
class TellsEvents(Protocol):
    """Optional power of a driver: it knows which events its nodes trace. A trigger on any other event is refused before
    the start."""

    def events(self) -> Sequence[str]:
        """Return the names of all events in the traces of its nodes, in any order."""


@runtime_checkable
class CanReadThroughNodes(Protocol):
    """Optional power of a driver: each node that holds a copy of a queue answers reads from that copy alone. After
    recovery the drain then reads every copy to its end, and agreement compares them."""

    def holders(self, queue: QueueRef) -> Sequence[str]:
        """Return the nodes that hold a copy of the queue; asked once the system has recovered. ``bounds`` and ``pull``
        of a :class:`Client` with ``node`` one of them are answered by that node, which ``Answer.node`` names, with what
        it holds and calls valid itself; never by another one in its place. It may lag, and answer with an earlier
        end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCommand:
    """How a client that is a program is started on the harness's machine: its words, and what its environment holds
    besides."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class HasClientPrograms(Protocol):
    """Optional power of a driver: its system has clients that are programs, which write their operations as JSON lines
    (``docs/history.md`` says how)."""

    async def client_command(self, network: Network, name: str) -> ClientCommand:
        """Return the command of a client under this name; :meth:`Dials.endpoint` has an address for it to which link
        rules apply."""


@runtime_checkable
class HasClientLibrary(Protocol):
    """Optional power of a driver: its system has a client library, and a program that uses it in the ways that a
    workload may order. It writes its operations as the programs of :class:`HasClientPrograms` do."""

    def library_lacks(self) -> Mapping[str, str]:
        """Return which kinds of producers and consumers it can't be, by the options of the workload ``library``, and
        why: half a sentence. An experiment that wants them is refused."""

    async def library_command(self, network: Network, name: str, orders: Mapping[str, int]) -> ClientCommand:
        """Return the command of a client under this name. ``orders``: how many producers and consumers of each kind it
        shall be, and how they behave, by the names that the workload ``library`` gives them."""


class TierEffect(StrEnum):
    """What the object store gets wrong."""

    REFUSE = "refuse"  # the request fails, and nothing happens
    EXPIRE = "expire"  # the same, because credentials have expired
    LOSE_ANSWER = "lose_answer"  # the request is carried out, but its answer is lost
    SLOW = "slow"  # the request is taken ``delay_ms`` late
    STALE_LIST = "stale_list"  # a list shows what there was when the rule was put up


class TierRequest(StrEnum):
    """The kinds of requests to an object store."""

    PUT = "put"
    CAS = "cas"
    GET = "get"
    LIST = "list"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRule:
    """Hits ``per_mille`` in 1000 of the requests of these kinds. All rules that hit a request act on it together: it
    may be taken late and then refused."""

    effect: TierEffect
    requests: Sequence[TierRequest] = tuple(TierRequest)
    per_mille: int = 1000
    delay_ms: int = 0


#: The trace event of a hit: ``value.rule`` is the rule's id. It counts also when the store has ended meanwhile.
TIER_FAULT = "tier_fault"


@runtime_checkable
class CanBreakTier(Protocol):
    """Optional power of a driver: its object store can handle requests wrongly on demand. Requests of the harness are
    never hit. A store that is started again has no rules."""

    async def break_tier(self, network: Network, rule_id: str, rule: TierRule) -> None:
        """Put up a rule. Undo: ``mend_tier``. Raises :class:`chaos.ops.Failed` when the rule is surely not up, or
        :class:`chaos.ops.Unknown` when it may be."""

    async def mend_tier(self, network: Network, rule_id: str) -> None:
        """Take a rule down; idempotent, and no error when the store doesn't answer."""

    async def tier_hits(self, network: Network, rule_id: str) -> int:
        """How many requests the rule has hit so far; 0 for a rule that is gone, or when the store doesn't answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A planted bug: which law it breaks, which real bug it stands for, and the example scenario that shows it when
    ``quickstart`` can't; ``seed``: one with which the simulator shows it there."""

    name: str
    law: str
    stands_for: str
    scenario: str = ""
    seed: int = 1


OnTrace = Callable[[Mapping[str, object]], None]

#: How a plug-in module's options class is named, and the function that makes its object.
OPTIONS = "Options"
CREATE = "create"
#: Other names of a plug-in in its module: alias → the options that it stands for.
ALIASES = "ALIASES"
#: Which methods of the nodes' code decided what a row says, in the module of a driver whose nodes' code is known: name
#: of the row → ``Class.method``, several in the order in which they are asked. Where it matters the name is followed by
#: how the operation ended (``read ok``), the role (``role master``), the kind of the entry (``applied elect``), or a
#: field that only such rows have (``confirm acks``); or by what the row contradicts (``acked unsynced``). The name of a
#: violation stands for the row that its law calls the decision.
DECIDED_BY = "DECIDED_BY"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOptions:
    """For plug-ins that have none."""

    unused: None = field(default=None, init=False)
