"""Where queues lie: which group holds a queue, which slice owns a group, and how clients number queues.

A cluster has G groups and S slices for as long as it lives. Group g belongs to slice g modulo S. A queue is the
*number* that it has in its topic; clients call it by its *rank* among the numbers of its topic that lie in one slice.
Ranks never change when a topic grows. All of this is arithmetic: nothing is kept for a queue.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

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


def group_of(topic_id: int, number: int, groups: int) -> int:
    """Return the group that holds a queue. By the hash topics don't all begin in one group."""
    return (zlib.crc32(str(topic_id).encode()) + number) % groups


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


def _places_before(place: int, inside: int, groups: int, slices: int) -> int:
    """Return how many places below ``place`` lie in a slice, where they go through all groups again and again."""
    rounds, rest = divmod(place, groups)
    return rounds * len(groups_in(inside, groups, slices)) + len(range(inside, rest, slices))


def count_in(inside: int, topic_id: int, queues: int, groups: int, slices: int) -> int:
    """Return how many of a topic's queues lie in a slice. Their ranks are the numbers below that."""
    first = group_of(topic_id, 0, groups)
    return _places_before(first + queues, inside, groups, slices) - _places_before(first, inside, groups, slices)


def rank_of(number: int, topic_id: int, groups: int, slices: int) -> int:
    """Return the queueId by which clients know a queue, within the slice that it lies in."""
    inside = slice_of(group_of(topic_id, number, groups), slices)
    return count_in(inside, topic_id, number, groups, slices)


def number_at(inside: int, rank: int, topic_id: int, queues: int, groups: int, slices: int) -> int:
    """Return the number of the queue that clients know by this queueId in this slice. Raises
    :class:`chaos.node.Malformed` where there is none."""
    count = count_in(inside, topic_id, queues, groups, slices)
    if not 0 <= rank < count:
        remark = f"queueId {rank} does not exist: {slice_name(inside)} has {count} of the topic's queues"
        raise Malformed(remark, Response.INVALID_PARAMETER)
    first, own = group_of(topic_id, 0, groups), groups_in(inside, groups, slices)
    rounds, place = divmod(_places_before(first, inside, groups, slices) + rank, len(own))
    return rounds * groups + own[place] - first
