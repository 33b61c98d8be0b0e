"""The queue offsets of a replica's log leave out none, and its epochs do not fall."""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np

from chaos.findings import Findings
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts.arrays import Ints, any_in, first_in, slots
from checkers.agreement.promise import REPLICA_DIVERGENCE
from checkers.agreement.records import describe


def no_holes(rows: Rows, found: Findings, at: Ints) -> None:
    """Check that what one replica's log holds and calls confirmed after recovery, every other's of its group holds at
    the same position, and as the same offset, if its own log begins before and ends after that. ``at`` are the records
    of queues, or those of the system."""
    if facts.has_recovered(rows):
        column, groups = rows.column("node")[at], rows.memo(facts.replica_groups)
        for group in sorted({*groups.values()}):
            members = {name for name, its in groups.items() if its == group}
            own = np.isin(column, [rows.code("node", name) for name in members])
            _no_holes_in(rows, found, at[own], members)


def _no_holes_in(rows: Rows, found: Findings, at: Ints, group: Set[str]) -> None:
    """Check the same for the records of one group's replicas."""
    logs = {
        node: (first, end, confirm)
        for node, first, end, confirm in rows.memo(extents)
        if node in facts.complete_nodes(rows) and node in group
    }
    queue, position, node, epoch = (rows.column(name)[at] for name in ("queue", "position", "node", "epoch"))
    ends = position + np.maximum(rows.numbers("size", at), 1)
    own = {name: node == rows.code("node", name) for name in logs}
    sure = np.zeros(len(at), dtype=np.bool_)
    for name, (_, _, confirm) in logs.items():
        sure |= own[name] & (ends <= confirm)
    confirmed = np.flatnonzero(sure)
    place, _ = slots(queue, rows.column("offset")[at])
    order, firsts = facts.groups(place[confirmed], position[confirmed])
    holders = confirmed[order[firsts]]
    slot, count = slots(place, position)
    holder = first_in(slot[holders], count, holders)
    for name, (first, end, _) in sorted(logs.items()):
        here = np.flatnonzero(own[name])
        of_other = holder[slot[here]]
        other = here[(of_other >= 0) & (epoch[here] != epoch[of_other])]
        found.add_each(
            REPLICA_DIVERGENCE,
            other,
            lambda number: _report_epoch(rows, found, int(at[number])),
            queues=queue[other],
            acted_ns=facts.since_load_ns(rows, at[other]),
        )
        due = (position[holders] >= first) & (ends[holders] <= end)
        missing = holders[due & ~any_in(slot[here], count)[slot[holders]]]

        def report(number: int, name: str = name, first: int = first, end: int = end) -> None:
            row = int(at[number])
            found.add(
                REPLICA_DIVERGENCE,
                f"The log of {name} goes from position {first} to {end} after recovery, but has no such record at "
                f"position {int(position[number])}, where {describe(rows, row)}.",
                int(rows.column("index")[row]),
                *(int(rows.column("index")[n]) for n in rows.where(kind="final", f="node", node=name)),
                queue=int(rows.column("queue")[row]),
                offset=int(rows.column("offset")[row]),
                message=int(rows.column("message")[row]),
            )

        found.add_each(
            REPLICA_DIVERGENCE, missing, report, queues=queue[missing], acted_ns=facts.since_load_ns(rows, at[missing])
        )


def _report_epoch(rows: Rows, found: Findings, at: int) -> None:
    found.add(
        REPLICA_DIVERGENCE,
        f"The log of {rows.text('node', at)} ascribes its record at position {int(rows.column('position')[at])} to "
        f"epoch {int(rows.column('epoch')[at])}, another one's log to another epoch.",
        int(rows.column("index")[at]),
        queue=int(rows.column("queue")[at]),
        offset=int(rows.column("offset")[at]),
        message=int(rows.column("message")[at]),
    )


def extents(rows: Rows) -> Sequence[tuple[str, int, int, int]]:
    """Return (node, where its log begins, where it ends, up to where it is confirmed) after the run, as each node
    reports it."""
    found = []
    for at in rows.where(kind="final", f="node"):
        value = rows.value(at)
        first, end, confirm = (value.get(name) for name in ("first", "end", "confirm"))
        if isinstance(first, int) and isinstance(end, int) and isinstance(confirm, int):
            found.append((rows.text("node", at), first, end, confirm))
    return found
