"""Snapshots: made piece by piece while entries are applied, and sent piece by piece to a member that lacks more than
the log holds (Ongaro's thesis, chapter 5).

What is larger than one piece is written aside, into the file that will take the log's place, and each piece is synced
by itself, so that proposals wait for one piece at most. The file counts once it is complete: a crash before that leaves
the old one. The receiver says after each piece how much it holds, durably; what is lost is sent again from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from chaos import events
from chaos.node import Env, Malformed
from reference.controller.raft_members import split_snapshot
from reference.controller.raft_peer import Peer, Sending
from reference.controller.raft_replication import LogReplication
from reference.controller.raft_state import FOLLOWER
from reference.wire.codes import Request

#: No larger one is taken.
MAX_SNAPSHOT_BYTES = 1 << 30
#: For followers that are far behind, a leader keeps entries for so many snapshots at most.
KEPT_SNAPSHOTS = 16
#: With each entry whose index is a multiple of this it is told how much of the log is kept.
TELL_LOG = 64


@dataclass(slots=True, kw_only=True)
class Making:
    """A snapshot of the state at ``index`` that is being made."""

    index: int
    pieces: Iterator[bytes]
    made: bytearray


@dataclass(slots=True, kw_only=True)
class Incoming:
    """A snapshot that is being received: ``held`` is written aside."""

    index: int
    term: int
    size: int
    held: bytearray = field(default_factory=bytearray)

    def is_of(self, fields: Mapping[str, int]) -> bool:
        return (self.index, self.term, self.size) == (fields["index"], fields["snapshot_term"], fields["size"])


class Snapshots(LogReplication):
    """Snapshots of one member, its own and its leader's. One at a time is written aside."""

    _making: Making | None = None
    _incoming: Incoming | None = None

    def log_told(self, env: Env, index: int) -> Mapping[str, Any]:
        """What is told of the log with an entry that is applied, now and then: its first entry behind the snapshot, the
        snapshot's size, after how many entries the next one is due, whether a follower far behind puts that off, and
        how many files there are."""
        if index % TELL_LOG:
            return {}
        told = {"first": self.log.first, "bytes": len(self.log.snapshot), "every": self._snapshot_entries}
        return {"log": {**told, "behind": self._are_needed(env), "files": self.log.count_files(env.disk)}}

    # Making one

    def _compact_if_due(self, env: Env) -> None:
        """A large snapshot is followed by the next one when the log behind it has become half as large: so they cost
        a constant share of each entry, however large the state is."""
        if self._incoming is not None and self._incoming.index <= self.commit:
            self._incoming = None  # the entries came otherwise
        if self._making is not None or self._incoming is not None:
            return
        kept = self.applied - self.log.snapshot_index
        if kept < self._snapshot_entries or self.log.is_mostly_snapshot:
            return
        if self._are_needed(env) and kept < KEPT_SNAPSHOTS * self._snapshot_entries:
            return
        pieces = iter(self.machine.snapshot())
        head = self._memberships.compact(self.applied)
        first, second = head + next(pieces, b""), next(pieces, b"")
        if not second:
            self._compact(env, self.applied, first)
            return
        self._making = Making(index=self.applied, pieces=pieces, made=bytearray())
        self.log.begin_aside(env.disk, self.applied, self.log.term_at(self.applied))
        self._write_piece(env, self._making, first + second)

    def _are_needed(self, env: Env) -> bool:
        """Whether a follower that lives gets a snapshot, or the entries behind one. One whose snapshots take longer
        than making them would otherwise get one after the other, and never an entry."""
        now = env.mono_ns()
        peers = self._peers.values()
        return any(peer.is_far_behind and now - peer.heard_ns <= self._election_ns for peer in peers)

    def _write_piece(self, env: Env, making: Making, piece: bytes) -> None:
        making.made += piece
        self.log.write_aside(env.disk, piece)

    def _go_on_making(self, env: Env, making: Making) -> None:
        """The piece before is durable."""
        piece = next(making.pieces, b"")
        if piece:
            self._write_piece(env, making, piece)
            return
        self._making = None
        self._compact(env, making.index, bytes(making.made))

    def _compact(self, env: Env, index: int, snapshot: bytes) -> None:
        self.log.compact(env.disk, index, snapshot)
        self.log.sync(env.disk)

    def _aside_done(self, env: Env) -> None:
        """What was written aside last is durable."""
        if self._making is not None:
            self._go_on_making(env, self._making)
        elif self._incoming is not None and len(self._incoming.held) == self._incoming.size:
            index = self._incoming.index
            self._install(env, self._incoming)
            if self.leader and self.role == FOLLOWER:
                self._answer_append(env, self.leader, {"round": 0}, ok=True, match=index)

    # The leader's side

    def _send_append(self, env: Env, name: str, peer: Peer) -> None:
        log, sending = self.log, peer.sending
        is_old = sending is not None and not sending.offset and sending.index < log.snapshot_index
        if is_old or (sending is None and peer.next < log.first):
            peer.sending = Sending(index=log.snapshot_index, term=log.snapshot_term, snapshot=log.snapshot)
            peer.in_flight, peer.is_far_behind = 0, True
        if peer.sending is None:
            super()._send_append(env, name, peer)
        else:
            self._send_piece(env, name, peer, peer.sending)

    def _send_piece(self, env: Env, name: str, peer: Peer, sending: Sending) -> None:
        """Send the next piece; while one is under way, only ask what became of it."""
        piece = b"" if peer.in_flight else sending.snapshot[sending.offset : sending.offset + self._piece_bytes]
        peer.in_flight, peer.probing, peer.untold = 1, True, False
        fields = {"term": self.term, "commit": self.commit, "round": self._rounds.last, "index": sending.index}
        fields |= {"snapshot_term": sending.term, "offset": sending.offset, "size": len(sending.snapshot)}
        self._send(env, name, Request.RAFT_SNAPSHOT, fields, piece)

    def _on_append_answer(self, env: Env, source: str, fields: Mapping[str, int]) -> None:
        peer = self._peers.get(source)
        if peer is not None and peer.sending is not None and fields["ok"] and fields["match"] >= peer.sending.index:
            peer.sending = None
        super()._on_append_answer(env, source, fields)
        if peer is not None and peer.sending is None and peer.next > self.log.last:
            peer.is_far_behind = False

    def _on_piece_answer(self, env: Env, source: str, fields: Mapping[str, int]) -> None:
        """Send what the follower lacks next."""
        peer = self._peers.get(source)
        if peer is None or not self.is_leader or fields["term"] != self.term:
            return
        self._heard(env, peer, fields["round"])
        sending = peer.sending
        if sending is not None and sending.goes_on(fields["index"], fields["offset"], fields["held"]):
            sending.offset, peer.in_flight = fields["held"], 0
            self._send_piece(env, source, peer, sending)
        self._release_reads(env)

    # The follower's side

    def _on_snapshot(self, env: Env, source: str, fields: Mapping[str, int], body: bytes) -> None:
        """Take a piece. A snapshot that is one piece is installed at once."""
        offset, size = fields["offset"], fields["size"]
        if offset + len(body) > size or size > MAX_SNAPSHOT_BYTES:
            raise Malformed(f"{len(body)} bytes at {offset} of a snapshot of {size}")
        incoming = self._incoming if self._incoming is not None and self._incoming.is_of(fields) else None
        held = b"" if incoming is None else incoming.held
        if len(body) == size - offset and offset == len(held) and (body or not size):
            try:
                self.machine.check_snapshot(split_snapshot(bytes(held) + body)[1])
            except Malformed:
                self._incoming = None
                raise
        if not self._accept_leader(env, source, fields):
            return
        if fields["index"] <= self.commit:
            self._answer_append(env, source, fields, ok=True, match=fields["index"])
            return
        if incoming is None:
            incoming = Incoming(index=fields["index"], term=fields["snapshot_term"], size=size)
            self._making, self._incoming = None, incoming
        if offset == 0 and len(body) == size and not incoming.held:
            incoming.held += body
            self._install(env, incoming)
            self._answer_append(env, source, fields, ok=True, match=incoming.index)
            return
        self._take_piece(env, source, fields, incoming, body)

    def _take_piece(self, env: Env, source: str, fields: Mapping[str, int], incoming: Incoming, body: bytes) -> None:
        if not incoming.held:
            self.log.begin_aside(env.disk, incoming.index, incoming.term)
        if body and fields["offset"] == len(incoming.held):
            incoming.held += body
            self.log.write_aside(env.disk, body)
        answer = {"answer": 1, "term": self.term, "index": incoming.index, "offset": fields["offset"]}
        answer |= {"held": len(incoming.held), "round": fields["round"]}
        self._send(env, source, Request.RAFT_SNAPSHOT, answer, after=self.log.aside_token)

    def _install(self, env: Env, incoming: Incoming) -> None:
        """Begin anew at this snapshot, unless more than that has been committed meanwhile."""
        self._incoming = None
        if incoming.index > self.commit:
            snapshot, first = bytes(incoming.held), incoming.index + 1
            last, term = self.log.last, self.log.term_at(first)
            self.log.install(env.disk, incoming.index, incoming.term, snapshot)
            if self.log.last < last:
                env.trace(events.EntriesCut(position=first, epoch=term, last=last))
            self.commit = self.applied = incoming.index
            self._restore(env)
            self.log.sync(env.disk)

    def _restore(self, env: Env) -> None:
        """Take over the log's snapshot, and the memberships in it and behind it."""
        members, state = split_snapshot(self.log.snapshot)
        self._memberships.begin(self.log.snapshot_index, members)
        for index in range(self.log.first, self.log.last + 1):
            self._memberships.logged(index, self.log.entry(index).data)
        if self.log.snapshot_index:
            self.machine.restore(env, state)
