"""Which evidence answers why records are gone: the best that the run has."""

from __future__ import annotations

from chaos.driver import Evidence
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.arrays import Ints
from checkers._facts.losses import by_faults, polled, traced
from checkers._facts.losses.explained import Explained
from checkers._facts.losses.lineage import Records
from checkers._facts.losses.terms import terms


def explained(rows: Rows, context: RunContext, records: Records, at: Ints, *, acked: bool = True) -> Explained:
    """Return why each of these records is gone, and whether the profile permits that. ``at``: the row that reported
    each to a client. ``acked``: to a producer, so that the record stood on the copies that ``acks`` demands; otherwise
    on those of the whole SyncStateSet, as everything does that is confirmed. A strict profile permits nothing."""
    found = Explained.nothing(len(records))
    if context.strict or not len(records):
        return found
    if {Evidence.CONFIRM, Evidence.ROLES} <= context.evidence and rows.memo(terms):
        traced.explain(rows, context, records, at, found, acked=acked)
    elif rows.memo(polled.reigns):
        polled.explain(rows, context, at, found, acked=acked)
    else:
        by_faults.explain(rows, context, at, found)
    return found
