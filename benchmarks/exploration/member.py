"""One member of a Raft group as a value: what it becomes by an event, and what it does then.

The code is the controllers' own (:class:`reference.raft.member.Raft`, its log and its messages); around it stand an
environment without time and a disk that keeps what was synced. A member's whole state is frozen into bytes after each
step, so that a step can be taken from it again, with another event.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache, partial
from typing import Any

from chaos import events
from chaos.node import NOWHERE, Address, Env
from reference.raft.log import RaftLog
from reference.raft.member import Raft
from reference.raft.options import RaftOptions
from reference.raft.read_index import Readable
from reference.raft.roles import ELECTION, HEARTBEAT
from reference.raft.state import LEADER
from reference.raft.state_machine import StateMachine
from reference.wire.command import Command

#: An entry as a log holds it: term and data. The first one has the index 1.
Logged = tuple[int, bytes]
_OPTIONS = RaftOptions(heartbeat_ms=100, election_ms=500, snapshot_entries=1_000_000, append_entries=1)


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


@dataclass(frozen=True, slots=True)
class Event:
    """``peer``: whose message, or whose connection. ``number``: of the message, the value, or what a read must see."""

    kind: Kind
    peer: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What laws look at."""

    term: int
    leads: bool
    leader: str
    log: tuple[Logged, ...]
    syncing: bool
    unsynced: bool


@dataclass(slots=True)
class Done:
    """What a step has done: messages (to whom, number), entries applied, reads answered (what each had to see, what was
    applied by then)."""

    sent: list[tuple[str, int]] = field(default_factory=list)
    applied: list[tuple[int, Logged]] = field(default_factory=list)
    reads: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Asked:
    """A client's read, which must see the entries up to ``floor``."""

    floor: int

    def __call__(self, env: Env, safe: bool) -> None:
        if safe:
            assert isinstance(env, ModelEnv)
            env.did.reads.append((self.floor, env.member.raft.applied))


def _ended(env: Env, outcome: object, index: int) -> None:
    """Do nothing: a proposal's client is of no interest."""


class ModelDisk:
    """A sync makes all durable that was written before it; a crash takes the rest, or nothing."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.durable: dict[str, bytes] = {}
        self.syncs: dict[int, dict[str, bytes]] = {}
        self._token = 0

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        return self.files[path][offset : None if length is None else offset + length]

    def size(self, path: str) -> int:
        return len(self.files[path]) if path in self.files else -1

    def list(self, prefix: str = "") -> list[str]:
        return sorted(path for path in self.files if path.startswith(prefix))

    def write(self, path: str, offset: int, data: bytes) -> None:
        before = self.files.get(path, b"")
        self.files[path] = before[:offset].ljust(offset, b"\0") + data + before[offset + len(data) :]

    def truncate(self, path: str, size: int) -> None:
        self.files[path] = self.files[path][:size]

    def rename(self, old: str, new: str) -> None:
        self.files[new] = self.files.pop(old)

    def remove(self, path: str) -> None:
        self.files.pop(path, None)

    def sync(self, paths: Iterable[str]) -> int:
        self._token += 1
        self.syncs[self._token] = dict(self.files)
        return self._token

    def finish(self) -> int:
        """End the oldest sync; return its token."""
        token = next(iter(self.syncs))
        self.durable = self.syncs.pop(token)
        return token

    def crash(self, *, lose: bool) -> None:
        self.syncs.clear()
        if lose:
            self.files = dict(self.durable)
        self.durable = dict(self.files)


class _Lowest:
    """The source of randomness: which member stands for election when is chosen by the exploration."""

    def randrange(self, end: int) -> int:
        return 0


class ModelEnv:
    """Time passes only where an event says so."""

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
        self.due |= name not in (ELECTION, HEARTBEAT)

    def cancel_timer(self, name: str) -> None: ...

    def mono_ns(self) -> int:
        return self.now_ns

    def wall_ns(self) -> int:
        return self.now_ns

    def trace(self, event: events.Event) -> None: ...


#: Makes a member: its name, the names of all, its state machine, its options.
Make = Callable[[str, Sequence[str], StateMachine, RaftOptions], Raft]


class Member(StateMachine):
    """A member whose state machine does nothing."""

    def __init__(self, make: Make, name: str, names: tuple[str, ...]) -> None:
        self.raft = make(name, names, self, _OPTIONS)

    def apply(self, env: Env, index: int, term: int, data: bytes) -> object:
        assert isinstance(env, ModelEnv)
        env.did.applied.append((index, (term, data)))
        return None

    def check(self, data: bytes) -> None: ...

    def check_snapshot(self, snapshot: bytes) -> None: ...

    def snapshot(self) -> Iterable[bytes]:
        raise NotImplementedError

    def restore(self, env: Env, snapshot: bytes) -> None:
        raise NotImplementedError

    def role_changed(self, env: Env) -> None: ...


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


def take(env: ModelEnv, event: Event, make: Make, names: tuple[str, ...], *, at_once: bool) -> ModelEnv:
    """One step of a member; returns its environment, another one after a crash. ``at_once``: syncs end in the step in
    which they begin. Raises whatever the member's code does."""
    if event.kind in (Kind.LOSE, Kind.KEEP, Kind.START):
        env.disk.crash(lose=event.kind == Kind.LOSE)
        env = ModelEnv(env.name, Member(make, env.name, names), env.disk)
    _happen(env, env.member.raft, event)
    while env.due or (at_once and env.disk.syncs):
        if env.due:
            env.due = False
            env.member.raft.timer(env, "raft.apply")
        else:
            _synced(env, env.member.raft)
    return env


def _happen(env: ModelEnv, raft: Raft, event: Event) -> None:
    match event.kind:
        case Kind.START | Kind.LOSE | Kind.KEEP:
            raft.start(env)
        case Kind.DELIVER:
            raft.message(env, event.peer, message_of(event.number))
        case Kind.SYNCED:
            _synced(env, raft)
        case Kind.TIMEOUT if raft.role == LEADER:
            env.now_ns += 2 * _OPTIONS.election_ms * 1_000_000
            raft.timer(env, HEARTBEAT)
        case Kind.TIMEOUT:
            env.now_ns = max(env.now_ns, raft.deadline_ns)
            raft.timer(env, ELECTION)
        case Kind.HEARTBEAT:
            raft.timer(env, HEARTBEAT)
        case Kind.PROPOSE:
            raft.propose(env, b"%d" % event.number, _ended)
        case Kind.READ:
            raft.read(env, Asked(event.number))
        case Kind.CLOSED:
            env.held.pop(event.peer, None)
            raft.closed(env, event.peer)


def _synced(env: ModelEnv, raft: Raft) -> None:
    token = env.disk.finish()
    env.release()
    raft.done(env, token)


# What a member is, for laws and for distinguishing states


def facts_of(env: ModelEnv) -> Facts:
    raft, log = env.member.raft, env.member.raft.log
    return Facts(
        term=raft.term,
        leads=raft.role == LEADER,
        leader=raft.leader,
        log=tuple((entry.term, entry.data) for entry in log.slice(1, max_bytes=1 << 30, max_count=1 << 30)),
        syncing=bool(env.disk.syncs),
        unsynced=env.disk.files != env.disk.durable,
    )


def key_of(env: ModelEnv, facts: Facts) -> Hashable:
    """Return a key that is equal for members that will do the same. Clocks count only for what is compared with
    them."""
    raft, log, disk = env.member.raft, env.member.raft.log, env.disk
    ballot, rounds, questions = raft.ballot, raft.rounds, raft.reads.questions
    tokens: dict[int | None, int] = {token: place for place, token in enumerate(disk.syncs)}
    patience = None
    if questions._deadline_ns is not None:
        patience = (questions._deadline_ns - env.now_ns) // (_OPTIONS.election_ms * 1_000_000)
    return (
        (raft.role, facts.leader, facts.term, log.vote, facts.log, raft.commit, raft.applied, raft.term_start),
        (log._durable, log.wal.is_dirty, tuple(log._running.values())),
        (raft.policy.leader_is_fresh(env), tuple(raft.proposals)),
        tuple((it.next, it.match, it.in_flight, it.probing, it.untold, it.round) for it in raft.peers.values()),
        None if ballot is None else (ballot.term, ballot.pre, tuple(sorted(ballot.granted))),
        (rounds.last, tuple((read.index, read.round, _reader(read.then)) for read in rounds._reads)),
        (questions._number, patience, tuple(map(_reader, questions._asked)), tuple(map(_reader, questions._waiting))),
        tuple((index, _reader(then)) for index, then in raft.reads.waiting),
        tuple((to, tuple((tokens.get(after), at) for after, at in queue)) for to, queue in env.held.items() if queue),
        (_content(disk.durable), tuple(_content(files) for files in disk.syncs.values())),
    )


def _reader(then: Readable) -> Hashable:
    return then.args if isinstance(then, partial) else then


def _content(files: dict[str, bytes]) -> Hashable:
    """Return what a member would begin with."""
    logs = [path for path in files if path.startswith("raft/log.")]
    return _recovered(files[max(logs)]) if logs else None


@lru_cache(maxsize=100_000)
def _recovered(data: bytes) -> Hashable:
    log = RaftLog()
    log.wal.load(data)
    return log.term, log.vote, tuple((entry.term, entry.data) for entry in log._entries)


def frozen(env: ModelEnv) -> bytes:
    env.did = Done()
    return pickle.dumps(env, pickle.HIGHEST_PROTOCOL)


def thawed(blob: bytes) -> ModelEnv:
    env: ModelEnv = pickle.loads(blob)
    return env
