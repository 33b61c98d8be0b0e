"""Where queues lie: which group holds a queue, which slice owns a group, and how clients number queues.

A cluster has G groups and S slices for as long as it lives. Group g belongs to slice g modulo S. A queue is the
*number* that it has in its topic; clients call it by its *rank* among the numbers of its topic that lie in one slice.
Ranks never change when a topic grows. All of this is arithmetic: nothing is kept for a queue.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from chaos.node import Malformed
from reference.wire.codes import Response

MAX_GROUPS = 4096
#: Clients send a heartbeat to each name of a broker.
MAX_SLICES_OF_A_BROKER = 16
_PREFIX = "slice-"


def check_layout(groups: int, slices: int) -> None:
    """Raise ``ValueError`` for a number of groups or slices that no cluster can have."""
    if not 1 <= groups <= MAX_GROUPS:
        raise ValueError(f"groups must be between 1 and {MAX_GROUPS}, not {groups}")
    if not 1 <= slices <= groups:
        raise ValueError(f"slices must be between 1 and the number of groups, {groups}, not {slices}")


def topic_hash(topic_id: int) -> int:
    """Return a number of 32 bits that differs between topics, so that they don't all begin in one group."""
    return zlib.crc32(str(topic_id).encode())


def group_of(topic_id: int, number: int, groups: int) -> int:
    """Return the group that holds a queue."""
    return (topic_hash(topic_id) + number) % groups


def slice_of(group: int, slices: int) -> int:
    """Return the slice that a group belongs to."""
    return group % slices


def groups_in(number: int, groups: int, slices: int) -> Sequence[int]:
    """Return the groups of a slice, ascending."""
    return range(number, groups, slices)


def slice_name(number: int) -> str:
    """Return the brokerName by which clients know a slice."""
    return f"{_PREFIX}{number}"


def slice_number(name: str, slices: int = MAX_GROUPS) -> int:
    """Return the slice of a brokerName. Raises :class:`chaos.node.Malformed` for what names none of so many slices."""
    digits = name.removeprefix(_PREFIX)
    if digits.isascii() and digits.isdigit() and len(digits) <= 4:
        number = int(digits)
        if number < slices and slice_name(number) == name:
            return number
    raise Malformed(f"{name[:80]!r} is none of the {slices} slices of this cluster", Response.INVALID_PARAMETER)


@dataclass(frozen=True, slots=True)
class NumbersInSlice(Sequence[int]):
    """The numbers of a topic's queues that lie in one slice, ascending; the place of a number here is its rank.

    Of G successive numbers each lies in another group. Those of the slice are two runs with a step of S: from the first
    group of the slice at or behind the topic's first group, then, behind the last group, from the slice's own first.
    """

    inside: int
    topic_id: int
    queues: int
    groups: int
    slices: int

    @property
    def _runs(self) -> tuple[range, range]:
        """The numbers below G."""
        first = topic_hash(self.topic_id) % self.groups
        begin = first + (self.inside - first) % self.slices
        behind = self.inside + self.groups - first
        return range(begin - first, self.groups - first, self.slices), range(behind, self.groups, self.slices)

    def __len__(self) -> int:
        rounds, rest = divmod(self.queues, self.groups)
        runs = self._runs
        last_round = sum(len(range(run.start, min(rest, run.stop), run.step)) for run in runs)
        return rounds * sum(map(len, runs)) + last_round

    @overload
    def __getitem__(self, rank: int) -> int: ...

    @overload
    def __getitem__(self, rank: slice) -> Sequence[int]: ...

    def __getitem__(self, rank: int | slice) -> int | Sequence[int]:
        count = len(self)
        if not isinstance(rank, int):
            return [self[place] for place in range(*rank.indices(count))]
        if not -count <= rank < count:
            raise IndexError(f"{self.queues} queues have {count} in slice {self.inside}, not {rank}")
        first, second = self._runs
        rounds, place = divmod(rank % count, len(first) + len(second))
        number = first[place] if place < len(first) else second[place - len(first)]
        return rounds * self.groups + number

    def index(self, number: int, start: int = 0, stop: int | None = None) -> int:
        """Return the rank of a number. Raises ``ValueError`` where it lies in another slice or isn't there."""
        first, second = self._runs
        rounds, place = divmod(number, self.groups)
        if not 0 <= number < self.queues or (place not in first and place not in second):
            raise ValueError(f"queue {number} of {self.queues} does not lie in slice {self.inside}")
        rank = first.index(place) if place in first else len(first) + second.index(place)
        return rounds * (len(first) + len(second)) + rank


def numbers_in(number: int, topic_id: int, queues: int, groups: int, slices: int) -> Sequence[int]:
    """Return the numbers of a topic's queues that lie in a slice, ascending. Nothing is made but what is looked at."""
    return NumbersInSlice(number, topic_id, queues, groups, slices)


def rank_of(number: int, topic_id: int, groups: int, slices: int) -> int:
    """Return the queueId by which clients know a queue, within the slice that it lies in."""
    inside = slice_of(group_of(topic_id, number, groups), slices)
    return NumbersInSlice(inside, topic_id, number + 1, groups, slices).index(number)


def number_at(inside: int, rank: int, topic_id: int, queues: int, groups: int, slices: int) -> int:
    """Return the number of the queue that clients know by this queueId in this slice. Raises
    :class:`chaos.node.Malformed` where there is none."""
    numbers = NumbersInSlice(inside, topic_id, queues, groups, slices)
    if not 0 <= rank < len(numbers):
        remark = f"queueId {rank} does not exist: {slice_name(inside)} has {len(numbers)} of the topic's queues"
        raise Malformed(remark, Response.INVALID_PARAMETER)
    return numbers[rank]
