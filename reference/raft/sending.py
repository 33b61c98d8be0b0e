"""What a leader sends its followers: entries, pipelined and in batches, or pieces of a snapshot (Ongaro's thesis, 3.5,
10.2 and chapter 5).

The first few appends leave at once; what comes while they are under way gathers into batches. Of a snapshot one piece
is under way at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from chaos.node import Env
from reference.raft.log import Entry, pack_entries
from reference.raft.members import split_snapshot
from reference.raft.peer import Peer, Sending
from reference.raft.state import RaftState
from reference.wire.codes import Request

MAX_APPEND_BYTES = 256 * 1024


class Sender:
    """Sends as the leader."""

    def __init__(self, state: RaftState) -> None:
        self._state = state

    def send_ready(self, env: Env, name: str, peer: Peer) -> None:
        """Send what a follower lacks, as far as the window allows."""
        options = self._state.options
        while peer.is_due(self._state.log.last, batch=options.append_entries, most=options.in_flight):
            self.send_next(env, name, peer)

    def show(self, env: Env, name: str, peer: Peer) -> None:
        """Show a follower that we lead, with the newest round of reads and commit index."""
        self.send_next(env, name, peer)

    def send_next(self, env: Env, name: str, peer: Peer) -> None:
        """Send a follower what comes next, or that we lead: an append, or a piece of a snapshot where the log does not
        hold what it lacks."""
        log, sending = self._state.log, peer.sending
        is_old = sending is not None and not sending.offset and sending.index < log.snapshot_index
        if is_old or (sending is None and peer.next < log.first):
            peer.sending = Sending(index=log.snapshot_index, term=log.snapshot_term, snapshot=self._outgoing())
            peer.in_flight, peer.is_far_behind = 0, True
        if peer.sending is None:
            self._send_append(env, name, peer)
        else:
            self.send_piece(env, name, peer, peer.sending)

    def _outgoing(self) -> bytes:
        """Return what a follower is sent of the log's snapshot: its membership, and all that the machine needs."""
        snapshot = self._state.log.snapshot
        content = split_snapshot(snapshot)[1]
        return snapshot[: len(snapshot) - len(content)] + self._state.machine.outgoing(content)

    def _send_append(self, env: Env, name: str, peer: Peer) -> None:
        """Send one append: entries if there are any to send, a heartbeat otherwise."""
        state = self._state
        fields = {"term": state.term, "commit": state.commit, "round": state.rounds.last}
        peer.untold = False
        fields |= {"prev": peer.next - 1, "prev_term": state.log.term_at(peer.next - 1)}
        entries: Sequence[Entry] = ()
        if peer.in_flight < state.options.in_flight:
            entries = state.log.slice(peer.next, max_bytes=MAX_APPEND_BYTES, max_count=state.options.append_entries)
        peer.in_flight += 1
        if not peer.probing:
            peer.next += len(entries)
        state.send(env, name, Request.RAFT_APPEND, fields, pack_entries(entries))

    def send_piece(self, env: Env, name: str, peer: Peer, sending: Sending) -> None:
        """Send the next piece; while one is under way, only ask what became of it."""
        state = self._state
        end = sending.offset + state.options.piece_bytes
        piece = b"" if peer.in_flight else sending.snapshot[sending.offset : end]
        peer.in_flight, peer.probing, peer.untold = 1, True, False
        fields = {"term": state.term, "commit": state.commit, "round": state.rounds.last, "index": sending.index}
        fields |= {"snapshot_term": sending.term, "offset": sending.offset, "size": len(sending.snapshot)}
        state.send(env, name, Request.RAFT_SNAPSHOT, fields, piece)
