"""The rows of a queue that show how far it goes, of all that show its content."""

from __future__ import annotations

import numpy as np

from chaos.shard_rows import Rows
from checkers._facts.arrays import Ints, among, distinct
from checkers._facts.claims import Claims, acknowledged, claims_of
from checkers._facts.clients import sends
from checkers._facts.reads import kept_of


def keep(rows: Rows) -> Ints:
    """Return of each queue the first row that names it, the acknowledged send and the delivery with the highest offset,
    and of sends the ends whose invocations are not among the rows, since they come before them."""
    every = np.concatenate([rows.where(kind="op", f=f) for f in ("send", "delivered")])
    sent, made = rows.where(kind="op", f="send"), rows.memo(sends)
    ends = sent[rows.column("type")[sent] != rows.code("type", "invoke")]
    alone = ends[~among(rows.column("op")[ends], made.began)]
    done = _highest(rows.memo(acknowledged))
    asked = made.invoke[among(made.done, done)]
    read = _highest(claims_of(rows, rows.where(kind="op", f="delivered")))
    return distinct(np.concatenate([_first(rows, every), alone, done, asked, read]))


def _first(rows: Rows, at: Ints) -> Ints:
    """Of each queue its first row."""
    at = np.sort(at)
    return at[np.unique(rows.column("queue")[at], return_index=True)[1]]


def _highest(claims: Claims) -> Ints:
    """Of each queue the row that claims its highest offset, the last one of several."""
    order = np.lexsort((claims.at, claims.offset, claims.queue))
    queue = claims.queue[order]
    return claims.at[order[np.append(queue[1:] != queue[:-1], True)[: len(order)]]]


READS = kept_of("send", "delivered", keep=keep, columns=("hash",))
