"""From the log to the state machine: committed entries, in their order, a bounded number in one step."""

from __future__ import annotations

from dataclasses import asdict

from chaos import events
from chaos.node import Env
from reference.raft.members import unpack_members
from reference.raft.reads import Reads
from reference.raft.snapshots import Snapshots
from reference.raft.state import RaftState

MAX_APPLY_COUNT = 256

APPLY = "raft.apply"


class Applier:
    """Applies the entries of one member."""

    def __init__(self, state: RaftState, snapshots: Snapshots, reads: Reads) -> None:
        self._state, self._snapshots, self._reads = state, snapshots, reads

    def apply(self, env: Env) -> None:
        """Feed committed entries to the state machine; then there may be a snapshot to make, and reads to answer."""
        state = self._state
        end = min(state.commit, state.applied + MAX_APPLY_COUNT)
        while state.applied < end:
            index = state.applied + 1
            entry = state.log.entry(index)
            members = unpack_members(entry.data)
            outcome = state.machine.apply(env, index, entry.term, entry.data if members is None else b"")
            if members is not None:
                env.trace(events.RaftMembers(position=index, epoch=entry.term, **asdict(members)))
                state.members_applied(env, index, members)
            state.applied = index
            then = state.proposals.pop(index, None)
            if then is not None:
                then(env, outcome, index)
        if state.applied < state.commit:
            env.set_timer(APPLY, 0)
        self._snapshots.compact_if_due(env)
        self._reads.release(env)

    def commit(self, env: Env, index: int) -> bool:
        """Take entries up to ``index`` for committed; False if they were before."""
        if index <= self._state.commit:
            return False
        self._state.commit = index
        self.apply(env)
        return True
