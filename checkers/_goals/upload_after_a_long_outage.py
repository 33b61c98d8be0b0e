"""The tier named new segments of a queue after it had taken nothing for 30 seconds, though uploaders asked."""

from __future__ import annotations

from itertools import pairwise

from chaos.driver import Evidence, NoOptions
from chaos.events import StoreCas, TierRequest
from chaos.goal import Goal
from chaos.law import Rows

#: An uploader that waits twice as long after each failure has waited for its longest time by then.
LONG_NS = 30_000_000_000


def _reached(history: Rows) -> int:
    rows = history.columns
    times = rows.column("time_ns")
    commits = rows.where(kind="trace", f="store_cas").tolist()
    taken = sorted(int(times[at]) for at in commits if rows.value(at).get("outcome") == "applied")
    asked = [int(times[at]) for at in rows.where(kind="trace", f="tier_request").tolist()]
    gaps = [(last, first) for last, first in pairwise(taken) if first - last >= LONG_NS]
    return sum(any(last < when < first for when in asked) for last, first in gaps)


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=(StoreCas, TierRequest),
        evidence=(Evidence.OPERATIONS, Evidence.TIER),
        reached=_reached,
    )
