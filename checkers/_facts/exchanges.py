"""Items that clients put into queues and stores without offsets, and those that came out: an item is its content."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.operations import CameOut, Dequeue, Emptied, Enqueue, GetAll, HarnessRow, Put
from chaos.shard_rows import Rows
from checkers._facts.arrays import Flags, Ints, places_in
from checkers._facts.clients import Calls, calls

#: What a law about them reads.
READS = (Enqueue, Put, Dequeue, GetAll, CameOut, Emptied, HarnessRow)


@dataclass(frozen=True, slots=True)
class Exchanges:
    """``puts`` are all attempts to put something in, in the order of their invocations, ``put`` the content of each;
    ``in_queue``: whether that was a queue. ``outs`` are the rows of what came out, ``out`` the content of each;
    ``asked`` the ``index`` of the row that asked for it, -1 where it was pushed; ``by_read``: whether that was a read
    of all that a store holds, which takes nothing out."""

    puts: Calls
    put: Ints
    in_queue: Flags
    outs: Ints
    out: Ints
    asked: Ints
    by_read: Flags

    @classmethod
    def of(cls, rows: Rows) -> Exchanges:
        content, index = rows.column("hash"), rows.column("index")
        some = calls(rows, "enqueue"), calls(rows, "put")
        order = np.argsort(np.concatenate([one.invoke for one in some]), kind="stable")
        puts = Calls(*(np.concatenate([getattr(one, name) for one in some])[order] for name in Calls.__slots__))
        outs = rows.where(kind="op", f="came_out")
        op = rows.column("op")[outs]
        asks = np.sort(np.concatenate([calls(rows, f).began for f in ("dequeue", "get_all")]))
        asked = np.where(places_in(asks, op)[1] & (op < index[outs]), op, -1)
        return cls(
            puts=puts,
            put=content[puts.invoke],
            in_queue=order < len(some[0].invoke),
            outs=outs,
            out=content[outs],
            asked=asked,
            by_read=places_in(np.sort(calls(rows, "get_all").began), asked)[1],
        )

    def first_out(self, index: Ints) -> Ints:
        """Return of each put the smallest of these numbers, one for each of ``outs``, of those that have its content;
        the largest number of all where none has."""
        none = np.iinfo(np.int64).max
        known, first = np.unique(self.out, return_inverse=True)
        least = np.full(len(known) + 1, none, dtype=np.int64)
        np.minimum.at(least, first, index)
        place, there = places_in(known, self.put)
        found: Ints = np.where(there, least[place], none) if len(known) else np.full(len(self.put), none)
        return found


def item(rows: Rows, at: int) -> str:
    """Return the content of the item that this row names, as people read it."""
    text = str(rows.value(at).get("item", ""))
    return text if len(text) <= 40 else f"{text[:39]}…"
