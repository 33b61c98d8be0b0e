"""Torn writes: of what a crash interrupts, each sector reaches the disk whole or not at all, in any order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

SECTOR_BYTES = 512
#: One change to a file: bytes at an offset, or (``None``) a cut to that size.
Change = tuple[int, bytes | None]


def torn_writes(changes: Iterable[Change], size: int, rng: Random) -> list[Change]:
    """Return some sectors of these changes to a file of this size; the last change sets one of the sizes it had
    meanwhile."""
    share = rng.random()
    sizes = [size]
    kept: list[Change] = []
    for offset, data in changes:
        if data is None:
            size = offset
        else:
            size = max(size, offset + len(data))
            kept += [piece for piece in _sectors(offset, data) if rng.random() < share]
        sizes.append(size)
    low, high = min(sizes), max(sizes)
    between = min(high, (rng.randint(low, high) + SECTOR_BYTES - 1) // SECTOR_BYTES * SECTOR_BYTES)
    return [*kept, (rng.choice((sizes[0], sizes[-1], rng.choice(sizes), between)), None)]


def _sectors(offset: int, data: bytes) -> Iterator[Change]:
    """Cut a write at the borders of sectors."""
    begin, end = offset, offset + len(data)
    while begin < end:
        border = min(end, (begin // SECTOR_BYTES + 1) * SECTOR_BYTES)
        yield begin, data[begin - offset : border - offset]
        begin = border
