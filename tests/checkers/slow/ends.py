"""What clients were shown of how far queues go, one word after the other: for the oracles of several kernels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from chaos.shard_rows import Rows
from checkers import _facts as facts
from tests.checkers.slow.plain import Row, calls, read


@dataclass(frozen=True, slots=True)
class Word:
    """A row says that its queue goes up to ``end``; ``by_master``: the master of that epoch said so."""

    row: Row
    end: int
    by_master: bool


def words(rows: Rows, *, by_sends: bool) -> list[Word]:
    """In the order of their rows. ``by_sends``: an acknowledgement is such a word, too."""
    said: list[tuple[Row, int]] = []
    for call in calls(rows, "pull", "bounds"):
        if call.ok and call.end is not None:
            said.append((call.end, call.end.number("maximum")))
    said += [(row, row.offset + 1) for row in read(rows, "delivered")]
    if by_sends:
        said += [(call.end, call.end.offset + 1) for call in calls(rows, "send") if call.ok and call.end]
    known = sorted(((row, end) for row, end in said if end > 0), key=lambda one: one[0].at)
    return [Word(row, end, is_master(rows, row)) for row, end in known]


def strict_words(rows: Rows) -> list[Word]:
    return words(rows, by_sends=True)


def loose_words(rows: Rows) -> list[Word]:
    return words(rows, by_sends=False)


def is_master(rows: Rows, row: Row) -> bool:
    """Whether the master of its epoch wrote this row. Where nobody reports roles, who asks no certain replica asks the
    master."""
    terms = rows.memo(facts.masters)
    return (row.node, row.epoch) in terms if terms else not row.value.get("from")


def furthest(known: Iterable[Word], offset: int, before: int) -> Word | None:
    """Return the word of the highest end above this offset before this row, the first of several."""
    above = [word for word in known if word.end > offset and word.row.at < before]
    return max(above, key=lambda word: (word.end, -word.row.at), default=None)
