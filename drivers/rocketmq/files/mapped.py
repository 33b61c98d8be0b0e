"""Files that are named by the offset of their first byte, and continue one another: commit logs, queues, the tier."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from mmap import ACCESS_READ, mmap
from pathlib import Path

from chaos.scrub import Damage, Kind
from drivers._remoting.records import Buffer

#: Twenty digits; the tier's names have eight more before them (:mod:`drivers.rocketmq.files.tier_layout`).
_NAME = re.compile(r"[0-9]{20}")
#: Positions are signed 64-bit numbers.
LAST = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One file of such a series. ``base``: the offset of its first byte; ``size`` in bytes; ``name``: what a
    :class:`Damage` calls it."""

    path: Path
    name: str
    base: int
    size: int

    @property
    def end(self) -> int:
        return self.base + self.size


def parts(folder: Path, name: str) -> tuple[list[Part], list[Damage]]:
    """Return the files in ``folder`` by their base, and those that have no business there. No folder: none. Raises
    ``OSError``."""
    if not folder.is_dir():
        return [], []
    found, wrong = [], []
    for path in sorted(folder.iterdir()):
        shown = f"{name}/{path.name}"
        if not _NAME.fullmatch(path.name) or int(path.name) > LAST or not path.is_file():
            wrong.append(Damage(file=shown, kind=Kind.UNREADABLE, text="no file has a name like this here"))
        else:
            found.append(Part(path=path, name=shown, base=int(path.name), size=path.stat().st_size))
    return found, wrong


def seams(found: Sequence[Part]) -> list[Damage]:
    """Return where one file doesn't begin at the end of the one before it."""
    wrong = []
    for before, after in pairwise(found):
        if after.base > before.end:
            text = f"bytes {before.end} to {after.base} of the series are in no file; {before.name} ends before them"
            wrong.append(Damage(file=after.name, kind=Kind.GAP, text=text))
        elif after.base < before.end:
            text = f"it begins at {after.base}, but {before.name} goes on to {before.end}"
            wrong.append(Damage(file=after.name, kind=Kind.OVERLAP, text=text))
    return wrong


def last_with_data(found: Sequence[Part]) -> int:
    """Return the base of the last file that isn't all zeros, -1 without one: those after it were made in advance.
    Raises ``OSError``."""
    for part in reversed(found):
        with opened(part.path) as data:
            if end_of_data(data):
                return part.base
    return -1


@contextmanager
def opened(path: Path) -> Iterator[Buffer]:
    """Yield the content of a file, mapped and not copied. Raises ``OSError``."""
    with path.open("rb") as file:
        try:
            content = mmap(file.fileno(), 0, access=ACCESS_READ)
        except ValueError:  # an empty file can't be mapped
            yield b""
            return
        with content:
            yield content


def end_of_data(data: Buffer, start: int = 0) -> int:
    """Return the place after the last byte that isn't zero, ``start`` at least. New files are full of zeros."""
    step = 1 << 20
    end = len(data)
    while end > start:
        block = bytes(data[max(start, end - step) : end]).rstrip(b"\0")
        if block:
            return max(start, end - step) + len(block)
        end = max(start, end - step)
    return start


class Segments:
    """The files of a series, one of them open at a time: readers ask for places in their order."""

    def __init__(self, found: Sequence[Part]) -> None:
        self._found = found
        self._bases = [part.base for part in found]
        self._open: tuple[Part, Buffer] | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Segments:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def at(self, position: int, size: int) -> tuple[Part, Buffer] | None:
        """Return the file that holds these bytes, and its content; None when there is none."""
        number = bisect_right(self._bases, position) - 1
        if number < 0 or position + size > self._found[number].end:
            return None
        part = self._found[number]
        if self._open is None or self._open[0] is not part:
            self._stack.close()
            self._open = part, self._stack.enter_context(opened(part.path))
        if position + size > part.base + len(self._open[1]):  # it has become shorter meanwhile
            return None
        return self._open
