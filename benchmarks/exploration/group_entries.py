"""The entries that clients of a group propose, by their words, what they do, and what must hold of that."""

from __future__ import annotations

from functools import cache
from zlib import crc32

from reference.broker.records import encode
from reference.split.requests import physical_offset
from reference.split.store.entries import Append, Fence
from reference.split.store.group import Outcome

#: The one group, its topic, and the queue in it.
GROUP, TOPIC, TOPIC_ID = 5, "t", 11


@cache
def entry_of(word: str) -> bytes:
    """Return the entry that a word means: ``fence EPOCH`` or ``append EPOCH PLACE``."""
    kind, *numbers = word.split()
    epoch = int(numbers[0])
    if kind == "fence":
        return Fence(slice=1, epoch=epoch, broker=f"broker-{epoch}", life=epoch).encode()
    place = int(numbers[1])
    size = len(_record(0, 0, epoch))
    records = _record(place, place * size, epoch)
    append = Append(epoch=epoch, position=place * size, crc=crc32(records), topics={TOPIC: TOPIC_ID}, records=records)
    return append.encode()


def _record(offset: int, position: int, epoch: int) -> bytes:
    place = physical_offset(GROUP, position)
    return encode(topic=TOPIC, queue_id=0, offset=offset, position=place, body=b"%d" % epoch, store_ms=1)


def in_words(data: bytes, outcome: Outcome | None) -> str:
    """Return in words what an entry did: who owns the group, or which bytes an owner has added."""
    if outcome is None or outcome.code or outcome.again or data[:1] not in (b"F", b"A"):
        return ""
    if data[:1] == b"F":
        return f"fence {Fence.decode(data[1:]).epoch}"
    entry = Append.decode(data[1:])
    return f"append {entry.epoch} {entry.position} {entry.end}"


def wrong_history(committed: tuple[str, ...]) -> str:
    """One epoch's appends are taken from its fence on, and up to the next one; each where the last one ended."""
    owner = end = 0
    for did in committed:
        kind, *numbers = did.split() or [""]
        if kind == "fence" and int(numbers[0]) <= owner:
            return f"epoch {numbers[0]} takes over from {owner}"
        if kind == "fence":
            owner = int(numbers[0])
        elif kind == "append":
            epoch, position, behind = map(int, numbers)
            if epoch != owner:
                return f"an append of epoch {epoch} is taken, though epoch {owner} owns the group"
            if position != end:
                return f"an append is taken at {position}, though the group ends at {end}"
            end = behind
    return ""
