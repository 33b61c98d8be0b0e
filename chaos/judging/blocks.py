"""What pieces of a large run brought to one bucket: in memory as long as it is little, else in a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile
from typing import Any

#: More than this stands in a file, which has no name, and is gone at the end however the process ends.
MOST_HELD = 64 << 20
#: (number of the first row, where the block begins in the file, its length) of each block.
Places = Sequence[tuple[int, int, int]]


def file(folder: str | None = None) -> Any:
    """Return a file for blocks, below ``folder``. Raises ``OSError`` when the disk is full, also later."""
    return SpooledTemporaryFile(max_size=MOST_HELD, dir=folder)


class Blocks:
    """The blocks of one bucket, in the order of their rows, one at a time, and as often as anybody asks."""

    def __init__(self, file: Any, places: Places) -> None:
        self._file = file
        self._places = sorted(places)

    @property
    def size(self) -> int:
        """How many bytes all of them have."""
        return sum(length for _, _, length in self._places)

    def __iter__(self) -> Iterator[bytes]:
        for _, begin, length in self._places:
            self._file.seek(begin)
            yield self._file.read(length)


@contextmanager
def spooled(blocks: Iterable[tuple[int, bytes]], folder: str | None = None) -> Iterator[Blocks]:
    """Yield blocks that come in any order, each with the number of its first row."""
    places = []
    with file(folder) as held:
        for number, block in blocks:
            places.append((number, held.tell(), len(block)))
            held.write(block)
        yield Blocks(held, places)
