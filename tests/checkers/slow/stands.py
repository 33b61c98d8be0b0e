"""What stands at an offset, by everybody's word, statement after statement: for the oracles of several laws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaos.shard_rows import Rows
from tests.checkers.slow.plain import Row, calls, read, some


@dataclass(frozen=True, slots=True)
class Statement:
    """A row says that this queue holds this content at this offset."""

    row: Row
    queue: int
    offset: int
    content: int


def _all_known(statements: Iterator[Statement]) -> list[Statement]:
    return [one for one in statements if min(one.queue, one.offset, one.content) >= 0]


def by_rows(rows: Sequence[Row]) -> list[Statement]:
    return _all_known(Statement(one, one.queue, one.offset, one.hash) for one in rows)


def acknowledged(rows: Rows) -> list[Statement]:
    """The answers say where, also those that a repetition gets; what it was, the sender knows."""
    return rows.memo(_acknowledged)


def _acknowledged(rows: Rows) -> list[Statement]:
    ended = [(call.begin, call.end) for call in calls(rows, "send") if call.end and call.end.type != "fail"]
    return _all_known(Statement(end, end.queue, end.offset, begin.hash) for begin, end in ended if end is not None)


def delivered(rows: Rows) -> list[Statement]:
    return rows.memo(_delivered)


def _delivered(rows: Rows) -> list[Statement]:
    return by_rows(read(rows, "delivered"))


def tiered(rows: Rows) -> list[Statement]:
    return rows.memo(_tiered)


def _tiered(rows: Rows) -> list[Statement]:
    return by_rows(some(rows, "final", "tiered"))


def end_of(record: Row) -> int:
    """Where a record of a log ends; one of unknown size takes a byte."""
    return record.position + max(1, record.number("size"))


def once_confirmed(rows: Rows) -> list[Statement]:
    """Records that stood in a replica's log when it called them confirmed. The log is a list: a cut takes off what
    goes beyond it, a new beginning takes all."""
    return rows.memo(_once_confirmed)


def _once_confirmed(rows: Rows) -> list[Statement]:
    names = ("append", "confirm", "truncate", "recovered", "bootstrap")
    logs: dict[str, list[Row]] = {}
    confirmed: dict[int, Row] = {}
    for one in sorted(some(rows, "trace", *names), key=lambda one: (one.node, one.incarnation, one.step, one.index)):
        log = logs.setdefault(one.node, [])
        if one.f == "append":
            log.append(one)
        elif one.f == "confirm":
            confirmed |= {record.at: record for record in log if end_of(record) <= one.position}
        elif one.f == "bootstrap":
            log.clear()
        else:
            log[:] = [record for record in log if end_of(record) <= one.position]
    return by_rows([confirmed[at] for at in sorted(confirmed)])


def in_the_end(rows: Rows) -> list[Statement]:
    """Records of logs after the run; where the system did not recover, only what their replica calls confirmed."""
    return rows.memo(_in_the_end)


def _in_the_end(rows: Rows) -> list[Statement]:
    logs = some(rows, "final", "log")
    if not some(rows, "harness", "recovered"):
        confirm = {one.node: int(one.value.get("confirm", -1)) for one in some(rows, "final", "node")}
        logs = [one for one in logs if one.position < confirm.get(one.node, -1)]
    return by_rows(logs)


def contradictions(statements: Sequence[Statement]) -> list[tuple[Statement, Statement]]:
    """At each offset the first statement and the first one of each other content, by queue and offset."""
    places: dict[tuple[int, int], dict[int, Statement]] = {}
    for one in statements:
        places.setdefault((one.queue, one.offset), {}).setdefault(one.content, one)
    pairs = []
    for _, by_content in sorted(places.items()):
        first, *others = by_content.values()
        pairs += [(first, other) for other in others]
    return pairs
