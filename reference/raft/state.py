"""What a member of Raft knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from chaos import events
from chaos.node import Env
from reference.raft.log import Entry, RaftLog
from reference.raft.members import Members, Memberships
from reference.raft.messages import marked
from reference.raft.options import RaftOptions
from reference.raft.peer import Peer
from reference.raft.read_index import Lease, Rounds
from reference.raft.state_machine import Proposed, StateMachine
from reference.wire.codes import Request
from reference.wire.command import ONEWAY, Command

FOLLOWER, CANDIDATE, LEADER = "follower", "candidate", "leader"


@dataclass(slots=True)
class Ballot:
    """Votes gathered for ``term``; ``pre``: only asked whether an election could be won. ``tip``: the file of the log
    that holds the candidate's own vote, and how long that file was with it."""

    term: int
    pre: bool
    tip: tuple[str, int]
    granted: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """What a leader gives ``target`` until ``deadline_ns`` to take over; ``then`` is called with whether it does."""

    target: str
    deadline_ns: int
    then: Callable[[Env, bool], None]


class RaftState:
    """The state of one member, which its parts share. ``term_start``: the index of the entry with which a leader's term
    began; ``elected_by``: who voted for it in the last election that it won; ``proposals``: whom to call once the entry
    at an index has been applied."""

    def __init__(
        self, name: str, members: Sequence[str], machine: StateMachine, options: RaftOptions, log: RaftLog
    ) -> None:
        self.name = name
        self.options = options
        self.machine = machine
        self.memberships = Memberships(members)
        self.log = log
        self.role = FOLLOWER
        self.leader = ""
        self.leader_heard_ns: int | None = None
        self.deadline_ns = 0  # without a word of a leader by then, it stands for election
        self.ballot: Ballot | None = None
        self.elected_by: tuple[str, ...] = ()
        self.commit = 0
        self.applied = 0
        self.proposals: dict[int, Proposed] = {}
        self.term_start = 0
        self.peers: dict[str, Peer] = {}
        self.rounds = Rounds()
        self.lease = Lease(options.lease_ms * 1_000_000)
        self.transferring: Transfer | None = None

    @property
    def term(self) -> int:
        return self.log.term

    @property
    def cluster_id(self) -> str:
        return self.options.cluster_id

    @property
    def election_ns(self) -> int:
        return self.options.election_ms * 1_000_000

    @property
    def heartbeat_ns(self) -> int:
        return self.options.heartbeat_ms * 1_000_000

    @property
    def members(self) -> Members:
        """Who belongs to the group, by the newest entry of this log that says so."""
        return self.memberships.current

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
    def is_alone(self) -> bool:
        """Whether it is the only member, which needs nobody to lead."""
        return self.members.all == (self.name,)

    @property
    def leads_committed(self) -> bool:
        """Leader, and everything that earlier leaders committed has been applied here."""
        return self.role == LEADER and self.applied >= self.term_start

    @property
    def is_handing_over(self) -> bool:
        """Whether this leader takes no proposals, so that another member can catch up with it and lead."""
        return self.transferring is not None

    def voting_peers(self) -> list[Peer]:
        """Return the other voters, as a leader knows them."""
        return [self.peers[name] for name in self.members.voters if name in self.peers]

    def silence_ns(self, env: Env) -> int | None:
        """Return for how long this member has not heard its leader; None if it never has."""
        if self.role == LEADER:
            return 0
        return None if self.leader_heard_ns is None else env.mono_ns() - self.leader_heard_ns

    def set_deadline(self, env: Env) -> None:
        """Wait for a leader's word for an election timeout more."""
        self.deadline_ns = env.mono_ns() + self.election_ns + env.rng.randrange(self.election_ns)

    def members_applied(self, env: Env, index: int, members: Members) -> None:
        """Take note that a membership is committed."""
        return

    def put(self, env: Env, index: int, entry: Entry) -> None:
        """Log an entry, in the place of all from its index on."""
        first = index + (self.log.term_at(index) == entry.term)
        if first <= self.log.last:
            env.trace(events.EntriesCut(position=first, epoch=self.log.term_at(first), last=self.log.last))
        self.log.put(env.disk, index, entry)
        self.memberships.logged(index, entry.data)

    def send(
        self, env: Env, to: str, code: Request, fields: Mapping[str, int], body: bytes = b"", after: int | None = None
    ) -> None:
        texts = {key: str(value) for key, value in fields.items()} | marked(self.cluster_id)
        env.send(to, Command(code=code, flags=ONEWAY, fields=texts, body=body), after=after)
