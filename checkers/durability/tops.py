"""The rows of a queue that show how far it goes, of all that show its content."""

from __future__ import annotations

import numpy as np

from chaos.shard_rows import Rows
from checkers._facts.arrays import Ints, among, distinct, only, places_in, tops
from checkers._facts.clients import sends
from checkers._facts.reads import kept_of


def keep(rows: Rows) -> Ints:
    """Return of each queue the first row that names it, the acknowledged send and the delivery with the highest offset,
    and of sends the ends whose invocations are not among the rows, since they come before them."""
    sent, read, made = rows.where(kind="op", f="send"), rows.where(kind="op", f="delivered"), rows.memo(sends)
    ends = sent[rows.column("type")[sent] != rows.code("type", "invoke")]
    alone = ends[~among(rows.column("op")[ends], made.began)]
    content = rows.column("hash")
    done = _highest(rows, made.done[made.ok], content[made.invoke[made.ok]])
    asked = made.invoke[among(made.done, done)]
    first = _first(rows, np.concatenate([sent, read]))
    return distinct(np.concatenate([first, alone, done, asked, _highest(rows, read, content[read])]))


def _first(rows: Rows, at: Ints) -> Ints:
    """Of each queue its first row."""
    at = np.sort(at)
    return at[np.unique(rows.column("queue")[at], return_index=True)[1]]


def _highest(rows: Rows, at: Ints, content: Ints) -> Ints:
    """Of each queue the row that names its highest offset, the last one of several, with a content."""
    queue, offset = rows.column("queue")[at], rows.column("offset")[at]
    at, queue, offset = only((queue | offset | content) >= 0, at, queue, offset)
    queues, highest = tops(queue, offset)
    at, queue = only(highest[places_in(queues, queue)[0]] == offset, at, queue)
    order = np.lexsort((at, queue))
    return at[order[np.append(queue[order][1:] != queue[order][:-1], True)[: len(at)]]]


READS = kept_of("send", "delivered", keep=keep, columns=("hash",))
