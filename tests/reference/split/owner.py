"""An owner of a group, for tests: it gives records the positions and offsets that they must have."""

from __future__ import annotations

from collections.abc import Mapping
from zlib import crc32

from reference.broker.records import encode
from reference.split.requests import physical_offset
from reference.split.store.entries import Append, Fence, Seal
from reference.split.store.group import Group

TOPICS: Mapping[str, int] = {"orders": 11, "audit": 12}


def records_at(group: int, position: int, *messages: tuple[str, int, int, bytes], store_ms: int = 1000) -> bytes:
    """Return records back to back from a position on, of (topic, number of the queue, offset, body)."""
    data = b""
    for topic, number, offset, body in messages:
        place = physical_offset(group, position + len(data))
        data += encode(topic=topic, queue_id=number, offset=offset, position=place, body=body, store_ms=store_ms)
    return data


def append(
    epoch: int,
    position: int,
    *messages: tuple[str, int, int, bytes],
    group: int = 5,
    topics: Mapping[str, int] = TOPICS,
    store_ms: int = 1000,
) -> Append:
    """Return the APPEND of these messages."""
    records = records_at(group, position, *messages, store_ms=store_ms)
    return Append(epoch=epoch, position=position, crc=crc32(records), topics=topics, records=records)


def fence(epoch: int, broker: str = "broker-0", life: int = 1) -> Fence:
    """Return the FENCE of slice 1."""
    return Fence(slice=1, epoch=epoch, broker=broker, life=life)


def seal(group: Group, end: int, now_ms: int = 5000) -> Seal:
    """Return the SEAL that a leader with this state would log."""
    digests = {one.segment.topic_id: one.segment.digest for one, _ in group.cut_segments(end)}
    return Seal(start=group.sealed, end=end, digests=digests, now_ms=now_ms)


def fenced(epoch: int = 1, number: int = 5) -> Group:
    """Return a group with an owner."""
    group = Group(number)
    assert group.apply(fence(epoch)).code == 0
    return group
