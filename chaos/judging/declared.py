"""Rows as one kernel has declared that it reads them: asking for others raises, in a small run as in a large one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from chaos.kernel import ALWAYS, Needs
from chaos.law import Undeclared
from chaos.shard_rows import Form, Rows

T = TypeVar("T")
Positions = npt.NDArray[np.int64]


class Declared:
    """Implements :class:`chaos.law.Rows` over other rows. What laws share through ``memo`` is made from those rows
    themselves; with ``strict`` it is made from these, so that it can't read what is undeclared either (for tests: then
    nothing is shared)."""

    def __init__(self, rows: Rows, needs: Needs, *, strict: bool = False, beside: bool = False) -> None:
        """``beside``: what stands beside may be read, too."""
        self._rows = rows
        self._is_beside = beside
        self._besides: Declared | None = None
        self._needs = needs
        self._readable = [reads for reads in needs.rows if beside or not reads.beside]
        self._columns = frozenset((*needs.columns, *ALWAYS))
        self._strict = strict
        self._made: dict[Callable[[Rows], Any], Any] = {}
        self._asked: dict[tuple[tuple[str, str | int], ...], Positions] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def beside(self) -> Declared:
        if self._is_beside:
            return self
        if self._besides is None:
            self._besides = Declared(self._rows.beside, self._needs, strict=self._strict, beside=True)
        return self._besides

    @property
    def own(self) -> npt.NDArray[np.bool_]:
        return self._rows.own

    def column(self, name: str) -> npt.NDArray[Any]:
        self._has(name)
        return self._rows.column(name)

    def code(self, column: str, text: str) -> int:
        self._has(column)
        return self._rows.code(column, text)

    def text(self, column: str, row: int) -> str:
        self._has(column)
        if self._strict:
            self._is_mine(row)
        return self._rows.text(column, row)

    def value(self, row: int) -> dict[str, Any]:
        self._has("value")
        if self._strict:
            self._is_mine(row)
        return self._rows.value(row)

    def values(self, at: Positions) -> Iterator[dict[str, Any]]:
        self._has("value")
        self._are_mine(at)
        return self._rows.values(at)

    def forms(self, at: Positions) -> Sequence[Form]:
        self._has("value")
        self._are_mine(at)
        return self._rows.forms(at)

    def where(self, **equals: str | int) -> Positions:
        key = tuple(equals.items())
        if key not in self._asked:
            self._check(equals)
            self._asked[key] = self._rows.where(**equals)
        return self._asked[key]

    def numbers(self, key: str, at: Positions) -> Positions:
        self._has("value")
        self._are_mine(at)
        return self._rows.numbers(key, at)

    def words(self, key: str, at: Positions) -> list[str]:
        self._has("value")
        self._are_mine(at)
        return self._rows.words(key, at)

    def labels(self, key: str, at: Positions) -> tuple[Positions, list[str]]:
        self._has("value")
        self._are_mine(at)
        return self._rows.labels(key, at)

    def memo(self, make: Callable[[Rows], T]) -> T:
        if not self._strict:
            return self._rows.memo(make)
        if make not in self._made:
            self._made[make] = make(self)
        made: T = self._made[make]
        return made

    def lookup(self, make: Callable[[Rows], Mapping[int, T]]) -> Mapping[int, T]:
        if not any(one.make is make for one in self._needs.lookups):
            raise Undeclared(f"it looks up what {make.__qualname__} knows, which it does not declare")
        return self._rows.lookup(make)

    def _has(self, column: str) -> None:
        if column not in self._columns:
            raise Undeclared(f"it reads the column {column!r}, which it does not declare")

    def _check(self, equals: dict[str, str | int]) -> None:
        kind, f = equals.get("kind"), equals.get("f")
        for reads in self._readable:
            if kind == reads.kind and (not reads.f or f in reads.f):
                break
        else:
            what = f"kind {kind!r}" if kind is not None else "every kind"
            raise Undeclared(f"it reads rows of {what}, f {f if f is not None else 'any'!r}, which it does not declare")
        for name in equals:
            if name not in ("kind", "f"):
                self._has(name)

    def _is_mine(self, row: int) -> None:
        kind, f = self._rows.text("kind", row), self._rows.text("f", row)
        if not any(reads.covers(kind, f) for reads in self._needs.rows):
            raise Undeclared(f"it reads a row of kind {kind!r}, f {f!r}, which it does not declare")

    def _are_mine(self, at: Positions) -> None:
        if self._strict:
            for row in at.tolist():
                self._is_mine(row)
