"""Statements about one offset that contradict each other, and that no weakness of the profile explains."""

from __future__ import annotations

import numpy as np

from chaos.judging.findings import Findings
from chaos.law import Rows, RunContext
from checkers._views.arrays import Flags, Ints, slots
from checkers._views.claims import Claims, claims_of, conflicts
from checkers._views.losses.permitted import UNDECIDED, cuts, cuts_of_read


def contradictions(rows: Rows, context: RunContext, found: Findings, claims: Claims) -> tuple[Claims, Ints]:
    """The claims that must hold, and the pairs of them (numbers, as :func:`conflicts` tells them) that contradict each
    other. Of two the one of the older epoch may be gone: what logs held, if what is confirmed may be; what readers and
    producers were told, if that may be. What the profile permits is counted."""
    pairs = conflicts(claims)
    while len(pairs) and not context.strict:
        epoch = _epochs(rows, claims)
        swap = epoch[pairs[:, 0]] > epoch[pairs[:, 1]]
        earlier, later = np.where(swap, pairs[:, 1], pairs[:, 0]), np.where(swap, pairs[:, 0], pairs[:, 1])
        permitted = _permitted(rows, context, found, claims, epoch, earlier, later)
        if not permitted.any():
            break
        claims = claims.only(~_like(claims, epoch, earlier[permitted]))
        pairs = conflicts(claims)
    return claims, pairs


def _epochs(rows: Rows, claims: Claims) -> Ints:
    """In which epoch each record was appended, where a replica reports that: the last one up to that of whoever tells
    of it; else the latter. A new master may show for a while what it, or the tier, still holds of an older term."""
    appended = claims_of(rows, rows.where(kind="trace", f="append"))
    number, _ = slots(np.concatenate([appended.place, claims.place]), np.concatenate([appended.hash, claims.hash]))
    epoch = rows.column("epoch")[np.concatenate([appended.at, claims.at])]
    is_append = np.arange(len(number)) < len(appended.at)
    order = np.lexsort((~is_append, epoch, number))
    last = np.maximum.accumulate(np.where(is_append[order], np.arange(len(order)), -1))
    by = order[np.maximum(last, 0)]
    known = (last >= 0) & (number[by] == number[order])
    found = epoch.copy()
    found[order[known]] = epoch[by[known]]
    return found[len(appended.at) :]


def _permitted(
    rows: Rows, context: RunContext, found: Findings, claims: Claims, epoch: Ints, earlier: Ints, later: Ints
) -> Flags:
    f, times = rows.column("f")[claims.at[earlier]], rows.column("time_ns")[claims.at]
    sent, read = f == rows.code("f", "send"), f == rows.code("f", "delivered")
    permitted = np.zeros(len(earlier), dtype=np.bool_)
    for mine, permits in (
        (sent, cuts(rows, context, confirmed=False)),
        (read, cuts_of_read(rows, context)),
        (~(sent | read), cuts(rows, context, confirmed=True)),
    ):
        one, two = earlier[mine], later[mine]
        pair = (epoch[one], times[one]), (epoch[two], times[two])
        permitted[mine] = permits.part(*pair)
        found.count("permitted_by_policy", int(permitted[mine].sum()))
        if (permitted[mine] & ~permits.certain.part(*pair)).any():
            found.gap(UNDECIDED)
    return permitted


def _like(claims: Claims, epoch: Ints, gone: Ints) -> Flags:
    """The claims that tell the same of the same offset as those that are gone, in no later epoch."""
    alike, count = slots(claims.place, claims.hash)
    last = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(last, alike[gone], epoch[gone])
    flags: Flags = epoch <= last[alike]
    return flags
