"""A member whose state machine does nothing, with its log in a file of its own: Raft's core, as controllers use it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from benchmarks.exploration.env import Member, ModelEnv, Proposal
from benchmarks.exploration.event import Applied, Event, Facts
from benchmarks.exploration.member import held_key, raft_key, unsynced
from chaos.node import Env
from reference.raft.log import RaftLog
from reference.raft.member import Raft
from reference.raft.options import RaftOptions
from reference.raft.state_machine import StateMachine
from reference.wire.command import Command

_OPTIONS = RaftOptions(heartbeat_ms=100, election_ms=500, snapshot_entries=1_000_000, append_entries=1)
#: Makes a replica: its name, the names of all, its state machine, its options.
MakeRaft = Callable[[str, Sequence[str], StateMachine, RaftOptions], Raft]


class Nothing(StateMachine):
    """Notes what is applied."""

    def apply(self, env: Env, index: int, term: int, data: bytes) -> object:
        assert isinstance(env, ModelEnv)
        env.did.applied.append(Applied(index, (term, data)))
        return None

    def check(self, data: bytes) -> None: ...

    def check_snapshot(self, snapshot: bytes) -> None: ...

    def snapshot(self) -> Iterable[bytes]:
        raise NotImplementedError

    def restore(self, env: Env, snapshot: bytes) -> None:
        raise NotImplementedError

    def role_changed(self, env: Env) -> None: ...


class Controller(Member):
    def __init__(self, make: MakeRaft, names: Sequence[str], name: str) -> None:
        self._raft = make(name, names, Nothing(), _OPTIONS)

    def raft(self) -> Raft:
        return self._raft

    def raft_env(self, env: ModelEnv) -> Env:
        return env

    def start(self, env: ModelEnv) -> None:
        self._raft.start(env)

    def message(self, env: ModelEnv, peer: str, message: Command) -> None:
        self._raft.message(env, peer, message)

    def synced(self, env: ModelEnv, token: int) -> None:
        self._raft.done(env, token)

    def closed(self, env: ModelEnv, peer: str) -> None:
        self._raft.closed(env, peer)

    def propose(self, env: ModelEnv, event: Event) -> None:
        data = b"%d" % event.number
        self._raft.propose(env, data, Proposal(data))

    def facts(self, env: ModelEnv) -> Facts:
        raft, log = self._raft, self._raft.log
        return Facts(
            term=raft.term,
            leads=raft.is_leader,
            leader=raft.leader,
            log=tuple((entry.term, entry.data) for entry in log.slice(1, max_bytes=1 << 30, max_count=1 << 30)),
            syncing=bool(env.disk.syncs),
            unsynced=unsynced(env.disk),
        )

    def key(self, env: ModelEnv, facts: Facts) -> Hashable:
        disk = env.disk
        contents = (_content(disk.durable), tuple(_content(files) for files in disk.syncs.values()))
        return raft_key(self._raft, env, facts), held_key(env), contents


def _content(files: dict[str, bytes]) -> Hashable:
    """Return what a member would begin with."""
    logs = [path for path in files if path.startswith("raft/log.")]
    return _recovered(files[max(logs)]) if logs else None


@lru_cache(maxsize=100_000)
def _recovered(data: bytes) -> Any:
    log = RaftLog()
    log.wal.load(data)
    return log.term, log.vote, tuple((entry.term, entry.data) for entry in log._entries)
