"""Who belongs to a Raft group, and how that stands in the log and in front of a snapshot.

A membership counts on each member from the moment that it is logged there, committed or not (Ongaro's thesis, 4.1).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from chaos.node import Malformed
from reference.wire.fields import item, listed, read_object

#: With this begins what is Raft's own in entries and snapshots; no state machine writes it.
_MARK = b"\0"
#: This ends it in front of a snapshot.
_END = b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """Who votes, and who only gets the log: learners, which vote once they have caught up."""

    voters: tuple[str, ...]
    learners: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.voters, *self.learners)

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    def with_learner(self, name: str) -> Members:
        return Members(voters=self.voters, learners=(*self.learners, name))

    def with_voter(self, name: str) -> Members:
        gone = self.without(name)
        return Members(voters=(*gone.voters, name), learners=gone.learners)

    def without(self, name: str) -> Members:
        return Members(
            voters=tuple(one for one in self.voters if one != name),
            learners=tuple(one for one in self.learners if one != name),
        )


def pack_members(members: Members) -> bytes:
    """Return a membership as an entry's data."""
    return _MARK + json.dumps(asdict(members)).encode()


def unpack_members(data: bytes) -> Members | None:
    """Return the membership in an entry; None in one of the state machine. Raises :class:`chaos.node.Malformed`."""
    if not data.startswith(_MARK):
        return None
    value = read_object(data[len(_MARK) :])
    members = Members(voters=tuple(listed(value, "voters", str)), learners=tuple(listed(value, "learners", str)))
    if not members.voters or len(set(members.all)) != len(members.all):
        raise Malformed(f"{len(members.voters)} voters and {len(members.learners)} learners are no group")
    return members


#: A membership, and the index of its entry.
Since = tuple[int, Members]


def head_of_snapshot(index: int, members: Members) -> bytes:
    """Return what stands in front of a state machine's snapshot where the membership isn't that of the beginning, but
    that of the entry at ``index``."""
    return _MARK + json.dumps({**asdict(members), "index": index}).encode() + _END


def split_snapshot(snapshot: bytes) -> tuple[Since | None, bytes]:
    """Return the membership of a snapshot (None: that of the beginning), and the state machine's part. Raises
    :class:`chaos.node.Malformed`."""
    if not snapshot.startswith(_MARK):
        return None, snapshot
    head, _, rest = snapshot.partition(_END)
    members = unpack_members(head)
    assert members is not None
    return (item(read_object(head[len(_MARK) :]), "index", int), members), rest


class Memberships:
    """The memberships in the log, by the indices of their entries; the last one counts. Index 0 is the beginning."""

    def __init__(self, names: Sequence[str]) -> None:
        self.beginning = Members(voters=tuple(names))
        self._known: list[Since] = [(0, self.beginning)]

    @property
    def index(self) -> int:
        return self._known[-1][0]

    @property
    def current(self) -> Members:
        return self._known[-1][1]

    def born(self, names: Sequence[str]) -> None:
        """Take note of the members of the beginning, which were not known so far."""
        self.beginning = Members(voters=tuple(names))
        if self._known[0][0] == 0:
            self._known[0] = (0, self.beginning)

    def committed(self, commit: int) -> Since:
        """Return the newest membership among the entries up to ``commit``, and its index."""
        return next(known for known in reversed(self._known) if known[0] <= commit or known is self._known[0])

    def begin(self, since: Since | None) -> None:
        """Begin with a snapshot of this membership; None for that of the beginning."""
        self._known = [since or (0, self.beginning)]

    def logged(self, index: int, data: bytes) -> None:
        """Take in an entry that has been logged here, and has replaced all from its index on."""
        while len(self._known) > 1 and self._known[-1][0] >= index:
            self._known.pop()
        members = unpack_members(data)
        if members is not None:
            self._known.append((index, members))

    def compact(self, index: int) -> bytes:
        """Forget those before the one that counted at ``index``; what to write in front of a snapshot up to there."""
        while len(self._known) > 1 and self._known[1][0] <= index:
            del self._known[0]
        since, members = self._known[0]
        return head_of_snapshot(since, members) if since else b""
