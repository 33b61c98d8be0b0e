"""Planted bugs of what controllers agree on, and of how they serve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chaos.node import Env
from reference.broker.replication import ReplicatedBroker, Replication
from reference.broker.slave_replication import SlaveReplication
from reference.controller.heartbeats import Gathered
from reference.controller.liveness import Heartbeat
from reference.controller.node import Controller
from reference.mutants._planted import NODE, Planted
from reference.raft.log import RaftLog
from reference.raft.member import Raft
from reference.raft.members import Members
from reference.raft.membership import Membership
from reference.raft.policy import RaftPolicy
from reference.raft.state_machine import Proposed
from reference.raft.storage.wal import Wal


class HeartbeatsKept(Gathered):
    """A follower gathers heartbeats, and never passes them on to the leader."""

    def add(self, address: str, heartbeat: Heartbeat) -> bool:
        super().add(address, heartbeat)
        return False


class VotesOnArrival(RaftPolicy):
    """Who joins has a vote at once, with an empty log."""

    def with_newcomer(self, members: Members, name: str) -> Members:
        return members.with_voter(name)


class _Unsent(Membership):
    def add(self, env: Env, name: str, then: Proposed) -> None:
        super().add(env, name, then)
        if name in self.state.peers:
            self.state.peers[name].next = self.state.log.last + 1


class JoinsUnsent(Raft):
    """Who joins is believed to have the entry by which it does, so nothing is sent to it before the next heartbeat."""

    membership_class = _Unsent


class BrokenConnectionsIgnored(Controller):
    """Who lost its connection is waited for like one that is only silent."""

    def closed(self, env: Env, peer: str) -> None:
        self.raft.closed(env, peer)


class HeartbeatsUnacknowledged(SlaveReplication):
    """A slave acknowledges records, and no heartbeats: with nothing to replicate it counts as behind."""

    _last_ack = -1

    def _ack(self, env: Env) -> None:
        if self._policy.may_ack() > self._last_ack:
            self._last_ack = self._policy.may_ack()
            super()._ack(env)

    def start(self, env: Env, master: str) -> None:
        self._last_ack = -1
        super().start(env, master)


class WithHeartbeatsUnacknowledged(Replication):
    def __init__(self, broker: ReplicatedBroker, options: Mapping[str, Any]) -> None:
        super().__init__(broker, options)
        self.slave = HeartbeatsUnacknowledged(broker, self)


class ReadsAskedForByTheNext(RaftPolicy):
    """Reads that come to a follower while it asks for an index wait until another read makes it ask again."""

    def asks_again(self) -> bool:
        return False


class _HoardingWal(Wal):
    """Keeps each file that a newer one has replaced."""

    def remove(self, env: Env, paths: Iterable[str]) -> None: ...


class _HoardingLog(RaftLog):
    wal_class = _HoardingWal


class FilesKept(RaftPolicy):
    """A controller's disk holds each log and each snapshot that there ever was."""

    log_class = _HoardingLog


MUTANTS = (
    Planted(
        name="heartbeats-kept",
        law="controllers",
        stands_for="living brokers that a controller's leader takes for dead: masters are replaced without a need",
        parts={"controller": {"gathered": HeartbeatsKept}},
        scenario="heartbeats_in_turn",
    ),
    Planted(
        name="broken-connections-ignored",
        law="controllers",
        stands_for="a dead master that is replaced only after its patience, although its connection has ended",
        parts={"controller": {NODE: BrokenConnectionsIgnored}},
        scenario="idle_then_master_crash",
    ),
    Planted(
        name="idle-counts-as-behind",
        law="controllers",
        stands_for="replicas that look behind when nobody sends anything: the ISR of a quiet group shrinks and grows",
        parts={"broker": {"replication": WithHeartbeatsUnacknowledged}},
        scenario="idle_then_master_crash",
    ),
    Planted(
        name="votes-on-arrival",
        law="controllers",
        stands_for="a controller with an empty log that counts for majorities: it helps to forget what was agreed on",
        parts={"controller": {"raft_policy": VotesOnArrival}},
        scenario="single_voter",
    ),
    Planted(
        name="joins-unsent",
        law="controllers",
        stands_for="a member that is added and forgotten until something else is sent: no majority counts on it",
        parts={"controller": {"raft": JoinsUnsent}},
        scenario="idle_controller_join",
    ),
    Planted(
        name="reads-asked-for-by-the-next",
        law="controllers",
        stands_for="a request that waits in a queue which only the next request empties",
        parts={"controller": {"raft_policy": ReadsAskedForByTheNext}},
        scenario="rare_register_reads",
    ),
    Planted(
        name="files-kept",
        law="controllers",
        stands_for="logs and snapshots that nobody removes, until the disk of a controller is full",
        parts={"controller": {"raft_policy": FilesKept}},
        scenario="log_compaction",
    ),
)
