"""A broker's index: by the hash of a message's key, where its record stands in the commit log.

A file has a header of 40 bytes, ``begin ms i64 | end ms i64 | begin position i64 | end position i64 | used slots i32 |
entries i32`` (the number of entries counts from 1), then slots of four bytes and entries of 20, ``hash i32 | position
i64 | seconds i32 | previous i32``. A slot has the number of the last entry of its hashes, and each entry that of the
one before it, or 0.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from chaos.scrub import Damage, Kind
from drivers._remoting.records import Buffer
from drivers.rocketmq.files import mapped

HEADER = struct.Struct(">qqqqii")
ENTRY = struct.Struct(">iqii")
SLOT_BYTES = 4
#: As brokers are set up unless their options say otherwise: so many entries for each slot.
ENTRIES_PER_SLOT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """One file of the index; positions are those of the commit log, ``entries`` how many keys it holds."""

    name: str
    begin: int
    end: int
    entries: int


def read(path: Path, name: str, slots: int = 0) -> tuple[Index | None, list[Damage]]:
    """Read an index. ``slots``: the broker's ``maxHashSlotNum``; 0: what fits the file's size if there are four entries
    for each. None when it has no whole header. Raises ``OSError``."""
    with mapped.opened(path) as data:
        if len(data) < HEADER.size:
            return None, [Damage(file=name, kind=Kind.TORN_END, text="it has no whole header", at=len(data))]
        _, _, begin, end, used, count = HEADER.unpack_from(data)
        found = Index(name=name, begin=begin, end=end, entries=max(count - 1, 0))
        room = len(data) - HEADER.size
        slots = slots or room // (SLOT_BYTES + ENTRIES_PER_SLOT * ENTRY.size)
        most = (room - slots * SLOT_BYTES) // ENTRY.size
        if not 0 <= count <= most + 1 or not 0 <= used <= max(count, slots) or begin < 0 or end < begin:
            text = f"impossible header: {count} entries of {most}, {used} slots, positions {begin} to {end}"
            return found, [Damage(file=name, kind=Kind.UNREADABLE, text=text, at=0)]
        return found, _entries(data, found, slots)


def _entries(data: Buffer, index: Index, slots: int) -> list[Damage]:
    """Check that each entry stands in its slot's chain: its previous one is older and of the same slot."""
    wrong: list[Damage] = []
    start = HEADER.size + slots * SLOT_BYTES
    newest = [0] * slots
    for number in range(1, index.entries + 1):
        at = start + number * ENTRY.size
        if at + ENTRY.size > len(data):
            break
        hashed, position, _, previous = ENTRY.unpack_from(data, at)
        slot = abs(hashed) % slots if slots else 0
        if hashed < 0 or not index.begin <= position <= index.end:
            text = f"entry {number}: hash {hashed}, position {position} outside {index.begin} to {index.end}"
            wrong.append(Damage(file=index.name, kind=Kind.UNREADABLE, text=text, at=at))
        elif slots and previous != newest[slot]:
            text = f"entry {number} follows entry {previous} of its slot, but the one before is {newest[slot]}"
            wrong.append(Damage(file=index.name, kind=Kind.CONTRADICTION, text=text, at=at))
        if slots:
            newest[slot] = number
    for slot, number in enumerate(newest):
        at = HEADER.size + slot * SLOT_BYTES
        named = int.from_bytes(data[at : at + SLOT_BYTES], "big", signed=True)
        if named != number and named <= index.entries:  # the header is written late, so newer entries may be there
            text = f"slot {slot} names entry {named}; the last of its entries is {number}"
            wrong.append(Damage(file=index.name, kind=Kind.CONTRADICTION, text=text, at=at))
    return wrong
