"""Reads that wait: on the leader for a majority's word that it still leads, on a follower for the leader's answer; and
the lease with which a leader need not ask.

A read may only be confirmed by messages that were sent after it was asked. So each read waits for a *round* of messages
that had not begun then. One round is under way at a time; those who ask meanwhile wait for the next one, so that under
load one round confirms many reads. A follower's questions to its leader are bundled in the same way. (With more of them
under way at a time a read waits less, and costs the leader more: fewer share a round.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from chaos.node import Env

#: Called with True when the state machine may be read now, with False when the read must be asked again.
Readable = Callable[[Env, bool], None]


@dataclass(frozen=True, slots=True)
class Read:
    """A read that waits: for a majority's answer to ``round``, then for ``index`` to be applied."""

    index: int
    round: int
    then: Readable


class Rounds:
    """A leader's reads, in order of their rounds. ``last`` is the newest round that has begun."""

    def __init__(self) -> None:
        self.last = 0
        self._reads: deque[Read] = deque()

    def __len__(self) -> int:
        return len(self._reads)

    def add(self, index: int, then: Readable) -> None:
        self._reads.append(Read(index, self.last + 1, then))

    def renew(self) -> int:
        """Begin a round in any case; its messages are sent now. Returns its number."""
        self.last += 1
        return self.last

    def begin(self) -> bool:
        """Begin a round if a read waits for one and none is under way; True: its messages are to be sent now."""
        if not self._reads or self._reads[0].round <= self.last:
            return False
        self.last += 1
        return True

    def take(self, is_safe: Callable[[Read], bool]) -> list[Read]:
        """Remove and return the reads whose rounds are confirmed."""
        taken = []
        while self._reads and self._reads[0].round <= self.last and is_safe(self._reads[0]):
            taken.append(self._reads.popleft())
        return taken

    def end(self) -> list[Read]:
        ended, self._reads = list(self._reads), deque()
        return ended


class Lease:
    """How long a leader may answer reads unasked: nobody else can lead before it ends.

    A member grants no vote within an election timeout after it has heard its leader. So once a majority has answered
    messages of a moment, there is no other leader for an election timeout after it, each member's by its own clock. A
    lease is shorter than that, and holds as long as no clock of a member runs faster than the leader's by the ratio of
    the two: with 300 of 500 ms, by two thirds. How late messages are, or what wall clocks do, is of no importance.
    """

    def __init__(self, lease_ns: int) -> None:
        self._lease_ns = lease_ns
        self._sent: deque[tuple[int, int]] = deque()  # round, when its messages left
        self._until_ns: int | None = None
        self._given_up = False

    @property
    def is_wanted(self) -> bool:
        return self._lease_ns > 0

    def sent(self, round: int, now_ns: int) -> None:
        self._sent.append((round, now_ns))

    def confirmed(self, round: int) -> None:
        """Renew the lease: a majority has answered messages of this round, or of a later one."""
        while self._sent and self._sent[0][0] <= round:
            self._until_ns = self._sent.popleft()[1] + self._lease_ns

    def holds(self, now_ns: int) -> bool:
        return not self._given_up and self._until_ns is not None and now_ns < self._until_ns

    def give_up(self) -> None:
        """Hold no lease until this member leads again: from now on somebody may be elected at any time, though the
        members hear this leader."""
        self._given_up = True

    def end(self) -> None:
        self._sent.clear()
        self._until_ns = None
        self._given_up = False


class Questions:
    """A follower's reads: those that the question under way to the leader is for, and those that wait for the next."""

    def __init__(self) -> None:
        self._number = 0
        self._deadline_ns: int | None = None  # of the question under way
        self._asked: list[Readable] = []
        self._waiting: list[Readable] = []

    def __len__(self) -> int:
        return len(self._waiting) + len(self._asked)

    def add(self, then: Readable) -> None:
        self._waiting.append(then)

    def begin(self, deadline_ns: int) -> int | None:
        """Return the number of a question to send now, for all the reads that wait; None if there is none, or one is
        under way."""
        if not self._waiting or self._deadline_ns is not None:
            return None
        self._number += 1
        self._deadline_ns = deadline_ns
        self._asked, self._waiting = self._waiting, []
        return self._number

    def answered(self, number: int) -> list[Readable]:
        """Return the reads of an answered question; none if it was given up meanwhile."""
        if self._deadline_ns is None or number != self._number:
            return []
        self._deadline_ns = None
        asked, self._asked = self._asked, []
        return asked

    def end_late(self, now_ns: int) -> list[Readable]:
        """Give up a question whose deadline has passed, and the reads that wait behind it."""
        return self.end() if self._deadline_ns is not None and self._deadline_ns <= now_ns else []

    def end(self) -> list[Readable]:
        """Give up all."""
        ended = self._asked + self._waiting
        self._deadline_ns, self._asked, self._waiting = None, [], []
        return ended
