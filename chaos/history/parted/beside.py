"""Which operations stand beside the own rows of a shard where a queue is parted: those that delivered some of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from chaos.history.parted.choosing import Chooser, Ints, Part
from chaos.ops import DELIVERED


@dataclass(frozen=True, slots=True)
class Operations:
    """Of the rows of one piece: those of the operations that may stand beside (positions), and which operations; and
    the deliveries: of which operations, in which shards."""

    rows: Ints
    calls: Ints
    op: Ints
    shard: Ints

    @classmethod
    def of(cls, part: Part, block: pa.Table, chooser: Chooser, number: Ints) -> Operations:
        """``number`` gives for each row the shard that it is an own row of, -1 where there is none."""
        index, op = (np.asarray(block[name].to_numpy(), np.int64) for name in ("index", "op"))
        begins, is_begun = chooser.are("type", "invoke"), (op >= 0) & (op < index)
        rows = np.flatnonzero(chooser.any_of(part.callers))
        read = np.flatnonzero(chooser.are("kind", "op") & chooser.are("f", DELIVERED) & (number >= 0) & is_begun)
        return cls(
            rows=rows,
            calls=np.where(begins, index, np.where(is_begun, op, -1))[rows],
            op=op[read],
            shard=number[read],
        )
