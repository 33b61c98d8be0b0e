"""Planted bugs of the many Raft groups on one store: their beats, the file that they share, and a disk that is lost."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.node import Disk
from reference.mutants._planted import Planted
from reference.raft.membership import Membership
from reference.raft.read_index import Read
from reference.raft.storage.records import Log, Record
from reference.raft.storage.rewriting import Rewriting
from reference.raft.storage.wal import Wal
from reference.split.hosting import Host
from reference.split.hosting.beats import Beat
from reference.split.hosting.replica import Replica, ReplicaPolicy
from reference.split.meta.state import ClusterState
from reference.split.names import Store


class HeartbeatForAllGroups(Host):
    """A frame from a node is a word of each leader that is known there, also of those that lead no more."""

    def renewed_by(self, source: str, beats: Sequence[Beat]) -> Sequence[Beat]:
        listed = {beat.group for beat in beats}
        led = [group for group, its in self.replicas.items() if its.leader == source and group not in listed]
        return [*beats, *(Beat(group, self.replicas[group].term, 0, 0) for group in led)]


class _BehindTheTail(Rewriting):
    """What a log held when it was copied is written once more at the end, behind what came since then: it replaces
    that."""

    def __init__(self, file: int, logs: dict[int, Log]) -> None:
        super().__init__(file, logs)
        self._copied: list[Record] = []

    def copy(self, disk: Disk, log: Log) -> None:
        super().copy(disk, log)
        self._copied += [(log.number, kind, payload) for kind, payload in log.live()]

    def seal(self, disk: Disk) -> None:
        self.write(disk, self._copied)
        super().seal(disk)


class RewriteCutsTheTail(Wal):
    rewriting_class = _BehindTheTail


class _NeverWaits(Membership):
    """The next change of members begins although nobody knows whether the one before will ever be committed."""

    def must_wait(self, index: int) -> bool:
        return False


class MemberOutWithTheData(Replica):
    """A leader without a majority takes members in and puts others out, until those that are left are one."""

    membership_class = _NeverWaits


class WipedStoreVotes(ClusterState):
    """A store whose disk is empty is the one that was known by its name."""

    def is_same_disk(self, store: Store, word: str) -> bool:
        return True


class LeaseWithoutQuorum(ReplicaPolicy):
    """A leader renews its lease by itself: it leads, and its reads are safe, however long no majority has answered."""

    def hears_majority(self, now_ns: int) -> bool:
        return True

    def read_is_safe(self, read: Read) -> bool:
        return True


MUTANTS = (
    Planted(
        name="wiped-store-votes",
        law="groups",
        stands_for="bookkeeper #2612: a bookie that lost its disk answers that it has nothing, and is counted",
        parts={"meta": {"state": WipedStoreVotes}},
        scenario="seal_and_lose",
    ),
    Planted(
        name="heartbeat-for-all-groups",
        law="availability",
        stands_for="cockroach #315: one heartbeat for a pair of nodes keeps stale leaders of single groups alive",
        parts={"store": {"host": HeartbeatForAllGroups}},
        scenario="leader_restarts",
    ),
    Planted(
        name="rewrite-cuts-the-tail",
        law="groups",
        stands_for="a collection of a shared log that writes old entries behind newer ones, and so cuts these off",
        parts={"store": {"wal": RewriteCutsTheTail}},
        scenario="rewritten_files",
    ),
    Planted(
        name="member-out-with-the-data",
        law="groups",
        stands_for="nats-server #7545: a minority puts out the members that have what was acknowledged",
        parts={"store": {"replica": MemberOutWithTheData}},
        scenario="drain_and_cut",
    ),
    Planted(
        name="lease-without-quorum",
        law="no-rollback",
        stands_for="openraft #1899: a leader that no majority has answered lately goes on with reads under its lease",
        parts={"store": {"policy": LeaseWithoutQuorum}},
        scenario="minority_reads",
    ),
)
