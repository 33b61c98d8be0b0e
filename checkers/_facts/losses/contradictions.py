"""Statements about one offset that contradict each other, and that no weakness of the profile explains."""

from __future__ import annotations

import numpy as np

from chaos.findings import Findings
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.arrays import NEVER, Flags, Ints, any_in, distinct, slots
from checkers._facts.claims import Claims, claims_of, conflicts
from checkers._facts.losses.permitted import UNDECIDED, cuts, cuts_of_read
from checkers._facts.nodes.logs import first_confirms


def contradictions(rows: Rows, context: RunContext, found: Findings, claims: Claims) -> tuple[Claims, Ints]:
    """Return the claims that must hold, and the pairs of them (numbers, as :func:`conflicts` returns them) that
    contradict each other. Of two the one of the older epoch may be gone (the earlier one, where one of them has no
    epoch): what logs held, if what is confirmed may be; what was reported to readers and producers, if that may be. The
    newer one may be, if an unclean election lies between all rows that show the one and all that show the other. What
    the profile permits is counted."""
    pairs = conflicts(claims)
    while len(pairs) and not context.strict:
        epoch = _epochs(rows, claims)
        swap = _is_later(epoch, rows.column("time_ns")[claims.at], pairs)
        earlier, later = np.where(swap, pairs[:, 1], pairs[:, 0]), np.where(swap, pairs[:, 0], pairs[:, 1])
        permitted = _permitted(rows, context, found, claims, epoch, earlier, later)
        if not permitted.any():
            break
        claims = claims.only(~_like(claims, epoch, earlier[permitted]))
        pairs = conflicts(claims)
    return claims, pairs if context.strict else _not_apart(rows, context, found, claims, pairs)


def _is_later(epoch: Ints, times: Ints, pairs: Ints) -> Flags:
    """Return of which pairs the first one is the later one."""
    one, two = pairs[:, 0], pairs[:, 1]
    known = (epoch[one] >= 0) & (epoch[two] >= 0)
    later: Flags = np.where(known, epoch[one] > epoch[two], times[one] > times[two])
    return later


def _not_apart(rows: Rows, context: RunContext, found: Findings, claims: Claims, pairs: Ints) -> Ints:
    """Return the pairs of claims that no unclean election lies between. What an old master had and never confirmed may
    be confirmed by one much later, in place of what was confirmed meanwhile in newer epochs."""
    permits = cuts(rows, context, confirmed=True).unclean
    if not len(pairs) or not permits:
        return pairs
    disputed = np.flatnonzero(any_in(claims.place[pairs[:, 0]], claims.count)[claims.place])
    first, queue = _first_shown(rows, claims.at[disputed]), claims.queue[disputed]
    left, sure = (
        _conflicts_between(claims, disputed, cuts.between(first, queue)) for cuts in (permits, permits.certain)
    )
    found.count("permitted_by_policy", len(pairs) - len(left))
    if len(left) < len(sure):
        found.gap(UNDECIDED)
    return left


def _first_shown(rows: Rows, at: Ints) -> Ints:
    """In which epoch each of these rows first showed what it claims: a record of a log when it was called confirmed,
    what stands there after the run later than all epochs. -1 where that is unknown."""
    kind, epoch = rows.column("kind")[at], rows.column("epoch")[at]
    epoch[kind == rows.code("kind", "final")] = NEVER
    appends = np.flatnonzero(kind == rows.code("kind", "trace"))
    confirms = first_confirms(rows, at[appends])
    epoch[appends] = np.where(confirms >= 0, rows.column("epoch")[confirms], -1)
    return epoch


def _conflicts_between(claims: Claims, disputed: Ints, between: Ints) -> Ints:
    """:func:`conflicts` of these claims, shown between the same two cuts. Where that is unknown of one of them, those
    of its place are held against each other as if there were no cut."""
    unknown = any_in(claims.place[disputed[between < 0]], claims.count)[claims.place[disputed]]
    number = np.where(unknown, -1, between)
    found = [np.empty((0, 2), dtype=np.int64)]
    for one in distinct(number).tolist():
        mine = disputed[number == one]
        found.append(mine[conflicts(claims.only(mine))])
    pairs = np.concatenate(found)
    other = pairs[:, 1]
    return pairs[np.lexsort((other, claims.offset[other], claims.queue[other]))]


def _epochs(rows: Rows, claims: Claims) -> Ints:
    """Return in which epoch each record was appended, where a replica reports that: the last one up to the epoch of the
    row that names the record; else the latter. A new master may show for a while what it, or the tier, still holds of
    an older term."""
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
        pair = (epoch[one], times[one], claims.queue[one]), (epoch[two], times[two], claims.queue[two])
        permitted[mine] = permits.part(*pair)
        found.count("permitted_by_policy", int(permitted[mine].sum()))
        if (permitted[mine] & ~permits.certain.part(*pair)).any():
            found.gap(UNDECIDED)
    return permitted


def _like(claims: Claims, epoch: Ints, gone: Ints) -> Flags:
    """Return which claims say the same of the same offset as those that are gone, in no later epoch."""
    alike, count = slots(claims.place, claims.hash)
    last = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(last, alike[gone], epoch[gone])
    flags: Flags = epoch <= last[alike]
    return flags
