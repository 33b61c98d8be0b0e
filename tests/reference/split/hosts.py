"""Nodes that are nothing but hosts of Raft groups, and worlds of them: the state machines list what was applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from chaos.node import Env
from reference.raft.options import RaftOptions
from reference.raft.state_machine import StateMachine
from reference.split.hosting import Host
from reference.split.hosting.replica import Replica
from reference.split.names import replica_name
from reference.wire.command import Command
from tests.reference.raftnet import World


class Listed(StateMachine):
    """What was applied, in order."""

    def __init__(self) -> None:
        self.applied: list[str] = []

    def apply(self, env: Env, index: int, term: int, data: bytes) -> object:
        if data:
            self.applied.append(data.decode())
        return len(self.applied)

    def check(self, data: bytes) -> None: ...

    def check_snapshot(self, snapshot: bytes) -> None: ...

    def snapshot(self) -> list[bytes]:
        return ["\n".join(self.applied).encode()]

    def restore(self, env: Env, snapshot: bytes) -> None:
        self.applied = snapshot.decode().split("\n") if snapshot else []

    def role_changed(self, env: Env) -> None: ...


class Store:
    """A node whose replicas are born when it starts, as one of ``birth``'s nodes. Everything else joins."""

    host_class = Host
    rewrite_bytes = 4 << 20
    linger_ms = 0
    in_rounds = False
    machine_class: type[Listed] = Listed

    def __init__(self, groups: int, births: Callable[[int], Sequence[str]], options: RaftOptions) -> None:
        self.groups, self.births = groups, births
        more: dict[str, int] = {"rewrite_bytes": self.rewrite_bytes, "linger_ms": self.linger_ms}
        self.host = self.host_class(self, options, in_rounds=self.in_rounds, **more)
        self.machines: dict[int, Listed] = {}
        self.gone: list[int] = []

    def is_group(self, number: int) -> bool:
        return 0 <= number < self.groups

    def make_machine(self, group: int) -> StateMachine:
        machine = self.machines[group] = self.machine_class()
        return machine

    def removed(self, env: Env, group: int) -> None:
        self.gone.append(group)
        del self.machines[group]

    def start(self, env: Env) -> None:
        self.host.start(env, disk_of(env.name))
        for group in range(self.groups):
            birth = self.births(group)
            if replica_name(env.name, disk_of(env.name)) in birth:
                self.host.create(env, group, birth)
        self.host.step_over(env)

    def message(self, env: Env, source: str, message: Command) -> None:
        assert self.host.message(env, source, message)
        self.host.step_over(env)

    def timer(self, env: Env, name: str) -> None:
        assert self.host.timer(env, name)
        self.host.step_over(env)

    def done(self, env: Env, token: int) -> None:
        assert self.host.done(env, token)
        self.host.step_over(env)

    def closed(self, env: Env, peer: str) -> None:
        self.host.closed(env, peer)
        self.host.step_over(env)


def disk_of(node: str) -> int:
    """Each node's disk has one number for good: 10 and more."""
    return 10 + int(node[1:])


def replica_on(node: str) -> str:
    return replica_name(node, disk_of(node))


class Hosts(World):
    """Stores ``s0``, ``s1``, … with so many groups, each born on ``size`` of them. ``frames``: what was sent."""

    def __init__(
        self,
        seed: int,
        nodes: int,
        groups: int,
        *,
        size: int = 3,
        born_on: int | None = None,
        store: type[Store] = Store,
        **options: Any,
    ) -> None:
        self.groups = groups
        self.frames: list[tuple[int, str, str, Command]] = []
        self.lost = 0.0  # share of messages that break their connection
        told = RaftOptions(**{"heartbeat_ms": 50, "election_ms": 250, "snapshot_entries": 30, **options})
        names = [f"s{number}" for number in range(nodes)]

        def births(group: int) -> list[str]:
            among = born_on or nodes
            return [replica_on(names[(group + at) % among]) for at in range(size)]

        self.births = births
        super().__init__(seed, {name: lambda: store(groups, births, told) for name in names})

    def transmit(self, source: str, to: str, message: Command) -> None:
        self.frames.append((self.now, source, to, message))
        if self.lost and self.rng.random() < self.lost:
            self.cut(source, to)
        super().transmit(source, to, message)

    def replicas(self, group: int) -> dict[str, Replica]:
        """Replicas of a group on nodes that live, by node."""
        found = {name: self.nodes[name].host.member(group) for name in self.names() if name in self.envs}
        return {name: replica for name, replica in found.items() if replica is not None}

    def leader(self, group: int) -> str:
        """The node with the leader of the highest term; "" without one."""
        leads = [(it.term, name) for name, it in self.replicas(group).items() if it.is_leader]
        return max(leads)[1] if leads else ""

    def propose(self, group: int, value: str, then: Callable[[int], None], at: str = "") -> bool:
        """Have the leader propose; ``then`` gets the index, or -1."""
        node = at or self.leader(group)
        if not node:
            return False
        host, env = self.nodes[node].host, self.envs[node]
        host.propose(env, group, value.encode(), lambda env, outcome, index: then(index))
        host.step_over(env)
        return True

    def commit(self, group: int, value: str, ms: int = 1000) -> bool:
        """Whether it was committed within so long."""
        ends: list[int] = []
        self.propose(group, value, ends.append)
        self.run(ms, until=lambda: bool(ends))
        return any(index >= 0 for index in ends)

    def machines_of(self, node: str) -> dict[int, Listed]:
        """The state machines of a node, by group."""
        machines: dict[int, Listed] = self.nodes[node].machines
        return machines

    def applied(self, node: str, group: int) -> list[str]:
        return self.machines_of(node)[group].applied

    def change(self, group: int, change: str, name: str, ms: int = 1000) -> bool:
        """Add or remove a member, through the leader; whether that was committed within so long."""
        node, ends = self.leader(group), []
        host, env = self.nodes[node].host, self.envs[node]
        replica = host.member(group)
        assert not replica.why_no_change(), replica.why_no_change()
        made = replica.add_learner if change == "add" else replica.remove
        made(host.env_of(env, group), name, lambda env, outcome, index: ends.append(index))
        host.step_over(env)
        self.run(ms, until=lambda: bool(ends))
        return any(index >= 0 for index in ends)
