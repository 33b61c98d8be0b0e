"""Which rows of a queue stand together where the queue is parted: those of a range of its offsets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos.history.columns import VALUE
from chaos.history.parted.words import among
from chaos.history.values import whole_numbers
from chaos.ops import DELIVERED, SEQUENCE_BITS

#: So many offsets of a queue are never parted.
OFFSETS = 1 << 12
#: So many numbers of operations are never parted.
CALLS = 1 << 12
#: So many numbers of messages that follow one another are never parted: what one pull delivers mostly stands together.
MESSAGES = 1 << 12
#: Messages have places that are that many, however many and of whatever numbers they are.
HASHES = 1 << 12
#: Operations whose ends say where a queue ends; they stand at the last offset before that.
NAMING_END = ("pull", "bounds")
#: What places depend on.
COLUMNS = {
    "offset": ("index", "kind", "type", "f", "op", "queue", "offset", VALUE),
    "call": ("index", "kind", "type", "op"),
    "message": ("message",),
}
#: Ranges of one queue that are distinguished; what lies above stands with the last one.
_MOST = (1 << 40) - 2

Ints = npt.NDArray[np.int64]


class Places:
    """Gives each row of a piece a number that the rows of one queue and one range of offsets share. Numbers ascend with
    the queue and the offset. A row without an offset has a range of its own; all rows of an operation stand where its
    last end does.
    """

    def __init__(self, offsets: int | None = None) -> None:
        self._offsets = offsets or OFFSETS

    def of(self, block: pa.Table) -> Ints:
        """Return the numbers of these rows, which have those of :data:`COLUMNS`."""
        index, op, queue, offset = (
            np.asarray(block[name].to_numpy(), np.int64) for name in ("index", "op", "queue", "offset")
        )
        is_op = among(block, "kind", ("op",))
        naming = np.flatnonzero(is_op & among(block, "f", NAMING_END))
        if len(naming):
            offset = offset.copy()
            offset[naming] = _maximum(block[VALUE].take(pa.array(naming)).combine_chunks().cast(pa.string())) - 1
        place = (queue + 1) * (1 << 40) + np.clip(offset // self._offsets, -1, _MOST) + 1
        paired = np.flatnonzero(is_op & ~among(block, "f", (DELIVERED,)))
        begins = among(block, "type", ("invoke",))[paired]
        first, ends = paired[begins], paired[~begins]
        ends = ends[(op[ends] >= 0) & (op[ends] < index[ends])]
        last = ends[::-1]
        ended, which = np.unique(op[last], return_index=True)
        last = last[which]
        for rows, of in ((first, index[first]), (ends, op[ends])):
            slot, known = _find(ended, of)
            place[rows[known]] = place[last[slot[known]]]
        return place

    def calls(self, block: pa.Table) -> Ints:
        """Numbers that the rows of one operation share, and of those that began about the same time; -1 for rows of
        none. The columns are as above."""
        index, op = (np.asarray(block[name].to_numpy(), np.int64) for name in ("index", "op"))
        begins = among(block, "kind", ("op",)) & among(block, "type", ("invoke",))
        return np.where(begins, index, op) // self._together(CALLS)

    def messages(self, block: pa.Table) -> Ints:
        """Numbers below :data:`HASHES` that the rows of one message share, and of those with numbers close to it; -1
        for rows of none. Those of messages of one queue that follow one another mostly do so too: a piece has rows of
        few."""
        message = np.asarray(block["message"].to_numpy(), np.int64)
        close = (message & ((1 << SEQUENCE_BITS) - 1)) // self._together(MESSAGES)
        spread = (message >> SEQUENCE_BITS) * 0x9E3  # HASHES / golden ratio, so that queues begin apart
        return np.where(message < 0, -1, (spread + close) & (HASHES - 1))

    def _together(self, many: int) -> int:
        """So many numbers that follow one another are never parted; fewer, where fewer offsets are."""
        return many if self._offsets == OFFSETS else self._offsets


def _maximum(values: pa.Array) -> Ints:
    """Return the ends of queues that these values give, -1 where they give none, or one of more than 64 bits: the
    kernels say then what is wrong with it."""
    try:
        return whole_numbers(values, "maximum")
    except pa.ArrowInvalid:
        if len(values) == 1:
            return np.full(1, -1, np.int64)
        return np.concatenate([_maximum(values.slice(at, 1)) for at in range(len(values))])


def _find(known: Ints, numbers: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """For each number its place among known ones, which ascend, and whether it is there."""
    slot = np.minimum(np.searchsorted(known, numbers), max(0, len(known) - 1))
    return slot, known[slot] == numbers if len(known) else np.zeros(len(numbers), np.bool_)
