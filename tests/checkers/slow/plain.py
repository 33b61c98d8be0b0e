"""Histories as an oracle reads them: one row after another, and each call of a client with its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from chaos.shard_rows import Rows


@dataclass(frozen=True, slots=True)
class Row:
    """``at``: its place among the rows."""

    at: int
    index: int
    time_ns: int
    f: str
    type: str
    op: int
    process: str
    node: str
    incarnation: int
    step: int
    epoch: int
    queue: int
    offset: int
    position: int
    message: int
    hash: int
    value: dict[str, Any]

    def number(self, key: str) -> int:
        found = self.value.get(key, -1)
        return found if isinstance(found, int) else -1


@dataclass(frozen=True, slots=True)
class Call:
    """``end``: None while nobody knows how it ended."""

    begin: Row
    end: Row | None

    @property
    def ok(self) -> bool:
        return self.end is not None and self.end.type == "ok"


NUMBERS = ("index", "time_ns", "op", "incarnation", "step", "epoch", "queue", "offset", "position", "message", "hash")
TEXTS = ("f", "type", "process", "node")


def row(rows: Rows, at: int) -> Row:
    numbers = {name: int(rows.column(name)[at]) for name in NUMBERS}
    texts = {name: rows.text(name, at) for name in TEXTS}
    return Row(at=at, value=rows.value(at), **numbers, **texts)


def some(rows: Rows, kind: str, *names: str) -> list[Row]:
    """All rows of a kind and these names, in the order of recording."""
    return rows.memo(_reader(kind, names))


@cache
def _reader(kind: str, names: tuple[str, ...]) -> Callable[[Rows], list[Row]]:
    def found(rows: Rows) -> list[Row]:
        return [row(rows, at) for at in sorted(int(at) for f in names for at in rows.where(kind=kind, f=f))]

    return found


def read(rows: Rows, f: str) -> list[Row]:
    """The clients' rows of this name."""
    return some(rows, "op", f)


def calls(rows: Rows, *names: str) -> list[Call]:
    """All of these, in the order in which they began."""
    return rows.memo(_caller(names))


@cache
def _caller(names: tuple[str, ...]) -> Callable[[Rows], list[Call]]:
    def found(rows: Rows) -> list[Call]:
        return sorted((call for f in names for call in _calls(rows, f)), key=lambda call: call.begin.at)

    return found


def _calls(rows: Rows, f: str) -> Iterator[Call]:
    every = read(rows, f)
    ends = {one.op: one for one in every if one.type != "invoke"}
    return (Call(one, ends.get(one.index)) for one in every if one.type == "invoke")
