"""Planted bugs of the controllers: what they say of their metadata is stale, or was never agreed on."""

from __future__ import annotations

from chaos.node import Disk, Env
from reference.controller.replicas import Group, Replicas
from reference.mutants._planted import Planted
from reference.raft.leading import Leading
from reference.raft.log import RaftLog
from reference.raft.member import Raft
from reference.raft.policy import RaftPolicy
from reference.raft.read_index import Read

#: Of so many times that a lazy log is asked to sync, it does once.
LAZY = 200


class LocalRead(RaftPolicy):
    """Every controller answers reads from what it has applied itself, however old that is."""

    def reads_locally(self) -> bool:
        return True


class ReadWithoutQuorum(RaftPolicy):
    """A leader answers reads because it believes to lead, without hearing a majority."""

    def read_is_safe(self, read: Read) -> bool:
        return True


class LeaseOverClockJump(RaftPolicy):
    """A lease ends by the wall clock: one that goes back makes it longer."""

    def lease_clock_ns(self, env: Env) -> int:
        return env.wall_ns()


class VotesTwice(RaftPolicy):
    """A vote binds nobody: every candidate that asks in a term and is up to date gets it."""

    def may_vote(self, candidate: str, term: int, last_index: int, last_term: int) -> bool:
        return self.is_up_to_date(last_index, last_term)


class DesertsLeader(RaftPolicy):
    """A member that asks for votes in a later term is followed into it, however lately the leader was heard."""

    def leader_is_fresh(self, env: Env) -> bool:
        return False


class _NothingOfItsOwn(Leading):
    def begin_term(self, env: Env) -> None:
        for name, peer in self.state.peers.items():
            self.sender.send_next(env, name, peer)
        self.state.term_start = self.state.log.last


class _AnyTermCommits(RaftPolicy):
    def may_commit(self, index: int) -> bool:
        return True


class CommitsEarlierTerm(Raft):
    """No entry begins a leader's term. So it counts replicas of what earlier terms have left, and commits that."""

    leading_class = _NothingOfItsOwn


class _LazyLog(RaftLog):
    """Syncs its disk only now and then."""

    _asked = 0

    def sync(self, disk: Disk) -> int | None:
        self._asked += 1
        return super().sync(disk) if self._asked % LAZY == 1 else None


class PromisesBeforeFsync(RaftPolicy):
    """Entries count, and are acknowledged, while only memory holds them."""

    log_class = _LazyLog

    def own_match(self) -> int:
        return self.log.last

    def answer_token(self, env: Env) -> int | None:
        self.log.sync(env.disk)
        return None


class SetEpochNotCompared(Replicas):
    """A change of a set is accepted from all who know the master's epoch: of two at once, one is lost."""

    def is_current(self, group: Group, master_epoch: int, set_epoch: int) -> int:
        return super().is_current(group, master_epoch, group.set_epoch)


MUTANTS = (
    Planted(
        name="local-read",
        law="linearizable",
        stands_for="reads of a replicated state machine from any member: etcd's serializable reads, ZooKeeper's reads",
        parts={"controller": {"raft_policy": LocalRead}},
        scenario="register",
    ),
    Planted(
        name="read-without-quorum",
        law="linearizable",
        stands_for="Consul's default mode and etcd before quorum reads: a deposed leader answers what it remembers",
        parts={"controller": {"raft_policy": ReadWithoutQuorum}},
        scenario="register",
    ),
    Planted(
        name="lease-over-a-clock-jump",
        law="linearizable",
        stands_for="leases by the wall clock, which somebody sets back: a deposed leader answers for as long",
        parts={"controller": {"raft_policy": LeaseOverClockJump}},
        scenario="lease_reads",
    ),
    Planted(
        name="votes-twice",
        law="linearizable",
        stands_for="members that forget their vote and vote again (RethinkDB 2.2.3 across a reconfiguration)",
        parts={"controller": {"raft_policy": VotesTwice}},
        scenario="split_vote",
    ),
    Planted(
        name="deserts-leader",
        law="controllers",
        stands_for="Raft as in its paper, without the thesis' 4.2.3: who comes back deposes a leader that all hear",
        parts={"controller": {"raft_policy": DesertsLeader}},
        scenario="double_votes",
        seed=3,
    ),
    Planted(
        name="commits-earlier-term",
        law="roles",
        stands_for="figure 8 of Raft's paper: an entry of an earlier term is on a majority, and may still be replaced",
        parts={"controller": {"raft": CommitsEarlierTerm, "raft_policy": _AnyTermCommits}},
        scenario="entries_of_earlier_terms",
    ),
    Planted(
        name="promises-before-fsync",
        law="linearizable",
        stands_for="a Raft log in the page cache (etcd's unsafe-no-fsync): a power cut takes what was agreed on",
        parts={"controller": {"raft_policy": PromisesBeforeFsync}},
        scenario="controller_crash",
    ),
    Planted(
        name="set-epoch-not-compared",
        law="linearizable",
        stands_for="a compare-and-set that compares before it is ordered: lost updates of the SyncStateSet",
        parts={"controller": {"replicas": SetEpochNotCompared}},
        scenario="register",
    ),
)
