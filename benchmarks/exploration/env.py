"""A member, and what it sees of the world: no time, a disk, and messages that leave when syncs have ended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from benchmarks.exploration.disk import ModelDisk
from benchmarks.exploration.event import Done, Event, Facts
from chaos import events
from chaos.node import NOWHERE, Address, Env
from reference.raft.applying import APPLY
from reference.raft.member import Raft
from reference.wire.command import Command


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
