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
from reference.raft.members import split_snapshot
from reference.raft.state import RaftState
from reference.wire.codes import Request

#: No larger one is taken.
MAX_SNAPSHOT_BYTES = 1 << 30
#: For followers that are far behind, a leader keeps entries for so many snapshots at most.
KEPT_SNAPSHOTS = 16
#: With each entry whose index is a multiple of this the trace says how much of the log is kept.
TRACE_LOG = 64


@dataclass(slots=True, kw_only=True)
class Making:
    """A snapshot of the state at ``index`` that is being made."""

    index: int
    pieces: Iterator[bytes]
    made: bytearray


@dataclass(slots=True, kw_only=True)
class Incoming:
    """A snapshot that is being received: ``held`` is written aside, by a member that has its log's file to itself.
    ``preparing``: the sync of the files that it needs."""

    index: int
    term: int
    size: int
    held: bytearray = field(default_factory=bytearray)
    preparing: int | None = None

    def is_of(self, fields: Mapping[str, int]) -> bool:
        return (self.index, self.term, self.size) == (fields["index"], fields["snapshot_term"], fields["size"])


class Snapshots:
    """Snapshots of one member, its own and its leader's. One at a time is written aside; in a file that many logs
    share, it is one record."""

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self._making: Making | None = None
        self.incoming: Incoming | None = None

    def log_fields(self, env: Env, index: int) -> Mapping[str, Any]:
        """Return what is traced of the log with an entry that is applied, now and then: its first entry behind the
        snapshot, the snapshot's size, after how many entries the next one is due, whether a follower far behind puts
        that off, and how many files there are."""
        if index % TRACE_LOG:
            return {}
        log = self._state.log
        found = {"first": log.first, "bytes": len(log.snapshot), "every": self._state.options.snapshot_entries}
        return {"log": {**found, "behind": self._are_needed(env), "files": log.count_files(env.disk)}}

    # Making one

    def compact_if_due(self, env: Env) -> None:
        """Replace entries that were applied by a snapshot, once there are enough of them. A large snapshot is followed
        by the next one when the log behind it has become half as large: so they cost a constant share of each entry,
        however large the state is."""
        state, log, every = self._state, self._state.log, self._state.options.snapshot_entries
        if self.incoming is not None and self.incoming.index <= state.commit:
            self.incoming = None  # the entries came otherwise
        kept = state.applied - log.snapshot_index
        if kept < every or self._making is not None or self.incoming is not None or log.is_mostly_snapshot:
            return
        if not state.machine.may_compact():
            return
        if self._are_needed(env) and kept < KEPT_SNAPSHOTS * every:
            return
        pieces = iter(state.machine.snapshot())
        head = state.memberships.compact(state.applied)
        first, second = head + next(pieces, b""), next(pieces, b"")
        if not second or log.wal.is_shared:
            self._compact(env, state.applied, b"".join((first, second, *pieces)))
            return
        self._making = Making(index=state.applied, pieces=pieces, made=bytearray())
        log.begin_aside(env.disk, state.applied, log.term_at(state.applied))
        self._write_piece(env, self._making, first + second)

    def _are_needed(self, env: Env) -> bool:
        """Return whether a follower that lives gets a snapshot, or the entries behind one. One whose snapshots take
        longer than making them would otherwise get one after the other, and never an entry."""
        now, patience_ns = env.mono_ns(), self._state.election_ns
        peers = self._state.peers.values()
        return any(peer.is_far_behind and now - peer.heard_ns <= patience_ns for peer in peers)

    def _write_piece(self, env: Env, making: Making, piece: bytes) -> None:
        making.made += piece
        self._state.log.write_aside(env.disk, piece)

    def _go_on_making(self, env: Env, making: Making) -> None:
        """Write the next piece, now that the one before is durable."""
        piece = next(making.pieces, b"")
        if piece:
            self._write_piece(env, making, piece)
            return
        self._making = None
        self._compact(env, making.index, bytes(making.made))

    def _compact(self, env: Env, index: int, snapshot: bytes) -> None:
        """Begin the log at a snapshot; where the disk has no room for it, the entries stay for now."""
        log = self._state.log
        if log.has_room(env.disk, len(snapshot)):
            log.compact(env.disk, index, snapshot)
            log.sync(env.disk)

    def is_prepared(self, token: int) -> bool:
        """Return whether this sync was that of the files that the leader's snapshot needs."""
        return self.incoming is not None and self.incoming.preparing == token

    def go_on(self, env: Env) -> int | None:
        """Go on, now that what was written aside last is durable, or the files that a snapshot needs. Returns the last
        entry of a snapshot of the leader's that is installed by it; None without one."""
        if self._making is not None:
            self._go_on_making(env, self._making)
        elif self.incoming is not None and len(self.incoming.held) == self.incoming.size:
            return self._install(env, self.incoming)
        return None

    # Those that a follower needs: the leader's side

    def settle(self, source: str, fields: Mapping[str, int]) -> None:
        """Stop sending a snapshot to a follower whose answer to an append shows that it has what the snapshot holds."""
        peer = self._state.peers.get(source)
        if peer is not None and peer.sending is not None and fields["ok"] and fields["match"] >= peer.sending.index:
            peer.sending = None

    # The follower's side

    def check(self, fields: Mapping[str, int], body: bytes) -> None:
        """Raise :class:`chaos.node.Malformed` for a piece that can't be, or that completes what can't be restored."""
        offset, size = fields["offset"], fields["size"]
        if offset + len(body) > size or size > MAX_SNAPSHOT_BYTES:
            raise Malformed(f"{len(body)} bytes at {offset} of a snapshot of {size}")
        incoming = self._incoming_of(fields)
        held = b"" if incoming is None else incoming.held
        if len(body) == size - offset and offset == len(held) and (body or not size):
            try:
                self._state.machine.check_snapshot(split_snapshot(bytes(held) + body)[1])
            except Malformed:
                self.incoming = None
                raise

    def take(self, env: Env, source: str, fields: Mapping[str, int], body: bytes) -> int | None:
        """Take a piece from the leader. Returns the entry up to which this member now has what the snapshot holds; None
        while pieces are missing. A snapshot that is one piece is installed at once."""
        state = self._state
        if fields["index"] <= state.commit:
            return fields["index"]
        incoming = self._incoming_of(fields)
        if incoming is None:
            incoming = Incoming(index=fields["index"], term=fields["snapshot_term"], size=fields["size"])
            self._making, self.incoming = None, incoming
        if fields["offset"] == 0 and len(body) == fields["size"] and not incoming.held:
            incoming.held += body
            return self._install(env, incoming)
        had = len(incoming.held)
        self._take_piece(env, source, fields, incoming, body)
        if state.log.wal.is_shared and had < len(incoming.held) == incoming.size:
            return self._install(env, incoming)
        return None

    def _incoming_of(self, fields: Mapping[str, int]) -> Incoming | None:
        return self.incoming if self.incoming is not None and self.incoming.is_of(fields) else None

    def _take_piece(self, env: Env, source: str, fields: Mapping[str, int], incoming: Incoming, body: bytes) -> None:
        state = self._state
        writes_aside = not state.log.wal.is_shared
        if writes_aside and not incoming.held:
            state.log.begin_aside(env.disk, incoming.index, incoming.term)
        if body and fields["offset"] == len(incoming.held):
            incoming.held += body
            if writes_aside:
                state.log.write_aside(env.disk, body)
        answer = {"answer": 1, "term": state.term, "index": incoming.index, "offset": fields["offset"]}
        answer |= {"held": len(incoming.held), "round": fields["round"]}
        state.send(env, source, Request.RAFT_SNAPSHOT, answer, after=state.log.aside_token)

    def _install(self, env: Env, incoming: Incoming) -> int | None:
        """Begin again at this snapshot, unless more than that has been committed meanwhile. Returns its last entry;
        None while files that it needs are not on the disk, or where there is no room."""
        state, log = self._state, self._state.log
        self.incoming = None  # it is sent again where there is no room for it
        if incoming.index > state.commit:
            content = split_snapshot(bytes(incoming.held))[1]
            if incoming.preparing is None:
                incoming.preparing = state.machine.prepare(env, content)
                if incoming.preparing is not None:
                    self.incoming = incoming
                    return None
            head, first = bytes(incoming.held[: incoming.size - len(content)]), incoming.index + 1
            snapshot, last, term = head + state.machine.kept(content), log.last, log.term_at(first)
            if not log.has_room(env.disk, len(snapshot)):
                return None
            log.install(env.disk, incoming.index, incoming.term, snapshot)
            if log.last < last:
                env.trace(events.EntriesCut(position=first, epoch=term, last=last))
            state.commit = state.applied = incoming.index
            self.restore(env)
            log.sync(env.disk)
        return incoming.index

    def restore(self, env: Env) -> None:
        """Take over the log's snapshot, and the memberships in it and behind it."""
        state, log = self._state, self._state.log
        since, content = split_snapshot(log.snapshot)
        state.memberships.begin(since)
        for index in range(log.first, log.last + 1):
            state.memberships.logged(index, log.entry(index).data)
        if log.snapshot_index:
            state.machine.restore(env, content)
