"""What an anomaly is about: messages, places in queues, objects, and the rows that its law names."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from chaos.events import Commit
from chaos.history.history import History
from chaos.history.row import Row
from chaos.operations import CommitOffset, CommittedOffset
from chaos.verdict import Anomaly

#: So many rows of an anomaly are followed, and so many messages.
WITNESSES, MESSAGES = 24, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """``witnesses`` are the rows that the law names, with the calls that they answer. ``places`` are (queue,
    offset), ``groups`` (queue, consumer group) whose offsets it is about."""

    witnesses: Sequence[Row]
    messages: frozenset[int]
    places: frozenset[tuple[int, int]]
    objects: frozenset[str]
    groups: frozenset[tuple[int, str]]

    @property
    def first(self) -> Row:
        return self.witnesses[0]

    @property
    def last(self) -> Row:
        return self.witnesses[-1]


def subject(anomaly: Anomaly, history: History) -> Subject:
    """Return the subject of an anomaly of ``verdict.json`` that names rows."""
    named = history.numbered(anomaly.rows[:WITNESSES])
    calls = {row.op if row.op >= 0 else row.index for row in named if row.kind == "op"}
    found = {row.index: row for row in [*named, *history.numbered(calls), *_ends_of(calls, history)]}
    first = (anomaly.queue, anomaly.offset)
    copies = [(row.queue, row.offset) for row in named if row.message >= 0]
    messages = [anomaly.message, *(row.message for row in named)]
    return Subject(
        witnesses=[found[index] for index in sorted(found)],
        messages=frozenset(list(dict.fromkeys(one for one in messages if one >= 0))[:MESSAGES]),
        places=frozenset(list(dict.fromkeys(one for one in [first, *copies] if min(one) >= 0))[:MESSAGES]),
        objects=frozenset(str(row.value["object"]) for row in named if "object" in row.value),
        groups=frozenset((row.queue, str(row.value["group"])) for row in named if is_about_group(row)),
    )


def is_about_group(row: Row) -> bool:
    """Return whether a row is about the offset of a consumer group: a client stored it or asked for it, or it took
    effect."""
    return row.f in (CommitOffset.f, CommittedOffset.f, Commit.f) and "group" in row.value


def _ends_of(calls: Collection[int], history: History) -> list[Row]:
    """Return the answers to these calls, without the messages that a reader was given."""
    wanted = pa.array(sorted(calls), pa.int64())
    return [row for row in history.each("op", keep=lambda t: pc.is_in(t["op"], wanted)) if row.f != "delivered"]
