"""A node that is nothing but a member of a Raft group, and worlds of them."""

from __future__ import annotations

from typing import Any

from chaos.node import Env
from reference.raft.member import Raft
from reference.raft.options import RaftOptions
from reference.raft.policy import RaftPolicy
from reference.raft.state_machine import StateMachine
from reference.wire.command import Command
from tests.free_events import Free
from tests.reference.raftnet import World


class Member(StateMachine):
    """Its state machine is the list of what was applied."""

    raft_class = Raft
    policy = RaftPolicy

    def __init__(self, name: str, names: list[str], snapshot_entries: int, **options: Any) -> None:
        told = RaftOptions(heartbeat_ms=100, election_ms=500, snapshot_entries=snapshot_entries, **options)
        self.raft = self.raft_class(name, names, self, told, self.policy)
        self.applied: list[str] = []

    def start(self, env: Env) -> None:
        self.raft.start(env)

    def message(self, env: Env, source: str, message: Command) -> None:
        assert self.raft.message(env, source, message)

    def timer(self, env: Env, name: str) -> None:
        assert self.raft.timer(env, name)

    def done(self, env: Env, token: int) -> None:
        assert self.raft.done(env, token)

    def closed(self, env: Env, peer: str) -> None:
        self.raft.closed(env, peer)

    def check(self, data: bytes) -> None: ...

    def check_snapshot(self, snapshot: bytes) -> None: ...

    def apply(self, env: Env, index: int, term: int, data: bytes) -> object:
        env.trace(Free("applied", position=index, epoch=term, data=data))
        self.applied.append(data.decode())
        return len(self.applied)

    def snapshot(self) -> list[bytes]:
        """Pieces of 32 bytes."""
        whole = "\n".join(self.applied).encode()
        return [whole[at : at + 32] for at in range(0, len(whole), 32)]

    def restore(self, env: Env, snapshot: bytes) -> None:
        self.applied = snapshot.decode().split("\n")

    def role_changed(self, env: Env) -> None: ...


def make_world(
    seed: int, size: int, *, snapshot_entries: int = 30, member: type[Member] = Member, **options: Any
) -> World:
    names = [f"c{i}" for i in range(size)]
    return World(seed, {name: lambda name=name: member(name, names, snapshot_entries, **options) for name in names})
