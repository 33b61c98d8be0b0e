"""One member of a group as a value: what it becomes by an event, and what it does then.

The code is the nodes' own; around it stand an environment without time and a disk that keeps what was synced. A
member's whole state is frozen into bytes after each step, so that a step can be taken from it again, with another
event.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any

from benchmarks.exploration.disk import ModelDisk
from chaos import events
from chaos.node import NOWHERE, Address, Env
from reference.raft.applying import APPLY
from reference.raft.member import Raft
from reference.raft.read_index import Readable
from reference.raft.roles import ELECTION, HEARTBEAT
from reference.raft.state import LEADER
from reference.wire.command import Command

#: An entry as a log holds it: term and data. The first one has the index 1.
Logged = tuple[int, bytes]
#: The files of logs begin so.
LOGS = "raft/"


class Kind(StrEnum):
    START = "start"
    DELIVER = "deliver"
    SYNCED = "synced"
    TIMEOUT = "timeout"  # no leader heard; a leader: no majority heard
    HEARTBEAT = "heartbeat"
    PROPOSE = "propose"
    READ = "read"
    CLOSED = "closed"
    LOSE = "crash, losing what was not synced"
    KEEP = "crash, after all was written"
    KEEP_LOG = "crash, after the log was written and nothing else"
    WIPE = "crash, losing the disk"


#: Of what wasn't synced, the files that a crash leaves begin so; None: it leaves none.
_KEPT = {Kind.START: "", Kind.LOSE: None, Kind.KEEP: "", Kind.KEEP_LOG: LOGS}
CRASHES = (Kind.LOSE, Kind.KEEP, Kind.KEEP_LOG, Kind.WIPE)


@dataclass(frozen=True, slots=True)
class Event:
    """``peer``: whose message, or whose connection; of a proposal, whom it concerns. ``number``: of the message, the
    value, or what a read must see. ``word``: what is proposed."""

    kind: Kind
    peer: str = ""
    number: int = 0
    word: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What laws look at. ``log``: all entries; those are None of which a snapshot holds the outcome. ``unsynced``: what
    a crash may take, by whether it is a log. ``replica``: what the group calls this member. ``wrong``: what is wrong
    with it, whatever the others are, "" if nothing is."""

    term: int
    leads: bool
    leader: str
    log: tuple[Logged | None, ...]
    syncing: bool
    unsynced: frozenset[bool]
    replica: str = ""
    may_change_members: bool = False
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class Applied:
    """An entry that was applied: its place in the log, the state that it left (of a state machine that does nothing
    ""), and, in words, what it did."""

    index: int
    entry: Logged
    state: str = ""
    did: str = ""


@dataclass(slots=True)
class Done:
    """What a step has done: messages (to whom, number), entries applied, snapshots restored (index, state), reads
    answered (what each had to see, what was applied by then), proposals that were acknowledged (index, data)."""

    sent: list[tuple[str, int]] = field(default_factory=list)
    applied: list[Applied] = field(default_factory=list)
    restored: list[tuple[int, str]] = field(default_factory=list)
    reads: list[tuple[int, int]] = field(default_factory=list)
    acknowledged: list[tuple[int, bytes]] = field(default_factory=list)


class _Lowest:
    """The source of randomness: which member stands for election when is chosen by the exploration."""

    def randrange(self, end: int) -> int:
        return 0


class ModelEnv:
    """Time passes only where an event says so, and wall clocks stand still."""

    rng: Any = _Lowest()
    incarnation = 1

    def __init__(self, name: str, member: Member, disk: ModelDisk) -> None:
        self.name = name
        self.member = member
        self.disk = disk
        self.now_ns = 0
        self.held: dict[str, list[tuple[int | None, int]]] = {}
        self.due = False
        self.did = Done()

    def send(self, to: str, message: Any, *, after: int | None = None) -> None:
        waits = after if after in self.disk.syncs else None
        self.held.setdefault(to, []).append((waits, number_of(message)))
        self.release()

    def release(self) -> None:
        """Messages to one peer never overtake each other."""
        for to, queue in self.held.items():
            while queue and queue[0][0] not in self.disk.syncs:
                self.did.sent.append((to, queue.pop(0)[1]))

    def close(self, peer: str) -> None:
        raise NotImplementedError

    def endpoints(self, peer: str) -> tuple[Address, Address]:
        return NOWHERE, NOWHERE

    def set_timer(self, name: str, delay_ns: int) -> None:
        self.due |= name == APPLY

    def cancel_timer(self, name: str) -> None: ...

    def mono_ns(self) -> int:
        return self.now_ns

    def wall_ns(self) -> int:
        return 0

    def trace(self, event: events.Event) -> None: ...


class Member(ABC):
    """A node that is nothing but a member of one group."""

    @abstractmethod
    def start(self, env: ModelEnv) -> None: ...

    @abstractmethod
    def raft(self) -> Raft | None:
        """Return its replica; None where it has none."""

    @abstractmethod
    def raft_env(self, env: ModelEnv) -> Env:
        """Return what the replica's methods are called with."""

    @abstractmethod
    def message(self, env: ModelEnv, peer: str, message: Command) -> None: ...

    @abstractmethod
    def synced(self, env: ModelEnv, token: int) -> None: ...

    @abstractmethod
    def closed(self, env: ModelEnv, peer: str) -> None: ...

    @abstractmethod
    def propose(self, env: ModelEnv, event: Event) -> None:
        """As the leader, propose the entry that the event's word means."""

    def step_over(self, env: ModelEnv) -> None:
        """Send what a step has gathered."""
        return

    @abstractmethod
    def facts(self, env: ModelEnv) -> Facts: ...

    @abstractmethod
    def key(self, env: ModelEnv, facts: Facts) -> Hashable:
        """Return a key that is equal for members that will do the same."""

    @staticmethod
    def wrong_history(committed: tuple[str, ...]) -> str:
        """Return what is wrong with what the committed entries did, in their order; "" if nothing is."""
        return ""


#: Makes a member, by its name.
Make = Callable[[str], Member]


@dataclass(frozen=True, slots=True)
class Asked:
    """A client's read, which must see the entries up to ``floor``."""

    floor: int

    def __call__(self, env: Env, safe: bool) -> None:
        if safe:
            node = node_env(env)
            raft = node.member.raft()
            assert raft is not None
            node.did.reads.append((self.floor, raft.applied))


@dataclass(frozen=True, slots=True)
class Proposal:
    """A client's entry."""

    data: bytes

    def __call__(self, env: Env, outcome: object, index: int) -> None:
        if index > 0 and not getattr(outcome, "code", 0):
            node_env(env).did.acknowledged.append((index, self.data))


def node_env(env: Env) -> ModelEnv:
    """Return the member's own environment."""
    found = getattr(env, "node", env)
    assert isinstance(found, ModelEnv)
    return found


# Messages by number, so that states are small and quickly compared

_MESSAGES: list[Command] = []
_NUMBERS: dict[Hashable, int] = {}


def number_of(message: Command) -> int:
    key = (message.code, tuple(message.fields.items()), message.body)
    number = _NUMBERS.setdefault(key, len(_MESSAGES))
    if number == len(_MESSAGES):
        _MESSAGES.append(message)
    return number


def message_of(number: int) -> Command:
    return _MESSAGES[number]


# A step


def take(env: ModelEnv, event: Event, make: Make, *, at_once: bool) -> ModelEnv:
    """One step of a member; returns its environment, another one after a crash. ``at_once``: syncs end in the step in
    which they begin. Raises whatever the member's code does."""
    if event.kind in (*CRASHES, Kind.START):
        if event.kind == Kind.WIPE:
            env.disk.wipe()
        else:
            env.disk.crash(keeps=_KEPT[event.kind])
        env = ModelEnv(env.name, make(env.name), env.disk)
        env.member.start(env)
    else:
        _happen(env, env.member, event)
    env.member.step_over(env)
    while env.due or (at_once and env.disk.syncs):
        raft = env.member.raft()
        if env.due and raft is not None:
            env.due = False
            raft.timer(env.member.raft_env(env), APPLY)
        else:
            _synced(env)
        env.member.step_over(env)
    return env


def _happen(env: ModelEnv, member: Member, event: Event) -> None:
    raft, own = member.raft(), member.raft_env(env)
    match event.kind:
        case Kind.DELIVER:
            member.message(env, event.peer, message_of(event.number))
        case Kind.SYNCED:
            _synced(env)
        case Kind.CLOSED:
            env.held.pop(event.peer, None)
            member.closed(env, event.peer)
        case Kind.PROPOSE:
            member.propose(env, event)
        case _ if raft is None:
            pass
        case Kind.TIMEOUT if raft.role == LEADER:
            env.now_ns += 2 * raft.election_ns
            raft.timer(own, HEARTBEAT)
        case Kind.TIMEOUT:
            env.now_ns = max(env.now_ns, raft.deadline_ns)
            raft.timer(own, ELECTION)
        case Kind.HEARTBEAT:
            raft.timer(own, HEARTBEAT)
        case Kind.READ:
            raft.read(own, Asked(event.number))


def _synced(env: ModelEnv) -> None:
    token = env.disk.finish()
    env.release()
    env.member.synced(env, token)


# What a member is, for distinguishing states


def raft_key(raft: Raft, env: Env, facts: Facts) -> Hashable:
    """Return what a replica does the same by. Clocks count only for what is compared with them."""
    log, ballot, rounds, questions = raft.log, raft.ballot, raft.rounds, raft.reads.questions
    patience = None
    if questions._deadline_ns is not None:
        patience = (questions._deadline_ns - env.mono_ns()) // raft.election_ns
    return (
        (raft.role, facts.leader, facts.term, log.vote, facts.log, raft.commit, raft.applied, raft.term_start),
        (log._durable, log.wal.is_dirty, tuple(log._running.values())),
        (raft.policy.leader_is_fresh(env), tuple(raft.proposals)),
        tuple((it.next, it.match, it.in_flight, it.probing, it.untold, it.round) for it in raft.peers.values()),
        None if ballot is None else (ballot.term, ballot.pre, tuple(sorted(ballot.granted))),
        (rounds.last, tuple((read.index, read.round, _reader(read.then)) for read in rounds._reads)),
        (questions._number, patience, tuple(map(_reader, questions._asked)), tuple(map(_reader, questions._waiting))),
        tuple((index, _reader(then)) for index, then in raft.reads.waiting),
    )


def held_key(env: ModelEnv) -> Hashable:
    """Return what is held back until a sync has ended."""
    tokens: dict[int | None, int] = {token: place for place, token in enumerate(env.disk.syncs)}
    held = env.held.items()
    return tuple((to, tuple((tokens.get(after), at) for after, at in queue)) for to, queue in held if queue)


def _reader(then: Readable) -> Hashable:
    return then.args if isinstance(then, partial) else then


def unsynced(disk: ModelDisk) -> frozenset[bool]:
    """Return what a crash may take: by whether it is a log."""
    paths = {*disk.files, *disk.durable}
    return frozenset(path.startswith(LOGS) for path in paths if disk.files.get(path) != disk.durable.get(path))


def frozen(env: ModelEnv) -> bytes:
    env.did = Done()
    return pickle.dumps(env, pickle.HIGHEST_PROTOCOL)


def thawed(blob: bytes) -> ModelEnv:
    env: ModelEnv = pickle.loads(blob)
    return env
