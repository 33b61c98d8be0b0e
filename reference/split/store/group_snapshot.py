"""A group's state as a snapshot: one line of JSON, then the bytes of its tail.

Sealed segments stand in it by name. Their bytes are files beside the log; a follower that is sent a snapshot gets those
that no object holds with it, behind the tail (R4): every voter holds each committed record that isn't uploaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from chaos.node import Malformed
from reference.split.segments import SealedSegment, Segment, digest_of
from reference.split.store.entries import Fence
from reference.split.store.group import Group, Queue, Trimmed
from reference.split.store.tail import Tail
from reference.wire.fields import as_object, item, listed, read_object, to_json

#: So a snapshot begins: Raft's own part, where there is one, ends with a line break and begins otherwise.
_MARK = b"G"
#: So many bytes of it are written in one step.
PIECE_BYTES = 1 << 18


def snapshot_of(group: Group) -> Iterator[bytes]:
    """Return the state of this moment, in pieces."""
    head = {
        "group": group.number,
        "fence": asdict(group.fence),
        "now_ms": group.now_ms,
        "sealed": group.sealed,
        "tail": len(group.tail.data),
        "batches": group.tail.rows(),
        "queues": [[*key, one.first, one.next, one.sealed] for key, one in group.queues.items()],
        "commits": [[*key, offset] for key, offset in group.commits.items()],
        "segments": [one.row() for one in group.segments.values()],
        "trimmed": [[topic_id, one.version, one.position] for topic_id, one in group.trimmed.items()],
        "names": [[topic_id, name] for topic_id, name in group.names.items()],
        "repeats": [[position, *known] for position, known in group.repeats.items()],
    }
    return _pieces(_MARK + to_json(head) + b"\n" + group.tail.data)


def _pieces(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), PIECE_BYTES):
        yield data[at : at + PIECE_BYTES]


def restored(number: int, snapshot: bytes, empty: type[Group] = Group) -> Group:
    """Build group ``number`` from a snapshot. Raises :class:`chaos.node.Malformed`."""
    row, rest = _head_of(snapshot)
    group = empty(number)
    if item(row, "group", int) != number:
        raise Malformed(f"this is a snapshot of group {item(row, 'group', int)}, not of group {number}")
    group.fence = Fence.of_row(as_object(row.get("fence")))
    group.now_ms = item(row, "now_ms", int)
    group.tail = Tail.restored(number, item(row, "sealed", int), rest[: item(row, "tail", int)], row.get("batches"))
    group.queues = {(row[0], row[1]): Queue(*row[2:]) for row in listed(row, "queues", *[int] * 5)}
    group.commits = {(row[0], row[1], row[2]): row[3] for row in listed(row, "commits", str, int, int, int)}
    segments = [SealedSegment.of_row(one) for one in item(row, "segments", list)]
    group.segments = {one.segment: one for one in segments}
    group.trimmed = {row[0]: Trimmed(*row[1:]) for row in listed(row, "trimmed", int, int, int)}
    group.names = {row[0]: row[1] for row in listed(row, "names", int, str)}
    group.repeats = {row[0]: (row[1], row[2]) for row in listed(row, "repeats", int, int, int)}
    _check(group)
    return group


def _check(group: Group) -> None:
    """Raise :class:`chaos.node.Malformed` for a state in which parts contradict one another."""
    if group.now_ms < 0 or group.sealed < 0 or any(one.end > group.sealed for one in group.segments):
        raise Malformed("a segment ends behind the last seal")
    for key, queue in group.queues.items():
        if not 0 <= queue.first <= queue.sealed <= queue.next:
            raise Malformed(f"queue {key} can't be {queue}")
    held = [*group.tail.keys, *((one.segment.topic_id, n) for one in group.segments.values() for n in one.ranges)]
    lacking = next((key for key in held if key not in group.queues), None)
    if lacking is not None or any(one.group != group.number for one in group.segments):
        raise Malformed(f"there are records of queue {lacking}, which isn't there, or of another group")


def _head_of(snapshot: bytes) -> tuple[dict[str, Any], bytes]:
    head, _, rest = snapshot.partition(b"\n")
    if not head.startswith(_MARK):
        raise Malformed("this is no snapshot of a group")
    return read_object(head[len(_MARK) :]), rest


def with_files(snapshot: bytes, files: Mapping[Segment, bytes]) -> bytes:
    """Return a snapshot with the bytes of segments behind it; :func:`files_in` finds them. Segments that no object held
    when it was made, and that aren't among ``files``, are marked as if one did: they need no bytes any more."""
    row, rest = _head_of(snapshot)
    for one in row["segments"]:
        one["is_uploaded"] |= Segment.of_row(one) not in files
    sent = b"".join(files[one.segment] for one in _not_uploaded(row))
    return _MARK + to_json(row) + b"\n" + rest[: item(row, "tail", int)] + sent


def without_files(snapshot: bytes) -> bytes:
    """Return a snapshot without what may follow it."""
    row, rest = _head_of(snapshot)
    return snapshot[: len(snapshot) - len(rest) + item(row, "tail", int)]


def lacking(snapshot: bytes) -> list[Segment]:
    """Return the segments in a snapshot that no object holds. Raises :class:`chaos.node.Malformed`."""
    return [one.segment for one in _not_uploaded(_head_of(snapshot)[0])]


def _not_uploaded(row: Mapping[str, Any]) -> list[SealedSegment]:
    segments = [SealedSegment.of_row(one) for one in item(row, "segments", list)]
    return [one for one in segments if not one.is_uploaded]


def files_in(snapshot: bytes) -> dict[Segment, bytes]:
    """Return the bytes of the segments that no object holds, as they follow a snapshot, each checked against its hash;
    none where none follow. Raises :class:`chaos.node.Malformed`."""
    row, rest = _head_of(snapshot)
    at = item(row, "tail", int)
    found: dict[Segment, bytes] = {}
    if at == len(rest):
        return found
    for one in _not_uploaded(row):
        data = rest[at : at + one.size]
        if one.size <= 0 or digest_of(data) != one.segment.digest:
            raise Malformed(f"the bytes of {one.segment.key} are damaged")
        found[one.segment] = data
        at += one.size
    if at != len(rest):
        raise Malformed(f"{len(rest) - at} bytes of nothing follow a snapshot")
    return found
