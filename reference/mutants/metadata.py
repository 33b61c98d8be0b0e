"""Planted bugs of the controllers: what they say of their metadata is stale, or was never agreed on."""

from __future__ import annotations

from reference.mutants._planted import Planted
from reference.raft import Raft, Read
from reference.replicas import Group, Replicas

LAZY_NS = 200_000_000


class LocalRead(Raft):
    """Every controller answers reads from what it has applied itself, however old that is."""

    def reads_locally(self) -> bool:
        return True


class ReadWithoutQuorum(Raft):
    """A leader answers reads because it believes to lead, without hearing a majority."""

    def read_is_safe(self, read: Read) -> bool:
        return True


class VotesTwice(Raft):
    """A vote binds nobody: whoever asks in a term and is up to date gets it."""

    def may_vote(self, candidate: str, term: int, last_index: int, last_term: int) -> bool:
        return self.is_up_to_date(last_index, last_term)


class SetEpochNotCompared(Replicas):
    """A change of a set is accepted from whoever knows the master's epoch: of two at once, one is lost."""

    def is_current(self, group: Group, master_epoch: int, set_epoch: int) -> int:
        return super().is_current(group, master_epoch, group.set_epoch)


MUTANTS = (
    Planted(
        name="local-read",
        law="linearizable",
        stands_for="reads of a replicated state machine from any member: etcd's serializable reads, ZooKeeper's reads",
        parts={"controller": {"raft": LocalRead}},
        scenario="register",
    ),
    Planted(
        name="read-without-quorum",
        law="linearizable",
        stands_for="etcd before 2.0's quorum reads and Consul's default mode: a deposed leader answers what it remembers",
        parts={"controller": {"raft": ReadWithoutQuorum}},
        scenario="register",
    ),
    Planted(
        name="votes-twice",
        law="linearizable",
        stands_for="a vote that is forgotten (RethinkDB 2.1 across a reconfiguration, Raft without a durable vote)",
        parts={"controller": {"raft": VotesTwice}},
        scenario="two_leaders",
    ),
    Planted(
        name="set-epoch-not-compared",
        law="linearizable",
        stands_for="a compare-and-set that compares before it is ordered: lost updates of the SyncStateSet",
        parts={"controller": {"replicas": SetEpochNotCompared}},
        scenario="register",
    ),
)
