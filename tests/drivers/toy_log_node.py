"""Nodes of the toy whose queues are logs, which share one memory: messages, transactions and groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chaos.node import Env
from chaos.plain import PlainMessage
from tests.drivers.toy import Memory, Node

QUEUES = 3
SESSION_S = 1.0
#: What may be planted, and what it does.
BUGS = {
    "aborted-readable": "messages of aborted transactions are read",
    "open-readable": "messages are read before their transaction has ended",
    "torn": "of a committed transaction only the messages in one queue are ever read",
    "offset-without-output": "offsets of a group count before their transaction has ended, and after it was aborted",
    "output-without-offset": "offsets that are committed in a transaction are forgotten",
    "fenced-writes": "a producer goes on writing and committing when its id has another owner",
    "hanging": "a transaction that the next owner finds open stays open",
    "stale-generation": "a member goes on committing offsets when its generation is over",
    "double-owner": "two members of a group are given the same queue",
    "elected-behind": "a replica is elected that lacks the last messages",
    "poll-skip": "of ten messages that a poll is to be given, one is left out",
}


@dataclass
class Entry:
    """``is_visible``: None while its transaction is open."""

    key: int
    body: str
    is_visible: bool | None = True


@dataclass
class Producer:
    """The owner of a transactional id. ``number``: of its last transaction; ``ended``: how that ended."""

    epoch: int = 0
    number: int = 0
    ended: bool | None = None
    open: list[tuple[int, Entry]] = field(default_factory=list)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)


@dataclass
class Group:
    """``heard_ns``: of each member, when. ``joined``: who is in the generation that is to begin; None while none is."""

    generation: int = 0
    heard_ns: dict[str, int] = field(default_factory=dict)
    joined: set[str] | None = None
    owned: dict[str, list[int]] = field(default_factory=dict)


@dataclass
class Logs(Memory):
    logs: list[list[Entry]] = field(default_factory=lambda: [[] for _ in range(QUEUES)])
    committed: dict[tuple[str, int], int] = field(default_factory=dict)
    producers: dict[str, Producer] = field(default_factory=dict)
    members: dict[str, Group] = field(default_factory=dict)


class LogNode(Node):
    def __init__(self, memory: Logs, bug: str) -> None:
        super().__init__(memory)
        self._logs = memory
        self._bug = bug
        self._now_ns = 0

    def message(self, env: Env, source: str, message: PlainMessage) -> None:
        self._now_ns = env.mono_ns()
        super().message(env, source, message)

    # Queues

    def take(self, queue: int, key: str, body: str) -> tuple[int, str]:
        """Return the message's offset, and who leads."""
        if self._bug == "elected-behind" and len(self._logs.logs[queue]) % 50 == 49:
            self.switch("node-1" if self._logs.leader == "node-0" else "node-0")
            del self._logs.logs[queue][-3:]
        return self.append(queue, key, body), self._logs.leader

    def append(self, queue: int, key: str, body: str) -> int:
        self._logs.logs[queue].append(Entry(int(key, 16), body))
        self._logs.hits += bool(self._logs.rule)
        return len(self._logs.logs[queue]) - 1

    def read_on(self, positions: Mapping[str, int], limit: int) -> dict[str, Any]:
        """Read on from positions, by queue, up to the first message whose transaction is open; another queue comes
        first as they go on."""
        found: list[list[Any]] = []
        following, ends = dict(positions), {}
        first = sum(positions.values()) % max(1, len(positions))
        for queue in [*positions, *positions][first : first + len(positions)]:
            log = self._logs.logs[int(queue)]
            is_open = [entry.is_visible is None and self._bug != "open-readable" for entry in log]
            ends[queue] = end = [*is_open, True].index(True)
            while (at := following[queue]) < end and len(found) < limit:
                following[queue] = at + 1
                if log[at].is_visible is not False:
                    found.append([int(queue), at, log[at].key, log[at].body])
        return {"found": found, "following": following, "ends": ends}

    def poll(self, positions: Mapping[str, int], limit: int) -> dict[str, Any]:
        got = self.read_on(positions, limit)
        if self._bug == "poll-skip":
            got["found"] = [one for one in got["found"] if one[1] % 10 != 5]
        return got

    def store(self, group: str, offsets: Mapping[str, int]) -> None:
        self._logs.committed.update({(group, int(queue)): offset for queue, offset in offsets.items()})

    def stored(self, group: str, queue: int) -> int:
        return self._logs.committed.get((group, queue), -1)

    # Transactions

    def take_over(self, id: str) -> int:
        owner = self._logs.producers.setdefault(id, Producer())
        if self._bug == "hanging":
            owner.open.clear()
        self._finish(owner, commit=False)
        owner.epoch, owner.number = owner.epoch + 1, 0
        return owner.epoch

    def _owner(self, id: str, epoch: int) -> Producer | None:
        owner = self._logs.producers.get(id)
        return owner if owner and (owner.epoch == epoch or self._bug == "fenced-writes") else None

    def begin(self, id: str, epoch: int, number: int) -> bool:
        if owner := self._owner(id, epoch):
            owner.number, owner.ended = number, None
        return owner is not None

    def append_in(self, id: str, epoch: int, queue: int, key: str, body: str) -> int:
        owner = self._owner(id, epoch)
        if owner is None:
            return -1
        at = self.append(queue, key, body)
        entry = self._logs.logs[queue][at]
        entry.is_visible = None
        owner.open.append((queue, entry))
        return at

    def store_in(self, id: str, epoch: int, group: str, offsets: Mapping[str, int]) -> bool:
        owner = self._owner(id, epoch)
        if owner:
            owner.offsets |= {(group, int(queue)): offset for queue, offset in offsets.items()}
            if self._bug == "offset-without-output":
                self.store(group, offsets)
        return owner is not None

    def end(self, id: str, epoch: int, number: int, commit: bool) -> bool:
        """Return whether the transaction has ended so."""
        owner = self._owner(id, epoch)
        if owner is None or (owner.number == number and owner.ended is (not commit)):
            return False
        self._finish(owner, commit=commit)
        return True

    def _finish(self, owner: Producer, *, commit: bool) -> None:
        queues = [queue for queue, _ in owner.open]
        for queue, entry in owner.open:
            is_torn = self._bug == "torn" and queue != queues[0]
            entry.is_visible = (commit and not is_torn) or (not commit and self._bug == "aborted-readable")
        if commit and self._bug != "output-without-offset":
            self._logs.committed.update(owner.offsets)
        owner.open.clear()
        owner.offsets.clear()
        owner.ended = commit

    # Groups: all members join each generation, and give their queues back by that

    def _group(self, group: str) -> Group:
        """Return a group, without the members that were silent for too long."""
        known = self._logs.members.setdefault(group, Group())
        silent = [name for name, ns in known.heard_ns.items() if self._now_ns - ns > SESSION_S * 1e9]
        for name in silent:
            self._remove(known, name)
        return known

    def _remove(self, group: Group, member: str) -> None:
        del group.heard_ns[member]
        group.joined = (group.joined or set()) - {member}
        self._complete(group)

    def _complete(self, group: Group) -> None:
        """Begin a generation if all members have joined it."""
        if group.joined != {*group.heard_ns}:
            return
        group.generation, group.joined = group.generation + 1, None
        names = sorted(group.heard_ns)
        group.owned = {name: [at for at in range(QUEUES) if at % len(names) == n] for n, name in enumerate(names)}
        if self._bug == "double-owner" and len(names) > 1:
            group.owned[names[0]] = sorted({*group.owned[names[0]], *group.owned[names[1]][:1]})

    def join(self, group: str, member: str) -> dict[str, Any]:
        known = self._group(group)
        known.heard_ns[member] = self._now_ns
        known.joined = {*(known.joined or ()), member}
        self._complete(known)
        return self._told(group, known, member)

    def heartbeat(self, group: str, member: str) -> dict[str, Any] | None:
        known = self._group(group)
        if member not in known.heard_ns:
            return None
        known.heard_ns[member] = self._now_ns
        return self._told(group, known, member)

    def _told(self, name: str, group: Group, member: str) -> dict[str, Any]:
        is_waiting = group.joined is not None and member in group.joined
        queues = [] if is_waiting else group.owned.get(member, [])
        told: dict[str, Any] = {"queues": queues, "generation": group.generation}
        if group.joined is not None and not is_waiting:
            told["rejoin"] = True
        return {**told, "stored": {str(queue): max(0, self.stored(name, queue)) for queue in queues}}

    def store_of_member(self, group: str, member: str, generation: int, offsets: Mapping[str, int]) -> bool:
        known = self._group(group)
        is_current = member in known.heard_ns and generation == known.generation
        if is_current or self._bug == "stale-generation":
            self.store(group, offsets)
        return is_current or self._bug == "stale-generation"

    def leave(self, group: str, member: str) -> None:
        known = self._group(group)
        if member in known.heard_ns:
            self._remove(known, member)
