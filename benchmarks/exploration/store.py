"""A member of one group of a storage cluster: a node with nothing but a host of that group, and the store's state
machine. What is proposed are fences, appends, seals and members.

What must hold besides Raft's laws: a voter has the bytes of each sealed segment (no object store has any here), and its
disk has those of each segment that the snapshot on it names (R4); every member has the hashes that a SEAL gives; and
appends are those of the owner that was fenced last, one behind the other.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from benchmarks.exploration.disk import ModelDisk
from benchmarks.exploration.env import Member, ModelEnv, Proposal, node_env
from benchmarks.exploration.event import Applied, Event, Facts
from benchmarks.exploration.group_entries import GROUP, entry_of, in_words
from benchmarks.exploration.member import held_key, raft_key, unsynced
from benchmarks.exploration.store_disk import SmallWal, content_key, contents_of, is_whole, lacks
from chaos.node import Env
from reference.raft.log import RaftLog
from reference.raft.options import RaftOptions
from reference.raft.peer import Peer
from reference.raft.state_machine import StateMachine
from reference.split.hosting import Host
from reference.split.hosting.bundles import GroupMessage, node_of
from reference.split.hosting.group_env import GroupEnv
from reference.split.hosting.replica import Replica, ReplicaPolicy
from reference.split.names import replica_name
from reference.split.segments import digest_of
from reference.split.store.group import Outcome
from reference.split.store.group_snapshot import snapshot_of
from reference.split.store.machine import GroupMachine
from reference.split.store.sealing import Sealing
from reference.split.store.segment_files import SegmentFiles
from reference.wire.command import Command

#: The members by birth.
BIRTH = tuple(replica_name(node, 1) for node in ("a", "b", "c"))


class Machine(GroupMachine):
    """The store's, which notes what it does."""

    def apply(self, env: Env, index: int, term: int, data: bytes) -> Outcome | None:
        outcome = super().apply(env, index, term, data)
        node = node_env(env)
        raft = node.member.raft()
        assert raft is not None
        entry = raft.log.entry(index)
        node.did.applied.append(Applied(index, (entry.term, entry.data), self.state(), in_words(data, outcome)))
        return outcome

    def restore(self, env: Env, snapshot: bytes) -> None:
        super().restore(env, snapshot)
        node = node_env(env)
        raft = node.member.raft()
        assert raft is not None
        node.did.restored.append((raft.log.snapshot_index, self.state()))

    def state(self) -> str:
        """Return a hash over all that the group has."""
        return digest_of(b"".join(snapshot_of(self.group)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a member is made of. ``snapshot_entries``: after so many entries there is a snapshot."""

    host: type[Host] = Host
    policy: type[ReplicaPolicy] = ReplicaPolicy
    machine: type[Machine] = Machine
    sealing: type[Sealing] = Sealing
    knows_disks: bool = True
    snapshot_entries: int = 1_000_000


class Store(Member):
    """Implements :class:`reference.split.hosting.Machines`, too."""

    def __init__(self, parts: Parts, name: str) -> None:
        self.name, self._parts = name, parts
        self._disk = 1
        self._files = SegmentFiles()
        options = RaftOptions(append_entries=1, snapshot_entries=parts.snapshot_entries)
        self._host = parts.host(self, options, policy=parts.policy, wal=SmallWal)
        self._machine: Machine | None = None

    # What a host asks

    def is_group(self, number: int) -> bool:
        return number == GROUP

    def make_machine(self, group: int) -> StateMachine:
        self._machine = self._parts.machine(group, self._files)
        return self._machine

    def removed(self, env: Env, group: int) -> None:
        assert self._machine is not None
        self._machine.forget(env)
        self._machine = None

    # Steps

    def start(self, env: ModelEnv) -> None:
        """Begin with what is on the disk. Meta knows it from the one before, unless ``knows_disks`` is false."""
        self._disk = env.disk.number if self._parts.knows_disks else 1
        self._files.begin(env)
        self._host.start(env, self._disk)
        if replica_name(self.name, self._disk) in BIRTH:
            self._host.create(env, GROUP, BIRTH)
        while not self._files.is_checked:
            self._files.go_on(env, lambda group: self._host.env_of(env, group))

    def raft(self) -> Replica | None:
        return self._host.member(GROUP)

    def raft_env(self, env: ModelEnv) -> GroupEnv:
        return self._host.env_of(env, GROUP)

    def message(self, env: ModelEnv, peer: str, message: Command) -> None:
        self._host.message(env, peer, message)

    def synced(self, env: ModelEnv, token: int) -> None:
        self._host.done(env, token)

    def closed(self, env: ModelEnv, peer: str) -> None:
        self._host.closed(env, peer)

    def step_over(self, env: ModelEnv) -> None:
        self._host.step_over(env)

    def propose(self, env: ModelEnv, event: Event) -> None:
        """Propose ``fence EPOCH``, ``append EPOCH PLACE`` (the place among records of one size), ``seal``, or that a
        store ``join``s or that its replica is ``remove``d."""
        replica, own = self.raft(), self.raft_env(env)
        assert replica is not None and self._machine is not None
        kind, _, rest = event.word.partition(" ")
        members = replica.members
        if kind == "join":
            if event.peer not in members.all:
                replica.add_learner(own, event.peer, ended)
        elif kind == "remove":
            name = next((one for one in members.all if node_of(one) == rest and one != replica.name), "")
            if name and members.without(name).voters:
                replica.remove(own, name, ended)
        elif kind == "seal":
            group = self._machine.group
            if group.end > group.sealed:
                seal = self._parts.sealing(1, 1).seal_of(group, 0)
                replica.propose(own, seal.encode(), Proposal(seal.encode()))
        else:
            data = entry_of(event.word)
            replica.propose(own, data, Proposal(data))

    # What it is

    def facts(self, env: ModelEnv) -> Facts:
        replica = self.raft()
        own: dict[str, Any] = {"replica": replica_name(self.name, self._disk), "syncing": bool(env.disk.syncs)}
        own["unsynced"] = unsynced(env.disk)
        if replica is None:
            return Facts(term=0, leads=False, leader="", log=(), **own)
        log = replica.log
        entries = log.slice(log.first, max_bytes=1 << 30, max_count=1 << 30)
        return Facts(
            term=replica.term,
            leads=replica.is_leader,
            leader=node_of(replica.leader),
            log=(None,) * log.snapshot_index + tuple((entry.term, entry.data) for entry in entries),
            may_change_members=not replica.why_no_change(),
            wrong=self._wrong(env.disk, replica),
            **own,
        )

    def _wrong(self, disk: ModelDisk, replica: Replica) -> str:
        machine = self._machine
        assert machine is not None
        if machine.is_damaged:
            return "has sealed other bytes than the SEAL says"
        for segment in machine.group.segments if replica.is_voter else ():
            if not is_whole(disk.files, segment):
                return f"votes without the bytes of {segment.key}"
        return next((wrong for wrong in map(lacks, contents_of(disk)) if wrong), "")

    def key(self, env: ModelEnv, facts: Facts) -> Hashable:
        replica, disk = self.raft(), env.disk
        contents = tuple(map(content_key, contents_of(disk)))
        if replica is None:
            return self._disk, self._host_key(), tuple(sorted(held_key(env))), contents
        own, machine, log = self.raft_env(env), self._machine, replica.log
        assert machine is not None
        of_group = machine.state(), machine._is_freshly_sealed, machine.is_damaged, tuple(machine._unsafe)
        return (
            (self._disk, self._host_key(), tuple(sorted(held_key(env))), contents, raft_key(replica, own, facts)),
            (log.snapshot_index, log.snapshot_term, digest_of(log.snapshot), log.members, log.wal.is_touched(log)),
            (replica.memberships.beginning, tuple(replica.memberships._known), replica._committed),
            (of_group, tuple(_peer_key(peer) for peer in replica.peers.values()), self._incoming_key(replica)),
        )

    def _host_key(self) -> Hashable:
        """Return what the host and the files hold back, syncs by how many batches ago they were begun."""
        shared, files = self._host._shared, self._files
        syncs = shared.syncs
        messages = tuple(
            ((syncs.batch - batch if batch else 0), to, tuple(map(_message_key, gathered)))
            for (batch, to), gathered in shared.messages.items()
        )
        logs = [log for log in self._host.wal.logs.values() if isinstance(log, RaftLog)]
        running = tuple((syncs.batch - token, last) for log in logs for token, last in log._running.items())
        writing = tuple((syncs.batch - token, tuple(written)) for (_, token), written in files._syncs.items())
        return (
            (syncs.is_under_way, tuple(syncs._paths), tuple(syncs._groups), messages, running, writing),
            (tuple(files.held), tuple(files._writing), tuple(files._unwritten), tuple(files._unchecked)),
        )

    def _incoming_key(self, replica: Replica) -> Hashable:
        incoming, syncs = replica.snapshots.incoming, self._host._shared.syncs
        if incoming is None:
            return None
        preparing = None if incoming.preparing is None else syncs.batch - incoming.preparing
        return incoming.index, incoming.term, incoming.size, bytes(incoming.held), preparing


def ended(env: Env, outcome: object, index: int) -> None:
    """Do nothing: who asks for another membership sees it in the log."""


def _message_key(gathered: GroupMessage) -> Hashable:
    return gathered.code, tuple(gathered.numbers.items()), gathered.body


def _peer_key(peer: Peer) -> Hashable:
    sending, catch_up = peer.sending, peer.catch_up
    return (
        None if sending is None else (sending.index, sending.term, sending.offset, digest_of(sending.snapshot)),
        peer.is_far_behind,
        None if catch_up is None else catch_up.end,
    )
