"""The rows of one shard as whole columns: what kernels compute on, and laws that must be fast."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Form:
    """Values that differ in nothing but whole numbers. ``at``: the places of their rows, ascending, in the positions
    that were asked for. ``value``: what they have in common; a whole number that differs stands in it as an array, with
    one number for each of ``at``."""

    value: Mapping[str, Any]
    at: npt.NDArray[np.int64]

    def whole(self, number: Any) -> npt.NDArray[np.int64]:
        """Return a number that stands in ``value``, for each row. Raises ``TypeError`` or ``ValueError`` when it is
        none."""
        if isinstance(number, np.ndarray):
            return number
        least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
        return np.full(len(self.at), max(least, min(int(number), most)), dtype=np.int64)


class Rows(Protocol):
    """The rows of one shard in ``index`` order: numeric columns as numpy arrays, text columns as integer codes."""

    def __len__(self) -> int: ...

    @property
    def beside(self) -> Rows:
        """The same rows, at the same positions, where :meth:`where` also finds what stands beside
        (:attr:`chaos.kernel.Reads.beside`). These very rows where queues are whole."""

    @property
    def own(self) -> npt.NDArray[np.bool_]:
        """Which rows do not stand beside: they are in no other shard of this part, unless wanted everywhere."""

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a numeric column (int64), or the codes of a text column."""

    def code(self, column: str, text: str) -> int:
        """Return the code of a text in that column, -2 if it does not occur."""

    def text(self, column: str, row: int) -> str: ...

    def value(self, row: int) -> dict[str, Any]:
        """Return the row's ``value`` column, parsed."""

    def values(self, at: npt.NDArray[np.int64]) -> Iterator[dict[str, Any]]:
        """Yield the same of many rows, which costs each row less."""

    def forms(self, at: npt.NDArray[np.int64]) -> Sequence[Form]:
        """Return the ``value`` of all these rows, parsed together: each row in one form. It costs a parse for each
        form, where :meth:`value` costs one for each row."""

    def where(self, **equals: str | int) -> npt.NDArray[np.int64]:
        """Positions of the rows in which every named column equals the given text or number, ascending."""

    def numbers(self, key: str, at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the whole number under ``key`` of each row's ``value``, -1 where there is none; for flat values
        only."""

    def words(self, key: str, at: npt.NDArray[np.int64]) -> list[str]:
        """Return the text under ``key`` of each row's ``value``, "" where there is none; for flat values only."""

    def labels(self, key: str, at: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], list[str]]:
        """As :meth:`words`, for many rows: a code for each, and the texts behind the codes, each of them once. Some of
        them may be those of no row."""

    def memo(self, make: Callable[[Rows], T]) -> T:
        """``make(self)``, computed once for all kernels that look at these rows."""

    def lookup(self, make: Callable[[Rows], Mapping[int, T]]) -> Mapping[int, T]:
        """Return what ``make`` knows of each queue (:class:`chaos.kernel.Lookup`), of this shard's or of others too."""
