"""Which store a broker asks about a group: the one that is said to lead it, or any of its members to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from chaos.node import Env
from reference.split.calls import Calls, Request
from reference.split.names import node_of
from reference.split.requests import REFUSALS, Refusal
from reference.split.view import Cluster
from reference.wire.codes import Response
from reference.wire.command import Command

A = TypeVar("A")

#: After how long a request is made again that did not reach the leader.
RETRY_NS = 50_000_000
#: So long a store that was silent is not asked again though others say that it leads: they may not have noticed yet.
AVOID_NS = 300_000_000
#: So often is the time doubled that a leader may take, as long as none answers within it: links may be slow.
MOST_DOUBLINGS = 3
#: So often in a row a request follows at once who is said to lead; in an election stores may name each other.
MOST_REDIRECTS = 2


@dataclass(frozen=True, slots=True)
class Outcome(Generic[A]):
    """What came of a request to a group: its answer, or a refusal; neither where that can't be known. ``at_once``:
    another store is said to lead, so that it is worth asking again without delay."""

    answer: A | None = None
    refusal: Refusal | None = None
    at_once: bool = False

    @property
    def code(self) -> int:
        """The code of the refusal; -1 for none."""
        return -1 if self.refusal is None else self.refusal.code


class Stores:
    """The stores as a broker asks them. A request is made once; who asks makes it again."""

    def __init__(self, calls: Calls, cluster: Cluster, *, call_ns: int, read_ns: int) -> None:
        self.calls = calls
        self._cluster = cluster
        self._call_ns = call_ns
        self._read_ns = read_ns
        self._leaders: dict[int, str] = {}  # by group: who leads, as far as anybody said
        self._turns: dict[int, int] = {}  # by group: how many members were asked in vain
        self._redirects: dict[int, int] = {}
        self._doublings: dict[int, int] = {}  # by group: of the time that its leader may take
        self._avoided: dict[int, tuple[str, int]] = {}  # by group: who was silent, and until when
        self._reads = 0

    def members(self, group: int) -> Sequence[str]:
        """Return the nodes that vote in a group, as meta knows it; those that it was born with at first."""
        known = self._cluster.group(group)
        return [node_of(name) for name in known.voters or known.birth] if known is not None else []

    def ask_leader(
        self,
        env: Env,
        group: int,
        request: Request,
        read: Callable[[Command], A],
        then: Callable[[Env, Outcome[A]], None],
    ) -> None:
        """Ask the leader of a group once, as far as it is known."""
        members = self.members(group)
        if not members:
            self.calls.later(env, RETRY_NS, lambda env: then(env, Outcome()))
            return
        store = self._leaders.get(group) or members[self._turns.get(group, 0) % len(members)]

        asked_ns, timeout_ns = env.mono_ns(), self._call_ns << self._doublings.get(group, 0)

        def came(env: Env, outcome: Outcome[A] | None) -> None:
            now = env.mono_ns()
            if outcome is None and now - asked_ns >= timeout_ns:
                self._was_silent(group, store, now)
            elif outcome is not None and now - asked_ns < self._call_ns:
                self._doublings[group] = 0
            then(env, self._learn(group, store, outcome or Outcome(), now))

        self.calls.ask(env, store, request, _reader(read), came, timeout_ns)

    def _was_silent(self, group: int, store: str, now_ns: int) -> None:
        self._avoided[group] = store, now_ns + AVOID_NS
        self._doublings[group] = min(MOST_DOUBLINGS, self._doublings.get(group, 0) + 1)

    def _learn(self, group: int, store: str, outcome: Outcome[A], now_ns: int) -> Outcome[A]:
        """Learn from an outcome who leads."""
        if outcome.answer is not None:
            self._leaders[group], self._redirects[group] = store, 0
            return outcome
        refusal = outcome.refusal
        if refusal is not None and refusal.code not in (Response.GROUP_NOT_LEADER, Response.GROUP_MOVED):
            return outcome
        if self._leaders.get(group) == store:
            del self._leaders[group]
        leader = refusal.leader if refusal is not None else ""
        avoided, until_ns = self._avoided.get(group, ("", 0))
        is_avoided = leader == avoided and now_ns < until_ns
        if leader in ("", store) or is_avoided or self._cluster.store(leader) is None:
            self._turns[group] = self._turns.get(group, 0) + 1
            return outcome
        self._leaders[group] = leader
        self._redirects[group] = self._redirects.get(group, 0) + 1
        if self._redirects[group] <= MOST_REDIRECTS:
            return replace(outcome, at_once=True)
        self._redirects[group] = 0
        return outcome

    def ask_reader(
        self,
        env: Env,
        group: int,
        attempt: int,
        request: Request,
        read: Callable[[Command], A],
        then: Callable[[Env, Outcome[A]], None],
    ) -> None:
        """Ask one of the members for what any of them may have. ``attempt``: how many were asked before it."""
        members = self.members(group)
        if not members:
            self.calls.later(env, RETRY_NS, lambda env: then(env, Outcome()))
            return
        self._reads += attempt == 0
        store = members[(self._reads + attempt) % len(members)]

        def came(env: Env, outcome: Outcome[A] | None) -> None:
            then(env, outcome or Outcome())

        self.calls.ask(env, store, request, _reader(read), came, self._read_ns)

    def map_of(self, group: int) -> int:
        """Return the index of the MEMBERS by which stores are chosen; -1 where none is known."""
        known = self._cluster.group(group)
        return known.index if known is not None else -1

    def again(self, env: Env, outcome: Outcome[A], then: Callable[[Env], None]) -> None:
        """Make a request again: at once where that helps, else later."""
        if outcome.at_once:
            then(env)
        else:
            self.calls.later(env, RETRY_NS, then)


def _reader(read: Callable[[Command], A]) -> Callable[[Command], Outcome[A]]:
    """Return what reads an answer of a store, its refusals too."""

    def outcome_of(message: Command) -> Outcome[A]:
        if message.code == Response.SUCCESS:
            return Outcome(answer=read(message))
        return Outcome(refusal=Refusal.read(message)) if message.code in REFUSALS else Outcome()

    return outcome_of
