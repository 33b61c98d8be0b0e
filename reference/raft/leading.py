"""The leader's side of replication: proposals become entries, and entries of a majority are committed (Ongaro's thesis,
3.5 and 3.6)."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.node import Env
from reference.raft.applying import Applier
from reference.raft.log import Entry
from reference.raft.peer import Peer
from reference.raft.policy import RaftPolicy
from reference.raft.reads import Reads
from reference.raft.sending import Sender
from reference.raft.state import RaftState
from reference.raft.state_machine import Proposed


class Leading:
    """Replication, as the leader."""

    def __init__(self, state: RaftState, policy: RaftPolicy, sender: Sender, reads: Reads, applier: Applier) -> None:
        self.state, self.sender = state, sender
        self._policy, self._reads, self._applier = policy, reads, applier

    def begin_term(self, env: Env) -> None:
        """Log an entry of the new term, since nothing that earlier ones have left is committed without one."""
        self.append(env, b"")

    def propose(self, env: Env, data: bytes, then: Proposed) -> None:
        """Append an entry; ``then`` runs when it has been applied, or when its outcome can't be known any more. Empty
        ``data`` changes nothing."""
        assert self.state.is_leader
        self.state.proposals[self.state.log.last + 1] = then
        self.append(env, data)

    def append(self, env: Env, data: bytes) -> None:
        """Log an entry and send it. Entries gather while a sync of the log is under way."""
        state = self.state
        state.put(env, state.log.last + 1, Entry(state.term, data))
        for name, peer in state.peers.items():
            self.sender.send_ready(env, name, peer)
        if not state.log.syncing:
            state.log.sync(env.disk)

    def on_append_answer(self, env: Env, source: str, fields: Mapping[str, int]) -> None:
        state, peer = self.state, self.state.peers.get(source)
        if peer is None or not state.is_leader or fields["term"] != state.term:
            return
        self.hear(env, peer, fields["round"])
        peer.in_flight = max(0, peer.in_flight - 1)
        if fields["ok"]:
            peer.match = max(peer.match, fields["match"])
            peer.next = max(peer.next, peer.match + 1) if not peer.probing else peer.match + 1
            peer.probing = False
            self.advance_commit(env)
        elif fields["prev"] == peer.next - 1 or not peer.probing:
            peer.probe(min(fields["match"], state.log.last) + 1)
            if peer.next > fields["prev"]:  # it has committed something else: no use in asking more than now and then
                peer.in_flight = 1
        self._reads.release(env)
        if state.is_leader:
            self.sender.send_ready(env, source, peer)

    def on_piece_answer(self, env: Env, source: str, fields: Mapping[str, int]) -> None:
        """Send what the follower lacks next of a snapshot."""
        state, peer = self.state, self.state.peers.get(source)
        if peer is None or not state.is_leader or fields["term"] != state.term:
            return
        self.hear(env, peer, fields["round"])
        sending = peer.sending
        if sending is not None and sending.goes_on(fields["index"], fields["offset"], fields["held"]):
            sending.offset, peer.in_flight = fields["held"], 0
            if not sending.offset:
                peer.sending = None  # it is made again: what it lacked may be here by now
            self.sender.send_next(env, source, peer)
        self._reads.release(env)

    def hear(self, env: Env, peer: Peer, round: int) -> None:
        """Note that a follower has answered a message of this round."""
        state = self.state
        peer.heard_ns = env.mono_ns()
        peer.round = max(peer.round, round)
        if not state.lease.is_wanted:
            return
        rounds = sorted(known.round for known in state.voting_peers())
        needed = state.members.majority - state.is_voter
        state.lease.confirmed(rounds[-needed] if needed else round)

    def advance_commit(self, env: Env) -> None:
        """Commit what a majority has on its disks."""
        state = self.state
        own = [self._policy.own_match()] if state.is_voter else []
        matches = sorted([*own, *(peer.match for peer in state.voting_peers())], reverse=True)
        index = min(matches[state.members.majority - 1], state.log.last)
        if index > state.commit and self._policy.may_commit(index):
            self._applier.commit(env, index)
            self._send_commit(env)

    def _send_commit(self, env: Env) -> None:
        """Followers apply (and answer reads) without waiting for the next heartbeat; one that is being probed hears it
        when its answer ends that. They are none once we lead no more."""
        if not self._policy.tells_commit_at_once():
            return
        for name, peer in self.state.peers.items():
            peer.untold = True
            self.sender.send_ready(env, name, peer)
