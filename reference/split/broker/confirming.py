"""Whether a broker still owns a group: asked of the group's leader, for many readers at once.

An owner that was replaced doesn't know it, and what it calls the end of a queue may be old. So "nothing new", the ends
of queues and the offsets of consumers are answered only after a read of the group that began behind the request and
found this owner's epoch (R9). Records themselves need none of this: they never change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chaos.node import Env
from reference.split.broker.asking import Outcome, Stores
from reference.split.requests import ConfirmAnswer, ConfirmRequest
from reference.wire.codes import Response

#: Called with whether the epoch was confirmed.
Then = Callable[[Env, bool], None]


@dataclass(slots=True)
class _Reader:
    then: Then
    deadline_ns: int


class Confirms:
    """The confirmations of one group in one epoch: one is under way, and who comes meanwhile waits for the next.
    ``trimmed`` is called with the queues that no longer begin at 0: (topic id, number, first offset)."""

    def __init__(
        self,
        stores: Stores,
        group: int,
        epoch: int,
        lost: Callable[[Env, int], None],
        trimmed: Callable[[Sequence[tuple[int, int, int]]], None],
        timeout_ns: int,
    ) -> None:
        self.group = group
        self.epoch = epoch
        self._stores = stores
        self._lost = lost
        self._trimmed = trimmed
        self._timeout_ns = timeout_ns
        self._asked: list[_Reader] = []  # those for whom the request under way was begun
        self._gathering: list[_Reader] = []
        self._is_asking = False  # or about to ask again
        self._is_closed = False

    def ask(self, env: Env, then: Then) -> None:
        """Have the epoch confirmed by a read that begins after now."""
        self._gathering.append(_Reader(then, env.mono_ns() + self._timeout_ns))
        if not self._is_asking:
            self._begin(env)

    def _begin(self, env: Env) -> None:
        """Ask for all who have come by now, and for nobody who comes later."""
        self._asked, self._gathering = self._asked + self._gathering, []
        self._is_asking = bool(self._asked)
        if self._is_asking:
            request = ConfirmRequest(group=self.group, epoch=self.epoch)
            self._stores.ask_leader(env, self.group, request, ConfirmAnswer.read, self._came)

    def _came(self, env: Env, outcome: Outcome[ConfirmAnswer]) -> None:
        if self._is_closed:
            return
        if outcome.answer is not None:
            self._trimmed(outcome.answer.starts)
            confirmed, self._asked = self._asked, []
            self._begin(env)
            for reader in confirmed:
                reader.then(env, True)
        elif outcome.code == Response.GROUP_FENCED:
            self._lost(env, outcome.code)
        else:
            now = env.mono_ns()
            late = [reader for reader in self._asked if reader.deadline_ns <= now]
            self._asked = [reader for reader in self._asked if reader.deadline_ns > now]
            for reader in late:
                reader.then(env, False)
            self._stores.again(env, outcome, self._again)

    def _again(self, env: Env) -> None:
        if not self._is_closed:
            self._begin(env)

    def close(self, env: Env) -> None:
        """The slice is lost: nobody who waits gets an answer from this owner."""
        self._is_closed = True
        waiting, self._asked, self._gathering = self._asked + self._gathering, [], []
        for reader in waiting:
            reader.then(env, False)
