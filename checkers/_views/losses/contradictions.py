"""Statements about one offset that contradict each other, and that no weakness of the profile explains."""

from __future__ import annotations

import numpy as np

from chaos.judging.findings import Findings
from chaos.law import Rows, RunContext
from checkers._views.arrays import Flags, Ints, slots
from checkers._views.claims import Claims, conflicts
from checkers._views.losses.permitted import cuts, cuts_of_read, note


def contradictions(rows: Rows, context: RunContext, found: Findings, claims: Claims) -> tuple[Claims, Ints]:
    """The claims that must hold, and the pairs of them (numbers, as :func:`conflicts` tells them) that contradict each
    other. Of two the one of the older epoch may be gone: what logs held, if what is confirmed may be; what readers and
    producers were told, if that may be. What the profile permits is counted."""
    pairs = conflicts(claims)
    while len(pairs) and not context.strict:
        epoch = rows.column("epoch")[claims.at]
        swap = epoch[pairs[:, 0]] > epoch[pairs[:, 1]]
        earlier, later = np.where(swap, pairs[:, 1], pairs[:, 0]), np.where(swap, pairs[:, 0], pairs[:, 1])
        permitted = _permitted(rows, context, found, claims.at[earlier], claims.at[later])
        if not permitted.any():
            break
        claims = claims.only(~_like(claims, epoch, earlier[permitted]))
        pairs = conflicts(claims)
    return claims, pairs


def _permitted(rows: Rows, context: RunContext, found: Findings, earlier: Ints, later: Ints) -> Flags:
    f, permitted = rows.column("f")[earlier], np.zeros(len(earlier), dtype=np.bool_)
    sent, read = f == rows.code("f", "send"), f == rows.code("f", "delivered")
    for mine, permits in (
        (sent, cuts(rows, context, confirmed=False)),
        (read, cuts_of_read(rows, context)),
        (~(sent | read), cuts(rows, context, confirmed=True)),
    ):
        permitted[mine] = permits.separate(rows, earlier[mine], later[mine])
        note(found, rows, permits, earlier[mine & permitted], later[mine & permitted])
    return permitted


def _like(claims: Claims, epoch: Ints, gone: Ints) -> Flags:
    """The claims that tell the same of the same offset as those that are gone, in no later epoch."""
    alike, count = slots(claims.place, claims.hash)
    last = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(last, alike[gone], epoch[gone])
    flags: Flags = epoch <= last[alike]
    return flags
