"""What a Raft leader knows of one follower, and what it may send it."""

from __future__ import annotations

from dataclasses import dataclass

#: So many appends to a follower leave as they come; while they are under way, entries gather until they fill one.
MAX_UNGATHERED = 8


@dataclass(slots=True, kw_only=True)
class Sending:
    """A snapshot on its way to one follower, which holds it up to ``offset``; the piece from there on is under way."""

    index: int
    term: int
    snapshot: bytes
    offset: int = 0

    def goes_on(self, index: int, offset: int, held: int) -> bool:
        """Return whether the next piece is due after an answer to that at ``offset``: the follower holds more than
        before, or lacks the piece that is under way. An answer to an older piece says nothing new."""
        return index == self.index and 0 <= held < len(self.snapshot) and (held > self.offset or offset == self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """A learner is to get the entries up to ``end``, which was the log's at ``since_ns``."""

    end: int
    since_ns: int


@dataclass(slots=True)
class Peer:
    """``next`` is the next entry to send, ``match`` the last one that the follower is known to have on its disk. While
    ``probing``, one append is under way at a time. ``untold``: it is still to be sent the newest commit index, since it
    is being probed, or too much was under way. ``sending``: the snapshot that it is sent instead of entries.
    ``is_far_behind``: it needed one, and has not been sent all entries behind it yet. ``catch_up``: how a learner
    does."""

    next: int
    match: int = 0
    in_flight: int = 0
    probing: bool = True
    untold: bool = False
    heard_ns: int = 0
    round: int = 0
    sending: Sending | None = None
    is_far_behind: bool = False
    catch_up: CatchUp | None = None

    def probe(self, first: int) -> None:
        """Find out what the follower has; what is under way may be lost."""
        self.next, self.in_flight, self.probing = first, 0, True

    def is_due(self, last: int, *, batch: int, most: int) -> bool:
        """Return whether it is sent something now: entries up to ``last``, or how far it may apply them. ``batch``
        entries fill an append; ``most`` appends may be under way."""
        lacking = last - self.next + 1
        if self.probing:
            return lacking > 0 and self.in_flight == 0
        if self.in_flight >= most:
            return False
        if self.in_flight < MAX_UNGATHERED:
            return lacking > 0 or self.untold
        return lacking >= batch
