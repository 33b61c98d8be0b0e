"""At which offsets there are messages that readers must be given, as all shards of a run know it together."""

from __future__ import annotations

import numpy as np

from chaos.findings import Facts, Findings, joined
from chaos.kernel import Reads
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts import losses, reads
from checkers._facts.arrays import Ints, Line, ranges
from checkers._facts.claims import Claims

#: The rows that a kernel of offsets needs for this, and their columns.
ROWS: tuple[Reads, ...] = (reads.own("op", "send", "delivered"), reads.beside("op", "drain"), *losses.TERMS)
COLUMNS = (*reads.BASIC, *reads.OPERATIONS, *losses.COLUMNS, "message", "hash", "position")


def note_held(rows: Rows, context: RunContext, found: Findings) -> None:
    """Note, as ranges, the offsets of a shard at which there is, or was, a message that readers must be given: every
    one that was acknowledged or read; where a loss was permitted, those that are there in the end. Where offsets have
    gaps, none then: what was a gap may have been given to a message after the loss."""
    if losses.keeps(rows, context, confirmed=False):
        claims = facts.join(rows.memo(facts.read), rows.memo(facts.acknowledged))
    elif context.meta.has_gaps:
        claims = Claims.of(*(np.empty(0, dtype=np.int64),) * 4)
    else:
        claims = facts.claims_of(rows, rows.where(kind="op", f="delivered")[rows.memo(facts.drain_reads)])
    of, first, until = ranges(claims.queue, claims.offset)
    found.fact(held=of.tolist(), first=first.tolist(), until=until.tolist())


def first_held(reported: Facts, queue: Ints, due: Ints) -> Ints:
    """Return the first offset of each queue, from the one that was due on, at which any shard reported a message; -1
    for none."""
    held, first, until = joined(reported, "held", "first", "until")
    queues = np.unique(np.append(held, queue))
    line = Line.of(first, until)
    last = line.places(np.searchsorted(queues, held), until - 1)
    order = np.argsort(last)
    last, first = last[order], first[order]
    asked = np.searchsorted(queues, queue)
    place = np.searchsorted(last, line.places(asked, due))
    found = np.full(len(queue), -1, dtype=np.int64)
    some = np.flatnonzero(place < len(last))
    some = some[line.keys(last[place[some]]) == asked[some]]
    found[some] = np.maximum(first[place[some]], due[some])
    return found
