"""Linearizable reads (Ongaro's thesis, 6.4): on the leader after a round of messages, on a follower after its leader's
answer; in both cases once the entry that they must see is applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from chaos.node import Env
from reference.controller.raft_state import LEADER, RaftState
from reference.controller.read_index import Readable
from reference.wire.codes import Request


class Reads(RaftState):
    """Reads of one member."""

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
        if self.role == LEADER:
            self.read(env, partial(self._tell_index, source, fields["number"]))
        else:
            self._tell_index(source, fields["number"], env, False)

    def _tell_index(self, source: str, number: int, env: Env, safe: bool) -> None:
        answer = {"answer": 1, "number": number, "index": self.applied if safe else -1, "term": self.term}
        self._send(env, source, Request.RAFT_READ, answer)

    def _on_read_answer(self, env: Env, fields: Mapping[str, int]) -> None:
        asked = self._questions.answered(fields["number"])
        if fields["index"] < 0:
            refuse(env, asked)
        else:
            self._waiting += [(fields["index"], then) for then in asked]
            self._release_reads(env)
        if self.role != LEADER and self.leader:
            self._ask_leader(env)


def refuse(env: Env, reads: Sequence[Readable]) -> None:
    """Tell these reads that they must be asked anew."""
    for then in reads:
        then(env, False)
