"""What became of messages, a few bytes for each: for runs of which not every number can be held.

Of each message there are seven flags, who acknowledged it last, and when it was first sent, in parts of the time axis
that are finer than a picture can show. So counts and pictures are those that all numbers would give; the first and the
last moment of a fate, which the page says in words, are up to a part of the axis off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from chaos.ops import SEQUENCE_BITS

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: Strokes beside one another in a lane of moments; and into how many parts each of them is divided at most.
STROKES, PARTS = 600, 50
#: Messages whose numbers follow one another share a page; pages share a block of memory.
PAGE, BLOCK = 1 << 10, 1 << 20
#: Parts of the axis before and behind it; and of what was never sent.
BEFORE, AFTER, NEVER = 0, 65_534, 65_535


class Bit(IntEnum):
    """``ABOVE``: it was acknowledged at an offset that the final reading of its queue did not begin behind."""

    ASKED = 1
    OK = 2
    INFO = 4
    FAIL = 8
    FINAL = 16
    READ_OUT = 32
    ABOVE = 64


class Place(IntEnum):
    """Which part of its queue a message is missing from: before all that is there, between that, behind it, or nothing
    is there."""

    BEGINNING = 0
    MIDDLE = 1
    END = 2
    WHOLE = 3


class Parts:
    """The parts of an axis, from ``left_s`` to ``right_s``, in which moments are distinguished."""

    def __init__(self, left_s: float, right_s: float) -> None:
        self._left_s, self._right_s = left_s, right_s
        self._wide = max(round(1000 * (right_s - left_s)) // STROKES, 1)
        self._each = min(self._wide, PARTS)

    def of(self, at_s: npt.NDArray[np.float64]) -> npt.NDArray[np.uint16]:
        seen = np.rint(1000 * (at_s - self._left_s)).astype(np.int64)
        found = 1 + seen * self._each // self._wide
        found = np.where(at_s < self._left_s, BEFORE, np.where(at_s > self._right_s, AFTER, found))
        return found.astype(np.uint16)

    def seconds(self, parts: Ints) -> npt.NDArray[np.float64]:
        """Return the first moment, in whole milliseconds, of each of these parts; what is outside of the axis stays
        there."""
        ms = -((1 - parts) * self._wide // self._each)
        found = self._left_s + ms / 1000
        return np.where(parts == BEFORE, self._left_s - 1, np.where(parts == AFTER, self._right_s + 1, found))

    def moments(self, counts: Ints) -> tuple[npt.NDArray[np.float64], Ints]:
        """Return moments in order, and how many there were at each, of how many there were in each part."""
        found = np.flatnonzero(counts[:NEVER])
        return self.seconds(found), counts[found]


@dataclass(slots=True)
class Block:
    """Of :data:`BLOCK` messages a column each; ``shape`` only where some are missing, by place of the loss."""

    flags: npt.NDArray[np.uint8]
    node: npt.NDArray[np.uint16]
    first: npt.NDArray[np.uint16]
    shape: npt.NDArray[np.uint8] | None = None

    @classmethod
    def empty(cls) -> Block:
        numbers = np.zeros(BLOCK, np.uint16)
        return cls(np.zeros(BLOCK, np.uint8), numbers, np.full(BLOCK, NEVER, np.uint16))

    @property
    def nbytes(self) -> int:
        return self.flags.nbytes + self.node.nbytes + self.first.nbytes + (0 if self.shape is None else BLOCK)

    def has(self, *bits: Bit) -> Flags:
        """Return which messages have all of these."""
        mask = sum(bits)
        found: Flags = self.flags & mask == mask
        return found

    @property
    def missing(self) -> Flags:
        return self.has(Bit.ASKED, Bit.OK, Bit.READ_OUT, Bit.ABOVE) & ~self.has(Bit.FINAL)


class MessageTable:
    """``drained``: the queues that were read to their end, ascending, and the offset of each where that began. A
    message is taken to be in the queue that it was made for, and counts once, however often it was sent."""

    def __init__(self, parts: Parts, drained: tuple[Ints, Ints]) -> None:
        self.parts = parts
        self.blocks: list[Block] = []
        self._drained = drained
        self._pages: dict[int, int] = {}
        self._ends: dict[int, tuple[int, int]] = {}

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in self.blocks)

    def sent(self, message: Ints, at_s: npt.NDArray[np.float64]) -> None:
        """Note that some messages were sent at these seconds, for the first time or once more."""
        for block, chosen, place in self._places(message):
            np.minimum.at(block.first, place, self.parts.of(at_s[chosen]))
            block.flags[place] |= np.uint8(Bit.ASKED)
            read_out = np.isin(message[chosen] >> SEQUENCE_BITS, self._drained[0])
            block.flags[place[read_out]] |= np.uint8(Bit.READ_OUT)

    def acknowledged(self, message: Ints, offset: Ints, node: Ints) -> None:
        """Note that some messages were acknowledged, each at an offset by a node; -1 where neither is known."""
        for block, chosen, place in self._places(message):
            block.flags[place] |= np.uint8(Bit.OK)
            block.node[place] = node[chosen] + 1
            above = offset[chosen] >= self._begins(message[chosen] >> SEQUENCE_BITS)
            block.flags[place[above]] |= np.uint8(Bit.ABOVE)

    def said(self, bit: Bit, message: Ints) -> None:
        """Note that something else was said of some messages."""
        for block, _, place in self._places(message):
            block.flags[place] |= np.uint8(bit)

    def _begins(self, queue: Ints) -> Ints:
        """Return where the final reading of these queues began; below all offsets where there was none."""
        known, begin = self._drained
        if not len(known):
            return np.full(len(queue), -1, np.int64)
        place = np.minimum(np.searchsorted(known, queue), len(known) - 1)
        return np.where(known[place] == queue, begin[place], -1)

    def _places(self, message: Ints) -> Iterator[tuple[Block, npt.NDArray[Any], Ints]]:
        """Yield where these messages stand: block after block, which of them, and their places there."""
        pages, page = np.unique(message // PAGE, return_inverse=True)
        known = np.array([self._pages.setdefault(one, len(self._pages)) for one in pages.tolist()], np.int64)
        slot = known[page] * PAGE + message % PAGE if len(message) else message
        while len(self.blocks) * BLOCK < len(self._pages) * PAGE:
            self.blocks.append(Block.empty())
        block = slot // BLOCK
        for number in np.unique(block).tolist():
            chosen = np.flatnonzero(block == number)
            yield self.blocks[number], chosen, slot[chosen] % BLOCK

    @property
    def some_are_missing(self) -> bool:
        """Then the shapes of the losses are asked for: all acknowledgements are given to :meth:`bound` first, and to
        :meth:`place` after that."""
        return any(bool(block.missing.any()) for block in self.blocks)

    def bound(self, message: Ints, offset: Ints) -> None:
        """Learn from some acknowledgements where the messages of each queue that are not missing begin and end."""
        for block, chosen, place in self._places(message):
            there = block.has(Bit.ASKED, Bit.OK, Bit.READ_OUT, Bit.FINAL)[place]
            queues, offsets = message[chosen][there] >> SEQUENCE_BITS, offset[chosen][there]
            for one in np.unique(queues).tolist():
                mine = offsets[queues == one]
                low, high = self._ends.get(one, (int(mine[0]), int(mine[0])))
                self._ends[one] = min(low, int(mine.min())), max(high, int(mine.max()))

    def place(self, message: Ints, offset: Ints) -> None:
        """Note which part of their queue the missing ones of these acknowledged messages are from."""
        for block, chosen, place in self._places(message):
            gone = block.missing[place]
            if not gone.any():
                continue
            if block.shape is None:
                block.shape = np.full(BLOCK, Place.MIDDLE, np.uint8)
            pairs = zip((message[chosen][gone] >> SEQUENCE_BITS).tolist(), offset[chosen][gone].tolist(), strict=True)
            block.shape[place[gone]] = [self._shape(queue, at) for queue, at in pairs]

    def _shape(self, queue: int, offset: int) -> Place:
        if queue not in self._ends:
            return Place.WHOLE
        low, high = self._ends[queue]
        return Place.BEGINNING if offset < low else Place.END if offset > high else Place.MIDDLE


def parted(first: npt.NDArray[np.uint16]) -> Ints:
    """Return how many of these first moments are in each part of the axis."""
    return np.bincount(first, minlength=NEVER + 1)
