"""Raft for the controllers: a fixed membership, pre-vote, check-quorum, snapshots, pipelined appends and ReadIndex.

The first few appends leave at once; what comes while they are under way gathers into batches, and so it does while a
sync of the log is under way.

Sources: Ongaro's thesis, chapters 3 (the algorithm), 5 (compaction), 6.4 (linearizable reads), 9.6 (pre-vote) and 10.2
(a leader writes to its own disk while its followers write to theirs). All messages are one-way and may be lost with
their connection; no answer that promises something leaves before that is durable.

What a decision rests on stands in small methods of their own (``may_vote``, ``may_commit``, …).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chaos.node import ONEWAY, Env, Message
from reference.controller.raft_log import Entry, RaftLog, pack_entries, unpack_entries
from reference.controller.raft_messages import numbers_of
from reference.controller.raft_options import RaftOptions
from reference.controller.raft_peer import Peer
from reference.controller.read_index import Lease, Questions, Read, Readable, Rounds
from reference.controller.state_machine import Proposed, StateMachine
from reference.wire.codes import Request

FOLLOWER, CANDIDATE, LEADER = "follower", "candidate", "leader"

MAX_APPEND_BYTES = 256 * 1024
MAX_APPLY_COUNT = 256
#: Reads that may wait on one member.
MAX_READS = 10_000

_ELECTION, _HEARTBEAT, _APPLY = "raft.election", "raft.heartbeat", "raft.apply"


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
        self._window = options.window
        self._append_entries = options.append_entries
        self._max_in_flight = options.in_flight
        self._peers: dict[str, Peer] = {}
        self._ballot: _Ballot | None = None
        self._leader_heard_ns: int | None = None
        self._deadline_ns = 0
        self._proposals: dict[int, Proposed] = {}
        self._term_start = 0  # index of the no-op of a leader's term
        self._rounds = Rounds()
        self._lease = Lease(options.lease_ms * 1_000_000)
        self._questions = Questions()
        self._waiting: list[tuple[int, Readable]] = []  # safe once this index is applied
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

    @property
    def has_room(self) -> bool:
        """Whether a client's proposal fits into the window."""
        return self.under_way() < self._window

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

    def read_is_safe(self, read: Read) -> bool:
        """Whether a majority has confirmed, after the read was asked, that this node leads."""
        confirmed = 1 + sum(peer.round >= read.round for peer in self._peers.values())
        return confirmed >= self.majority

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

    # Life

    def start(self, env: Env) -> None:
        self.log.recover(env.disk)
        self.commit = self.applied = self.log.snapshot_index
        if self.log.snapshot_index:
            self.machine.restore(env, self.log.snapshot)
        self.log.sync(env.disk)
        if self._lease.is_wanted:
            self._leader_heard_ns = env.mono_ns()  # the life before may have heard a leader just now
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
            known.probe(known.match + 1)
        if peer == self.leader:
            _refuse(env, self._questions.end())

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
        _refuse(env, self._questions.end_late(env.mono_ns()))
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
            self._lease.end()
            self._set_deadline(env)
            env.set_timer(_ELECTION, self._deadline_ns - env.mono_ns())
        if self._announced != (role, leader, self.term):
            self._announce_role(env)
        if deposed:
            self._end_leadership(env)

    def _end_leadership(self, env: Env) -> None:
        """Whatever was under way may still be committed by another leader: its outcome is unknown."""
        proposals, self._proposals = self._proposals, {}
        reads = self._rounds.end()
        for then in proposals.values():
            then(env, None, -1)
        _refuse(env, [read.then for read in reads])

    def _follow(self, env: Env, term: int, leader: str) -> None:
        """Be a follower in ``term``, which is at least our own."""
        if term > self.term:
            self.log.set_term(env.disk, term, "")
            self.log.sync(env.disk)
        if leader != self.leader:
            _refuse(env, self._questions.end())
        self._become(env, FOLLOWER, leader)

    def _lead(self, env: Env) -> None:
        now = env.mono_ns()
        self._peers = {other: Peer(next=self.log.last + 1, heard_ns=now) for other in self.others}
        self._term_start = self.log.last + 1
        env.cancel_timer(_ELECTION)
        _refuse(env, self._questions.end())
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
        if self._lease.is_wanted:
            self._lease.sent(self._rounds.renew(), self.lease_clock_ns(env))
        for name, peer in self._peers.items():
            if now - peer.heard_ns > self._election_ns:
                peer.probe(peer.match + 1)
            self._send_append(env, name, peer)
        env.set_timer(_HEARTBEAT, self._heartbeat_ns)

    # Replication, the leader's side

    def propose(self, env: Env, data: bytes, then: Proposed) -> None:
        """Append an entry; ``then`` runs when it has been applied, or when its outcome can't be known any more. Empty
        ``data`` changes nothing."""
        assert self.role == LEADER
        self._proposals[self.log.last + 1] = then
        self._append(env, data)

    def _append(self, env: Env, data: bytes) -> None:
        self.log.put(env.disk, self.log.last + 1, Entry(self.term, data))
        for name, peer in self._peers.items():
            self._send_ready(env, name, peer)
        if not self.log.syncing:
            self.log.sync(env.disk)

    def _send_ready(self, env: Env, name: str, peer: Peer) -> None:
        """Send what a follower lacks, as far as the window allows."""
        while peer.is_due(self.log.last, batch=self._append_entries, most=self._max_in_flight):
            self._send_append(env, name, peer)

    def _send_append(self, env: Env, name: str, peer: Peer) -> None:
        """Send one append (entries if there are any to send; a heartbeat otherwise) or the snapshot."""
        fields = {"term": self.term, "commit": self.commit, "round": self._rounds.last}
        peer.untold = False
        if peer.next < self.log.first:
            fields |= {"index": self.log.snapshot_index, "snapshot_term": self.log.snapshot_term}
            peer.next, peer.in_flight, peer.probing = self.log.last + 1, 1, True
            self._send(env, name, Request.RAFT_SNAPSHOT, fields, self.log.snapshot)
            return
        fields |= {"prev": peer.next - 1, "prev_term": self.log.term_at(peer.next - 1)}
        entries: Sequence[Entry] = ()
        if peer.in_flight < self._max_in_flight:
            entries = self.log.slice(peer.next, max_bytes=MAX_APPEND_BYTES, max_count=self._append_entries)
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
        self._lease.confirmed(sorted(known.round for known in self._peers.values())[1 - self.majority])
        peer.in_flight = max(0, peer.in_flight - 1)
        if fields["ok"]:
            peer.match = max(peer.match, fields["match"])
            peer.next = max(peer.next, peer.match + 1) if not peer.probing else peer.match + 1
            peer.probing = False
            self._advance_commit(env)
        elif fields["prev"] == peer.next - 1 or not peer.probing:
            peer.probe(min(fields["match"], self.log.last) + 1)
        self._release_reads(env)
        if self.role == LEADER:
            self._send_ready(env, source, peer)

    def _advance_commit(self, env: Env) -> None:
        matches = sorted([self.own_match(), *(peer.match for peer in self._peers.values())], reverse=True)
        index = min(matches[self.majority - 1], self.log.last)
        if index > self.commit and self.may_commit(index):
            self.commit = index
            self._apply(env)
            self._tell_commit(env)

    def _tell_commit(self, env: Env) -> None:
        """Followers apply (and answer reads) without waiting for the next heartbeat. They are none once we lead no
        more."""
        for name, peer in self._peers.items():
            if not peer.probing:
                peer.untold = True
                self._send_ready(env, name, peer)

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
        if not self.continues_log(previous, fields["prev_term"]):
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
            index = max(self.commit, self._term_start)
            if self._lease.holds(self.lease_clock_ns(env)):
                self._waiting.append((index, then))
            else:
                self._rounds.add(index, then)
            self._release_reads(env)
        elif not self.leader:
            then(env, False)
        else:
            self._questions.add(then)
            self._ask_leader(env)

    def _release_reads(self, env: Env) -> None:
        """Go on with the reads that waited for a majority, or for an entry to be applied."""
        self._waiting += [(read.index, read.then) for read in self._rounds.take(self.read_is_safe)]
        if self.role == LEADER and self._rounds.begin():
            for name, peer in self._peers.items():
                self._send_append(env, name, peer)
            self._waiting += [(read.index, read.then) for read in self._rounds.take(self.read_is_safe)]
        ready = [then for index, then in self._waiting if self.may_read_at(index)]
        if ready:
            self._waiting = [waiting for waiting in self._waiting if not self.may_read_at(waiting[0])]
        for then in ready:
            then(env, True)

    def _ask_leader(self, env: Env) -> None:
        number = self._questions.begin(env.mono_ns() + 2 * self._election_ns)
        if number is not None:
            self._send(env, self.leader, Request.RAFT_READ, {"term": self.term, "number": number})

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
        asked = self._questions.answered(fields["number"])
        if fields["index"] < 0:
            _refuse(env, asked)
        else:
            self._waiting += [(fields["index"], then) for then in asked]
            self._release_reads(env)
        if self.role != LEADER and self.leader:
            self._ask_leader(env)


def _refuse(env: Env, reads: Sequence[Readable]) -> None:
    for then in reads:
        then(env, False)
