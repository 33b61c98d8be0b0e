"""One member of a group as a value: what it becomes by an event.

The code is the nodes' own; around it stand an environment without time and a disk that keeps what was synced. A
member's whole state is frozen into bytes after each step, so that a step can be taken from it again, with another
event.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable
from functools import partial

from benchmarks.exploration.disk import ModelDisk
from benchmarks.exploration.env import Asked, Member, ModelEnv, message_of
from benchmarks.exploration.event import CRASHES, LOGS, Done, Event, Facts, Kind
from chaos.node import Env
from reference.raft.applying import APPLY
from reference.raft.member import Raft
from reference.raft.read_index import Readable
from reference.raft.roles import ELECTION, HEARTBEAT
from reference.raft.state import LEADER

#: Of what wasn't synced, the files that a crash leaves begin so; None: it leaves none.
_KEPT = {Kind.START: "", Kind.LOSE: None, Kind.KEEP: "", Kind.KEEP_LOG: LOGS}


#: Makes a member, by its name.
Make = Callable[[str], Member]


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


def held_key(env: ModelEnv) -> tuple[tuple[str, Hashable], ...]:
    """Return what is held back until a sync has ended, by whom it is for."""
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
