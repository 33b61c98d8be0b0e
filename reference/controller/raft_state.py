"""What a member of Raft knows, and the decisions that it rests on, each in a small method of its own.

Raft's code stands in layers, a concept each; a layer builds on the ones before it: this state, reads
(:mod:`~reference.controller.raft_reads`), elections (:mod:`~reference.controller.raft_election`), replication
(:mod:`~reference.controller.raft_replication`), snapshots (:mod:`~reference.controller.raft_snapshots`), the transfer
of leadership (:mod:`~reference.controller.raft_transfer`), changes of the membership
(:mod:`~reference.controller.raft_membership`), and the member as a whole (:mod:`~reference.controller.raft`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from chaos import events
from chaos.node import ONEWAY, Env, Message
from reference.controller.raft_log import Entry, RaftLog
from reference.controller.raft_members import Members, Memberships
from reference.controller.raft_messages import marked
from reference.controller.raft_options import RaftOptions
from reference.controller.raft_peer import Peer
from reference.controller.read_index import Lease, Questions, Read, Readable, Rounds
from reference.controller.state_machine import Proposed, StateMachine
from reference.wire.codes import Request

FOLLOWER, CANDIDATE, LEADER = "follower", "candidate", "leader"

#: Reads that may wait on one member.
MAX_READS = 10_000


@dataclass(slots=True)
class Ballot:
    """Votes gathered for ``term``; ``pre``: only asked whether an election could be won. ``tip``: the file of the log
    that holds the candidate's own vote, and how long that file was with it."""

    term: int
    pre: bool
    tip: tuple[str, int]
    granted: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Vote:
    """A vote that was given. ``tip``: the file of the log that holds it, and how long that file was with it."""

    term: int
    candidate: str
    tip: tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """What a leader gives ``target`` until ``deadline_ns`` to take over; ``then`` is told whether it does."""

    target: str
    deadline_ns: int
    then: Callable[[Env, bool], None]


class RaftState:
    """State and policy of one member."""

    def __init__(self, name: str, members: Sequence[str], machine: StateMachine, options: RaftOptions) -> None:
        self.name = name
        self._memberships = Memberships(members)
        self.machine = machine
        self.role = FOLLOWER
        self.leader = ""
        self.commit = 0
        self.applied = 0
        self.log = RaftLog()
        self._heartbeat_ns = options.heartbeat_ms * 1_000_000
        self._election_ns = options.election_ms * 1_000_000
        self._snapshot_entries = options.snapshot_entries
        self._window = options.window
        self._append_entries = options.append_entries
        self._max_in_flight = options.in_flight
        self._piece_bytes = options.piece_bytes
        self.cluster_id = options.cluster_id
        self._peers: dict[str, Peer] = {}
        self._ballot: Ballot | None = None
        self._elected_by: tuple[str, ...] = ()  # who voted for it in the last election that it won
        self._untold_votes: list[tuple[int, Vote]] = []  # not traced yet: the sync that each waits for
        self._leader_heard_ns: int | None = None
        self._deadline_ns = 0
        self._proposals: dict[int, Proposed] = {}
        self._term_start = 0  # index of the no-op of a leader's term
        self._rounds = Rounds()
        self._lease = Lease(options.lease_ms * 1_000_000)
        self._questions = Questions()
        self._transfer: Transfer | None = None
        self._waiting: list[tuple[int, Readable]] = []  # safe once this index is applied
        self._announced = ("", "", -1)

    @property
    def term(self) -> int:
        return self.log.term

    @property
    def members(self) -> Members:
        """Who belongs to the group, by the newest entry of this log that says so."""
        return self._memberships.current

    @property
    def others(self) -> tuple[str, ...]:
        """The other members, learners too."""
        return tuple(member for member in self.members.all if member != self.name)

    @property
    def is_voter(self) -> bool:
        return self.name in self.members.voters

    @property
    def is_leader(self) -> bool:
        return self.role == LEADER

    @property
    def leads_committed(self) -> bool:
        """Leader, and everything that earlier leaders committed has been applied here."""
        return self.role == LEADER and self.applied >= self._term_start

    @property
    def has_room(self) -> bool:
        """Whether a client's proposal fits into the window."""
        return self.under_way() < self._window

    @property
    def is_handing_over(self) -> bool:
        """Whether this leader takes no proposals, so that another member can catch up with it and lead."""
        return self._transfer is not None

    @property
    def can_read(self) -> bool:
        """Whether one more read may wait here."""
        return len(self._rounds) + len(self._questions) + len(self._waiting) < MAX_READS

    # Policy

    def under_way(self) -> int:
        """How many proposals there are whose outcome isn't known yet."""
        return len(self._proposals)

    def may_vote(self, candidate: str, term: int, last_index: int, last_term: int) -> bool:
        """Whether to vote for a candidate of our own, current term."""
        return self.log.vote in ("", candidate) and self.is_up_to_date(last_index, last_term)

    def is_up_to_date(self, last_index: int, last_term: int) -> bool:
        return (last_term, last_index) >= (self.log.last_term, self.log.last)

    def may_commit(self, index: int) -> bool:
        """Only entries of the leader's own term are committed by counting; earlier ones follow with them."""
        return self.log.term_at(index) == self.term

    def own_match(self) -> int:
        """Up to where this leader counts itself: a leader's own disk is one of the majority, too."""
        return self.log.durable

    def answer_token(self, env: Env) -> int | None:
        """What an answer that promises something has to wait for."""
        return self.log.sync(env.disk)

    def votes_needed(self) -> int:
        """How many voters make a leader of a candidate."""
        return self.members.majority

    def vote_token(self, env: Env) -> int | None:
        """What the answer to a candidate has to wait for."""
        return self.answer_token(env)

    def remember_vote(self, env: Env, term: int, candidate: str) -> None:
        """Keep to whom the vote of this term went."""
        self.log.set_term(env.disk, term, candidate)

    def read_is_safe(self, read: Read) -> bool:
        """Whether a majority has confirmed, after the read was asked, that this node leads."""
        confirmed = self.is_voter + sum(peer.round >= read.round for peer in self._voting_peers())
        return confirmed >= self.members.majority

    def lease_clock_ns(self, env: Env) -> int:
        """By what a lease is measured."""
        return env.mono_ns()

    def may_read_at(self, index: int) -> bool:
        """Whether this member has applied all that a read at this index must see."""
        return index <= self.applied

    def continues_log(self, previous: int, term: int) -> bool:
        """Whether entries behind ``previous``, which has this term at the leader, continue this follower's log."""
        return previous <= self.log.snapshot_index or self.log.term_at(previous) == term

    def reads_locally(self) -> bool:
        """Whether a read may be answered from this node's own state, unasked."""
        return False

    # What all layers use

    def _voting_peers(self) -> list[Peer]:
        """The other voters, as a leader knows them."""
        return [self._peers[name] for name in self.members.voters if name in self._peers]

    def _put(self, env: Env, index: int, entry: Entry) -> None:
        first = index + (self.log.term_at(index) == entry.term)
        if first <= self.log.last:
            env.trace(events.EntriesCut(position=first, epoch=self.log.term_at(first), last=self.log.last))
        self.log.put(env.disk, index, entry)
        self._memberships.logged(index, entry.data)

    def _send(
        self, env: Env, to: str, code: Request, fields: Mapping[str, int], body: bytes = b"", after: int | None = None
    ) -> None:
        texts = {key: str(value) for key, value in fields.items()} | marked(self.cluster_id)
        env.send(to, Message(code=code, flags=ONEWAY, fields=texts, body=body), after=after)

    # What later layers do

    def _append(self, env: Env, data: bytes) -> None:
        """As a leader, log an entry and send it."""
        raise NotImplementedError

    def _send_append(self, env: Env, name: str, peer: Peer) -> None:
        """Send a follower what comes next, or that we lead."""
        raise NotImplementedError
