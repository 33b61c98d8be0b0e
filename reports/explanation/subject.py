"""What an anomaly is about: messages, places in queues, objects, and the rows that its law names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaos.verdict import Anomaly
from reports.explanation.history import Row, Rows

#: So many rows of an anomaly are followed, and so many messages.
WITNESSES, MESSAGES = 24, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """``witnesses`` are the rows that the law names, with the calls that they answer. ``places`` are (queue,
    offset)."""

    witnesses: Sequence[Row]
    messages: frozenset[int]
    places: frozenset[tuple[int, int]]
    objects: frozenset[str]

    @property
    def first(self) -> Row:
        return self.witnesses[0]

    @property
    def last(self) -> Row:
        return self.witnesses[-1]


def subject(anomaly: Anomaly, rows: Rows) -> Subject:
    """Return the subject of an anomaly of ``verdict.json`` that names rows."""
    named = rows.numbered(anomaly.rows[:WITNESSES])
    calls = {row.op if row.op >= 0 else row.index for row in named if row.kind == "op"}
    found = {row.index: row for row in [*named, *rows.numbered(calls), *rows.ops_of(calls)]}
    first = (anomaly.queue, anomaly.offset)
    copies = [(row.queue, row.offset) for row in named if row.message >= 0]
    messages = [anomaly.message, *(row.message for row in named)]
    return Subject(
        witnesses=[found[index] for index in sorted(found)],
        messages=frozenset(list(dict.fromkeys(one for one in messages if one >= 0))[:MESSAGES]),
        places=frozenset(list(dict.fromkeys(one for one in [first, *copies] if min(one) >= 0))[:MESSAGES]),
        objects=frozenset(str(row.value["object"]) for row in named if "object" in row.value),
    )
