"""Raft for the controllers: a fixed membership, pre-vote, check-quorum, snapshots, pipelined appends and ReadIndex.

Sources: Ongaro's thesis, chapters 3 (the algorithm), 5 (compaction), 6.4 (linearizable reads), 9.6 (pre-vote) and 10.2
(a leader writes to its own disk while its followers write to theirs). All messages are one-way and may be lost with
their connection; no answer that promises something leaves before that is durable.

What a decision rests on stands in small methods of their own (``may_vote``, ``may_commit``, ``read_is_safe``, …).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from chaos.node import ONEWAY, Env, Message
from reference.controller.raft_log import Entry, RaftLog, pack_entries, unpack_entries
from reference.controller.raft_messages import numbers_of
from reference.controller.raft_options import RaftOptions
from reference.wire.codes import Request

FOLLOWER, CANDIDATE, LEADER = "follower", "candidate", "leader"

MAX_APPEND_BYTES = 256 * 1024
MAX_APPEND_COUNT = 256
MAX_IN_FLIGHT = 64
MAX_APPLY_COUNT = 256
MAX_FOLLOWER_READS = 10_000

_ELECTION, _HEARTBEAT, _APPLY = "raft.election", "raft.heartbeat", "raft.apply"

#: Called with the state machine's outcome and the entry's index, or with None and -1: the outcome is unknown.
Proposed = Callable[[Env, object, int], None]
#: Called with True when the state machine may be read now, with False when the read must be asked anew.
Readable = Callable[[Env, bool], None]


class StateMachine(Protocol):
    """What the log feeds. All methods but :meth:`role_changed` are deterministic in the entries."""

    def apply(self, env: Env, index: int, term: int, data: bytes) -> object:
        """Apply one committed entry (empty: a leader's no-op); the outcome goes to its proposer."""

    def check(self, data: bytes) -> None:
        """Raises :class:`chaos.node.Malformed` for an entry of another member that can't be applied."""

    def check_snapshot(self, snapshot: bytes) -> None:
        """The same for a snapshot that can't be restored."""

    def snapshot(self) -> bytes: ...

    def restore(self, env: Env, snapshot: bytes) -> None: ...

    def role_changed(self, env: Env) -> None:
        """The node's role, its term or the leader that it knows has changed."""


@dataclass(slots=True)
class Peer:
    """What a leader knows of a follower. While ``probing``, one append is under way at a time."""

    next: int
    match: int = 0
    in_flight: int = 0
    probing: bool = True
    heard_ns: int = 0
    round: int = 0


@dataclass(slots=True)
class Read:
    """A read that waits: for a majority's answer to ``round``, then for ``index`` to be applied."""

    index: int
    round: int
    then: Readable


@dataclass(slots=True)
class _Ballot:
    """Votes gathered for ``term``; ``pre``: only asked whether an election could be won."""

    term: int
    pre: bool
    granted: set[str] = field(default_factory=set)


class Raft:
    """One member. Every entry point is one step of the node that it is a part of."""

    def __init__(self, name: str, members: Sequence[str], machine: StateMachine, options: RaftOptions) -> None:
        self.name = name
        self.others = tuple(member for member in members if member != name)
        self.majority = len(members) // 2 + 1
        self.machine = machine
        self.role = FOLLOWER
        self.leader = ""
        self.commit = 0
        self.applied = 0
        self.log = RaftLog()
        self._heartbeat_ns = options.heartbeat_ms * 1_000_000
        self._election_ns = options.election_ms * 1_000_000
        self._snapshot_entries = options.snapshot_entries
        self._peers: dict[str, Peer] = {}
        self._ballot: _Ballot | None = None
        self._leader_heard_ns: int | None = None
        self._deadline_ns = 0
        self._proposals: dict[int, Proposed] = {}
        self._round = 0
        self._term_start = 0  # index of the no-op of a leader's term
        self._reads: list[Read] = []  # a leader's, in order of their rounds
        self._waiting: list[tuple[int, Readable]] = []  # safe once this index is applied
        self._asked: dict[int, tuple[int, Readable]] = {}  # a follower's: number → (deadline, then)
        self._number = 0
        self._announced = ("", "", -1)

    @property
    def term(self) -> int:
        return self.log.term

    @property
    def is_leader(self) -> bool:
        return self.role == LEADER

    @property
    def leads_committed(self) -> bool:
        """Leader, and everything that earlier leaders committed has been applied here."""
        return self.role == LEADER and self.applied >= self._term_start

    # Policy

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

    def read_is_safe(self, read: Read) -> bool:
        """Whether a majority has confirmed, after the read was asked, that this node leads."""
        confirmed = 1 + sum(peer.round >= read.round for peer in self._peers.values())
        return confirmed >= self.majority

    def reads_locally(self) -> bool:
        """Whether a read may be answered from this node's own state, unasked."""
        return False

    # Life

    def start(self, env: Env) -> None:
        self.log.recover(env.disk)
        self.commit = self.applied = self.log.snapshot_index
        if self.log.snapshot_index:
            self.machine.restore(env, self.log.snapshot)
        self.log.sync(env.disk)
        self._announce_role(env)
        self._set_deadline(env)
        env.set_timer(_ELECTION, 0 if not self.others else self._deadline_ns - env.mono_ns())

    def timer(self, env: Env, name: str) -> bool:
        if name == _ELECTION:
            self._election_timer(env)
        elif name == _HEARTBEAT:
            self._heartbeat_timer(env)
        elif name == _APPLY:
            self._apply(env)
        else:
            return False
        return True

    def done(self, env: Env, token: int) -> bool:
        if not self.log.done(env, token):
            return False
        if self._ballot is not None and not self.log.syncing:
            self._count_vote(env, self.name)
        if self.role == LEADER:
            if not self.log.syncing:
                self.log.sync(env.disk)
            self._advance_commit(env)
        return True

    def closed(self, env: Env, peer: str) -> None:
        """Messages under way may be lost: send again from what the follower is known to have."""
        known = self._peers.get(peer)
        if known is not None:
            known.next, known.in_flight, known.probing = known.match + 1, 0, True
        if peer == self.leader:
            self._end_asked(env, self._asked)

    def message(self, env: Env, source: str, message: Message) -> bool:
        """Take a message of another member; False if it is none of Raft's."""
        handler = {
            Request.RAFT_PRE_VOTE: self._on_pre_vote,
            Request.RAFT_VOTE: self._on_vote,
            Request.RAFT_APPEND: self._on_append,
            Request.RAFT_SNAPSHOT: self._on_snapshot,
            Request.RAFT_READ: self._on_read,
        }.get(message.code)  # type: ignore[call-overload]
        if handler is None or source not in self.others:
            return False
        fields = numbers_of(message)
        term = fields["term"]
        if "answer" in fields:
            if term > self.term and "pre" not in fields:
                self._follow(env, term, "")
            self._on_answer(env, source, message.code, fields)
        else:
            handler(env, source, fields, message.body)
        return True

    def _on_answer(self, env: Env, source: str, code: int, fields: Mapping[str, int]) -> None:
        if code in (Request.RAFT_PRE_VOTE, Request.RAFT_VOTE):
            self._on_vote_answer(env, source, code, fields)
        elif code == Request.RAFT_READ:
            self._on_read_answer(env, fields)
        else:
            self._on_append_answer(env, source, fields)

    def _send(
        self, env: Env, to: str, code: Request, fields: Mapping[str, int], body: bytes = b"", after: int | None = None
    ) -> None:
        texts = {key: str(value) for key, value in fields.items()}
        env.send(to, Message(code=code, flags=ONEWAY, fields=texts, body=body), after=after)

    # Elections

    def _set_deadline(self, env: Env) -> None:
        self._deadline_ns = env.mono_ns() + self._election_ns + env.rng.randrange(self._election_ns)

    def _election_timer(self, env: Env) -> None:
        """Followers only move the deadline; the timer looks at it when it fires."""
        if self.role == LEADER:
            return
        left_ns = self._deadline_ns - env.mono_ns()
        if left_ns > 0 and self.others:
            env.set_timer(_ELECTION, left_ns)
            return
        late = [number for number, (deadline, _) in self._asked.items() if deadline <= env.mono_ns()]
        self._end_asked(env, late)
        self._campaign(env, pre=True)
        env.set_timer(_ELECTION, max(1, self._deadline_ns - env.mono_ns()))

    def _campaign(self, env: Env, *, pre: bool) -> None:
        """Ask for votes. ``pre``: only ask whether they would be granted, so that the term rises only for an election
        that can be won."""
        self._set_deadline(env)
        if not pre:
            self.log.set_term(env.disk, self.term + 1, self.name)
        self._become(env, CANDIDATE, "")
        self._ballot = _Ballot(self.term + pre, pre)
        token = self.answer_token(env)
        fields = {"term": self._ballot.term, "last": self.log.last, "last_term": self.log.last_term}
        code = Request.RAFT_PRE_VOTE if pre else Request.RAFT_VOTE
        for other in self.others:
            self._send(env, other, code, fields, after=token)
        if token is None:
            self._count_vote(env, self.name)

    def _count_vote(self, env: Env, voter: str) -> None:
        ballot = self._ballot
        if ballot is None:
            return
        ballot.granted.add(voter)
        if len(ballot.granted) < self.majority or self.name not in ballot.granted:
            return
        self._ballot = None
        if ballot.pre:
            self._campaign(env, pre=False)
        else:
            self._lead(env)

    def _leader_is_fresh(self, env: Env) -> bool:
        """Whether this node has heard its leader lately: then it grants no votes against it."""
        if self.role == LEADER:
            return True
        return self._leader_heard_ns is not None and env.mono_ns() - self._leader_heard_ns < self._election_ns

    def _on_pre_vote(self, env: Env, source: str, fields: Mapping[str, int], body: bytes) -> None:
        granted = (
            fields["term"] > self.term
            and not self._leader_is_fresh(env)
            and self.is_up_to_date(fields["last"], fields["last_term"])
        )
        term = fields["term"] if granted else self.term
        answer = {"answer": 1, "term": term, "granted": int(granted)}
        if granted:
            answer["pre"] = 1
        self._send(env, source, Request.RAFT_PRE_VOTE, answer)

    def _on_vote(self, env: Env, source: str, fields: Mapping[str, int], body: bytes) -> None:
        term = fields["term"]
        if term > self.term and self._leader_is_fresh(env):
            return
        if term > self.term:
            self._follow(env, term, "")
        granted = term == self.term and self.may_vote(source, term, fields["last"], fields["last_term"])
        if granted and self.log.vote != source:
            self.log.set_term(env.disk, term, source)
            self._set_deadline(env)
        answer = {"answer": 1, "term": self.term, "granted": int(granted)}
        self._send(env, source, Request.RAFT_VOTE, answer, after=self.answer_token(env))

    def _on_vote_answer(self, env: Env, source: str, code: int, fields: Mapping[str, int]) -> None:
        ballot = self._ballot
        pre = code == Request.RAFT_PRE_VOTE
        if ballot is not None and fields["granted"] and (ballot.pre, ballot.term) == (pre, fields["term"]):
            self._count_vote(env, source)

    # Roles

    def _announce_role(self, env: Env) -> None:
        self._announced = (self.role, self.leader, self.term)
        env.trace("raft", epoch=self.term, role=self.role, leader=self.leader)
        self.machine.role_changed(env)

    def _become(self, env: Env, role: str, leader: str) -> None:
        deposed = self.role == LEADER and role != LEADER
        self.role, self.leader, self._ballot = role, leader, None
        if deposed:
            env.cancel_timer(_HEARTBEAT)
            self._peers.clear()
            self._set_deadline(env)
            env.set_timer(_ELECTION, self._deadline_ns - env.mono_ns())
        if self._announced != (role, leader, self.term):
            self._announce_role(env)
        if deposed:
            self._end_leadership(env)

    def _end_leadership(self, env: Env) -> None:
        """Whatever was under way may still be committed by another leader: its outcome is unknown."""
        proposals, self._proposals = self._proposals, {}
        reads, self._reads = self._reads, []
        for then in proposals.values():
            then(env, None, -1)
        for read in reads:
            read.then(env, False)

    def _follow(self, env: Env, term: int, leader: str) -> None:
        """Be a follower in ``term``, which is at least our own."""
        if term > self.term:
            self.log.set_term(env.disk, term, "")
            self.log.sync(env.disk)
        if leader != self.leader:
            self._end_asked(env, self._asked)
        self._become(env, FOLLOWER, leader)

    def _lead(self, env: Env) -> None:
        now = env.mono_ns()
        self._peers = {other: Peer(next=self.log.last + 1, heard_ns=now) for other in self.others}
        self._term_start = self.log.last + 1
        env.cancel_timer(_ELECTION)
        self._end_asked(env, self._asked)
        self._become(env, LEADER, self.name)
        self._append(env, b"")
        env.set_timer(_HEARTBEAT, self._heartbeat_ns)

    def _heartbeat_timer(self, env: Env) -> None:
        """Tell the followers that we lead; step down when no majority has been heard for an election timeout."""
        if self.role != LEADER:
            return
        now = env.mono_ns()
        heard = 1 + sum(now - peer.heard_ns < 2 * self._election_ns for peer in self._peers.values())
        if heard < self.majority:
            self._become(env, FOLLOWER, "")
            return
        for name, peer in self._peers.items():
            if now - peer.heard_ns > self._election_ns:
                peer.next, peer.in_flight, peer.probing = peer.match + 1, 0, True
            self._send_append(env, name, peer)
        env.set_timer(_HEARTBEAT, self._heartbeat_ns)

    # Replication, the leader's side

    def propose(self, env: Env, data: bytes, then: Proposed) -> None:
        """Append an entry; ``then`` runs when it has been applied, or when its outcome can't be known any more."""
        assert self.role == LEADER and data
        self._proposals[self.log.last + 1] = then
        self._append(env, data)

    def _append(self, env: Env, data: bytes) -> None:
        self.log.put(env.disk, self.log.last + 1, Entry(self.term, data))
        for name, peer in self._peers.items():
            if not peer.probing or peer.in_flight == 0:
                self._send_ready(env, name, peer)
        if not self.log.syncing:
            self.log.sync(env.disk)

    def _send_ready(self, env: Env, name: str, peer: Peer) -> None:
        """Send what a follower lacks, as far as the window allows."""
        while peer.next <= self.log.last and peer.in_flight < (1 if peer.probing else MAX_IN_FLIGHT):
            self._send_append(env, name, peer)

    def _send_append(self, env: Env, name: str, peer: Peer) -> None:
        """Send one append (entries if there are any to send; a heartbeat otherwise) or the snapshot."""
        fields = {"term": self.term, "commit": self.commit, "round": self._round}
        if peer.next < self.log.first:
            fields |= {"index": self.log.snapshot_index, "snapshot_term": self.log.snapshot_term}
            peer.next, peer.in_flight, peer.probing = self.log.last + 1, 1, True
            self._send(env, name, Request.RAFT_SNAPSHOT, fields, self.log.snapshot)
            return
        fields |= {"prev": peer.next - 1, "prev_term": self.log.term_at(peer.next - 1)}
        entries: Sequence[Entry] = ()
        if peer.in_flight < MAX_IN_FLIGHT:
            entries = self.log.slice(peer.next, max_bytes=MAX_APPEND_BYTES, max_count=MAX_APPEND_COUNT)
        peer.in_flight += 1
        if not peer.probing:
            peer.next += len(entries)
        self._send(env, name, Request.RAFT_APPEND, fields, pack_entries(entries))

    def _on_append_answer(self, env: Env, source: str, fields: Mapping[str, int]) -> None:
        peer = self._peers.get(source)
        if peer is None or self.role != LEADER or fields["term"] != self.term:
            return
        peer.heard_ns = env.mono_ns()
        peer.round = max(peer.round, fields["round"])
        peer.in_flight = max(0, peer.in_flight - 1)
        if fields["ok"]:
            peer.match = max(peer.match, fields["match"])
            peer.next = max(peer.next, peer.match + 1) if not peer.probing else peer.match + 1
            peer.probing = False
            self._advance_commit(env)
        elif fields["prev"] == peer.next - 1 or not peer.probing:
            peer.next, peer.in_flight, peer.probing = min(fields["match"], self.log.last) + 1, 0, True
        self._release_reads(env)
        if self.role == LEADER:
            self._send_ready(env, source, peer)

    def _advance_commit(self, env: Env) -> None:
        matches = sorted([self.own_match(), *(peer.match for peer in self._peers.values())], reverse=True)
        index = min(matches[self.majority - 1], self.log.last)
        if index > self.commit and self.may_commit(index):
            self.commit = index
            self._apply(env)
            if self.role == LEADER:
                self._tell_commit(env)

    def _tell_commit(self, env: Env) -> None:
        """Followers apply (and answer reads) without waiting for the next heartbeat."""
        for name, peer in self._peers.items():
            if not peer.probing and peer.in_flight < MAX_IN_FLIGHT:
                self._send_append(env, name, peer)

    # Replication, the follower's side

    def _accept_leader(self, env: Env, source: str, fields: Mapping[str, int]) -> bool:
        """Follow the sender if its term isn't older than ours; tell it of ours otherwise."""
        if fields["term"] < self.term:
            answer = {"answer": 1, "term": self.term, "ok": 0, "match": 0, "prev": -1, "round": 0}
            self._send(env, source, Request.RAFT_APPEND, answer)
            return False
        self._follow(env, fields["term"], source)
        self._leader_heard_ns = env.mono_ns()
        self._set_deadline(env)
        return True

    def _answer_append(self, env: Env, source: str, fields: Mapping[str, int], *, ok: bool, match: int) -> None:
        answer = {"answer": 1, "term": self.term, "ok": int(ok), "match": match, "round": fields["round"]}
        answer["prev"] = fields.get("prev", -1)
        self._send(env, source, Request.RAFT_APPEND, answer, after=self.answer_token(env))

    def _on_append(self, env: Env, source: str, fields: Mapping[str, int], body: bytes) -> None:
        entries = unpack_entries(body)
        for entry in entries:
            self.machine.check(entry.data)
        if not self._accept_leader(env, source, fields):
            return
        previous = fields["prev"]
        if previous > self.log.snapshot_index and self.log.term_at(previous) != fields["prev_term"]:
            self._answer_append(env, source, fields, ok=False, match=self._common_point(previous))
            return
        index = previous
        for entry in entries:
            index += 1
            if index <= self.log.snapshot_index or self.log.term_at(index) == entry.term:
                continue
            if index <= self.commit:
                return  # no correct leader replaces what is committed: keep it, and do not answer
            self.log.put(env.disk, index, entry)
        self._answer_append(env, source, fields, ok=True, match=index)
        self._learn_commit(env, min(fields["commit"], index))

    def _common_point(self, previous: int) -> int:
        """Where the leader should try next: before the whole term that differs."""
        if previous > self.log.last:
            return self.log.last
        term = self.log.term_at(previous)
        while previous > self.commit and self.log.term_at(previous) == term:
            previous -= 1
        return previous

    def _on_snapshot(self, env: Env, source: str, fields: Mapping[str, int], body: bytes) -> None:
        self.machine.check_snapshot(body)
        if not self._accept_leader(env, source, fields):
            return
        index = fields["index"]
        if index > self.commit:
            self.log.install(env.disk, index, fields["snapshot_term"], body)
            self.commit = self.applied = index
            self.machine.restore(env, body)
        self._answer_append(env, source, fields, ok=True, match=index)

    def _learn_commit(self, env: Env, index: int) -> None:
        if index > self.commit:
            self.commit = index
            self._apply(env)

    # Applying

    def _apply(self, env: Env) -> None:
        """Feed committed entries to the state machine, a bounded number in one step."""
        end = min(self.commit, self.applied + MAX_APPLY_COUNT)
        while self.applied < end:
            index = self.applied + 1
            entry = self.log.entry(index)
            outcome = self.machine.apply(env, index, entry.term, entry.data)
            self.applied = index
            then = self._proposals.pop(index, None)
            if then is not None:
                then(env, outcome, index)
        if self.applied < self.commit:
            env.set_timer(_APPLY, 0)
        if self.applied - self.log.snapshot_index >= self._snapshot_entries:
            self.log.compact(env.disk, self.applied, self.machine.snapshot())
            self.log.sync(env.disk)
        self._release_reads(env)

    # Linearizable reads

    def read(self, env: Env, then: Readable) -> None:
        """Run ``then`` once this node's state is at least as new as all that was done before this call."""
        if self.reads_locally():
            then(env, True)
        elif self.role == LEADER:
            self._round += 1
            self._reads.append(Read(max(self.commit, self._term_start), self._round, then))
            for name, peer in self._peers.items():
                self._send_append(env, name, peer)
            self._release_reads(env)
        elif not self.leader or len(self._asked) >= MAX_FOLLOWER_READS:
            then(env, False)
        else:
            self._number += 1
            self._asked[self._number] = (env.mono_ns() + 2 * self._election_ns, then)
            self._send(env, self.leader, Request.RAFT_READ, {"term": self.term, "number": self._number})

    def _release_reads(self, env: Env) -> None:
        while self._reads and self.read_is_safe(self._reads[0]):
            read = self._reads.pop(0)
            self._waiting.append((read.index, read.then))
        ready = [then for index, then in self._waiting if index <= self.applied]
        if ready:
            self._waiting = [waiting for waiting in self._waiting if waiting[0] > self.applied]
        for then in ready:
            then(env, True)

    def _on_read(self, env: Env, source: str, fields: Mapping[str, int], body: bytes) -> None:
        """A follower asks for an index that is safe to read at; it must have applied it itself."""
        answer = {"answer": 1, "number": fields["number"], "index": -1}

        def reply(env: Env, safe: bool) -> None:
            index = self.applied if safe else -1
            self._send(env, source, Request.RAFT_READ, {**answer, "term": self.term, "index": index})

        if self.role == LEADER:
            self.read(env, reply)
        else:
            reply(env, False)

    def _on_read_answer(self, env: Env, fields: Mapping[str, int]) -> None:
        asked = self._asked.pop(fields["number"], None)
        if asked is None:
            return
        if fields["index"] < 0:
            asked[1](env, False)
        else:
            self._waiting.append((fields["index"], asked[1]))
            self._release_reads(env)

    def _end_asked(self, env: Env, numbers: Iterable[int]) -> None:
        for number in list(numbers):
            self._asked.pop(number)[1](env, False)
