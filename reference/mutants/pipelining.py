"""Planted bugs of controllers that do many things at once: a gap, a repeated proposal, a window that never opens."""

from __future__ import annotations

from chaos.node import Disk, Env
from reference.mutants._planted import Planted
from reference.raft.log import Entry, RaftLog
from reference.raft.member import Raft
from reference.raft.policy import RaftPolicy


class FollowerReadsUnapplied(RaftPolicy):
    """A follower answers a read as soon as its leader has named the index, before it has applied that much."""

    def may_read_at(self, index: int) -> bool:
        return not self.state.is_leader or super().may_read_at(index)


class _GaplessLog(RaftLog):
    """What would leave a gap comes right behind the end."""

    def put(self, disk: Disk, index: int, entry: Entry) -> None:
        super().put(disk, min(index, self.last + 1), entry)


class SkipsGap(RaftPolicy):
    """A follower takes an append although the entries before it never came."""

    log_class = _GaplessLog

    def continues_log(self, previous: int, term: int) -> bool:
        return previous > self.log.last or super().continues_log(previous, term)

    def committed_here(self, index: int) -> int:
        return min(index, self.log.last)


class ProposesAgain(Raft):
    """An impatient leader: a proposal that two heartbeats have not seen committed is made once more."""

    _old: tuple[int, ...] = ()

    def _heartbeat(self, env: Env) -> None:
        super()._heartbeat(env)
        if self.is_leader:
            for index in self._old:
                if index in self.proposals and index >= self.log.first:
                    self.propose(env, self.log.entry(index).data, self.proposals.pop(index))
            self._old = tuple(self.proposals)


class WindowPerTerm(RaftPolicy):
    """What is under way is counted by the entries of the leader's term, and so never gets less."""

    def under_way(self) -> int:
        return self.log.last - self.state.term_start


class _TaillessLog(RaftLog):
    """A snapshot takes the place of the whole log, also of what it doesn't hold yet."""

    def compact(self, disk: Disk, index: int, snapshot: bytes) -> None:
        super().compact(disk, index, snapshot)
        self._entries.clear()
        self._next_file(disk)


class SnapshotDropsTail(RaftPolicy):
    log_class = _TaillessLog


MUTANTS = (
    Planted(
        name="follower-reads-unapplied",
        law="linearizable",
        stands_for="a follower read that asks for the read index and does not wait until it has applied it",
        parts={"controller": {"raft_policy": FollowerReadsUnapplied}},
        scenario="slow_catch_up",
    ),
    Planted(
        name="append-skips-a-gap",
        law="roles",
        stands_for="a pipelined append that overtakes a lost one: nobody looks at what comes before its entries",
        parts={"controller": {"raft_policy": SkipsGap}},
        scenario="slow_catch_up",
    ),
    Planted(
        name="snapshot-drops-the-tail",
        law="linearizable",
        stands_for="a compaction that removes entries which the snapshot doesn't hold",
        parts={"controller": {"raft_policy": SnapshotDropsTail}},
        scenario="controller_behind",
    ),
    Planted(
        name="proposes-again",
        law="linearizable",
        stands_for="a retry without a request's identity: what was only slow is logged twice, the second is refused",
        parts={"controller": {"raft": ProposesAgain}},
        scenario="slow_controllers",
    ),
    Planted(
        name="window-per-term",
        law="availability",
        stands_for="a window of proposals that is counted and never given back, so that a leader is busy for ever",
        parts={"controller": {"raft_policy": WindowPerTerm}},
        scenario="busy_controllers",
    ),
)
