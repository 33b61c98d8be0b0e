"""Linearizable reads (Ongaro's thesis, 6.4): on the leader after a round of messages, on a follower after its leader's
answer; in both cases once the entry that they must see is applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from chaos.node import Env
from reference.raft.policy import RaftPolicy
from reference.raft.read_index import Questions, Readable
from reference.raft.sending import Sender
from reference.raft.state import RaftState
from reference.wire.codes import Request

#: Reads that may wait on one member.
MAX_READS = 10_000


class Reads:
    """Reads of one member. ``waiting``: those that are safe once an index is applied."""

    def __init__(self, state: RaftState, policy: RaftPolicy, sender: Sender) -> None:
        self._state, self._policy, self._sender = state, policy, sender
        self.questions = Questions()
        self.waiting: list[tuple[int, Readable]] = []

    def __len__(self) -> int:
        return len(self._state.rounds) + len(self.questions) + len(self.waiting)

    def read(self, env: Env, then: Readable) -> None:
        """Run ``then`` once this member's state is at least as new as all that was done before this call."""
        state = self._state
        if self._policy.reads_locally():
            then(env, True)
        elif state.is_leader:
            index = max(state.commit, state.term_start)
            if state.lease.holds(self._policy.lease_clock_ns(env)):
                self.waiting.append((index, then))
            else:
                state.rounds.add(index, then)
            self.release(env)
        elif not state.leader:
            then(env, False)
        else:
            self.questions.add(then)
            self._ask_leader(env)

    def release(self, env: Env) -> None:
        """Go on with the reads that waited for a majority, or for an entry to be applied."""
        state, policy = self._state, self._policy
        if not self.waiting and not state.rounds:
            return
        self.waiting += [(read.index, read.then) for read in state.rounds.take(policy.read_is_safe)]
        if state.is_leader and state.rounds.begin():
            for name, peer in state.peers.items():
                self._sender.show(env, name, peer)
            self.waiting += [(read.index, read.then) for read in state.rounds.take(policy.read_is_safe)]
        ready = [then for index, then in self.waiting if policy.may_read_at(index)]
        if ready:
            self.waiting = [waiting for waiting in self.waiting if not policy.may_read_at(waiting[0])]
        for then in ready:
            then(env, True)

    def refuse_asked(self, env: Env) -> None:
        """Refuse what was asked of a leader that is none any more, or can't answer."""
        refuse(env, self.questions.end())

    def refuse_late(self, env: Env) -> None:
        """Refuse what a leader has not answered in time."""
        refuse(env, self.questions.end_late(env.mono_ns()))

    def _ask_leader(self, env: Env) -> None:
        state = self._state
        number = self.questions.begin(env.mono_ns() + 2 * state.election_ns)
        if number is not None:
            state.send(env, state.leader, Request.RAFT_READ, {"term": state.term, "number": number})

    def on_question(self, env: Env, source: str, fields: Mapping[str, int], body: bytes) -> None:
        """Answer a follower that asks for an index that is safe to read at; it must have applied it itself."""
        if self._state.is_leader:
            self.read(env, partial(self._answer, source, fields["number"]))
        else:
            self._answer(source, fields["number"], env, False)

    def _answer(self, source: str, number: int, env: Env, safe: bool) -> None:
        state = self._state
        answer = {"answer": 1, "number": number, "index": state.applied if safe else -1, "term": state.term}
        state.send(env, source, Request.RAFT_READ, answer)

    def on_answer(self, env: Env, fields: Mapping[str, int]) -> None:
        asked = self.questions.answered(fields["number"])
        if fields["index"] < 0:
            refuse(env, asked)
        else:
            self.waiting += [(fields["index"], then) for then in asked]
            self.release(env)
        if self._policy.asks_again():
            self._ask_leader(env)


def refuse(env: Env, reads: Sequence[Readable]) -> None:
    """Have these reads be asked again."""
    for then in reads:
        then(env, False)
