"""How entries get from the leader to all, pipelined and in batches, and from the log to the state machine (Ongaro's
thesis, 3.5 and 10.2).

The first few appends leave at once; what comes while they are under way gathers into batches, and so it does while a
sync of the log is under way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from chaos import events
from chaos.node import Env
from reference.controller.raft_election import Election
from reference.controller.raft_log import Entry, pack_entries, unpack_entries
from reference.controller.raft_members import unpack_members
from reference.controller.raft_peer import Peer
from reference.controller.raft_state import LEADER
from reference.controller.state_machine import Proposed
from reference.wire.codes import Request

MAX_APPEND_BYTES = 256 * 1024
MAX_APPLY_COUNT = 256

APPLY = "raft.apply"


class LogReplication(Election):
    """Replication, as a leader and as a follower."""

    # The leader's side

    def propose(self, env: Env, data: bytes, then: Proposed) -> None:
        """Append an entry; ``then`` runs when it has been applied, or when its outcome can't be known any more. Empty
        ``data`` changes nothing."""
        assert self.role == LEADER
        self._proposals[self.log.last + 1] = then
        self._append(env, data)

    def _append(self, env: Env, data: bytes) -> None:
        self._put(env, self.log.last + 1, Entry(self.term, data))
        for name, peer in self._peers.items():
            self._send_ready(env, name, peer)
        if not self.log.syncing:
            self.log.sync(env.disk)

    def _send_ready(self, env: Env, name: str, peer: Peer) -> None:
        """Send what a follower lacks, as far as the window allows."""
        while peer.is_due(self.log.last, batch=self._append_entries, most=self._max_in_flight):
            self._send_append(env, name, peer)

    def _send_append(self, env: Env, name: str, peer: Peer) -> None:
        """Send one append: entries if there are any to send, a heartbeat otherwise."""
        fields = {"term": self.term, "commit": self.commit, "round": self._rounds.last}
        peer.untold = False
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
        self._heard(env, peer, fields["round"])
        peer.in_flight = max(0, peer.in_flight - 1)
        if fields["ok"]:
            peer.match = max(peer.match, fields["match"])
            peer.next = max(peer.next, peer.match + 1) if not peer.probing else peer.match + 1
            peer.probing = False
            self._advance_commit(env)
        elif fields["prev"] == peer.next - 1 or not peer.probing:
            peer.probe(min(fields["match"], self.log.last) + 1)
            if peer.next > fields["prev"]:  # it has committed something else: no use in asking more than now and then
                peer.in_flight = 1
        self._release_reads(env)
        if self.role == LEADER:
            self._send_ready(env, source, peer)

    def _heard(self, env: Env, peer: Peer, round: int) -> None:
        """A follower has answered a message of this round."""
        peer.heard_ns = env.mono_ns()
        peer.round = max(peer.round, round)
        rounds = sorted(known.round for known in self._voting_peers())
        needed = self.members.majority - self.is_voter
        self._lease.confirmed(rounds[-needed] if needed else round)

    def _advance_commit(self, env: Env) -> None:
        own = [self.own_match()] if self.is_voter else []
        matches = sorted([*own, *(peer.match for peer in self._voting_peers())], reverse=True)
        index = min(matches[self.members.majority - 1], self.log.last)
        if index > self.commit and self.may_commit(index):
            self.commit = index
            self._apply(env)
            self._tell_commit(env)

    def _tell_commit(self, env: Env) -> None:
        """Followers apply (and answer reads) without waiting for the next heartbeat; one that is being probed is told
        when its answer ends that. They are none once we lead no more."""
        for name, peer in self._peers.items():
            peer.untold = True
            self._send_ready(env, name, peer)

    # The follower's side

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
            if unpack_members(entry.data) is None:
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
            self._put(env, index, entry)
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
            members = unpack_members(entry.data)
            outcome = self.machine.apply(env, index, entry.term, entry.data if members is None else b"")
            if members is not None:
                env.trace(events.RaftMembers(position=index, epoch=entry.term, **asdict(members)))
            self.applied = index
            then = self._proposals.pop(index, None)
            if then is not None:
                then(env, outcome, index)
        if self.applied < self.commit:
            env.set_timer(APPLY, 0)
        self._compact_if_due(env)
        self._release_reads(env)

    def committed_told(self, term: int) -> dict[str, int]:
        """What a leader says when it applies an entry that an earlier term has left: up to where it has committed, and
        of which term the last of these entries is."""
        if self.role != LEADER or term >= self.term:
            return {}
        return {"committed": self.commit, "committed_term": self.log.term_at(self.commit)}

    # What the next layer does

    def _compact_if_due(self, env: Env) -> None:
        """Replace entries that were applied by a snapshot, once there are enough of them."""
        raise NotImplementedError
