"""What a law implements: a kernel over the columns of one shard, and a judgement over what the kernels found.

Kernels are pure functions from numpy columns to a :class:`Partial`. They run in this process or inside Spark tasks,
never see a cluster, and never read another file. The same shard gives the same partial.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from chaos.verdict import Anomaly, LawName, Verdict

T = TypeVar("T")

#: Workloads that operate on objects of the controllers and use no queue.
OBJECT_WORKLOADS = frozenset({"register", "lock"})


class Scope(StrEnum):
    """Which rows a kernel needs together. A shard of a large run holds some queues, or the rows without a queue; a
    small run is one shard with everything."""

    QUEUE = "queue"  # all rows of one queue, plus the run's faults and phases
    CONTROL = "control"  # all rows that have no queue, plus manifests of every queue


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What is known of a run besides its rows: ``run.json``, and what damage the loader met."""

    run: str
    seed: int
    meta: Mapping[str, Any]
    damage: Sequence[str] = ()

    @property
    def uses_queues(self) -> bool:
        """Whether laws about queues are owed evidence: not in a run whose workloads all operate on objects."""
        workloads = self.meta.get("workloads") or ()
        return not workloads or not set(workloads) <= OBJECT_WORKLOADS


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """A kernel's findings in one shard. ``counts`` add up over shards; ``anomalies`` are joined; ``facts`` are JSON
    values that ``judge`` needs from each shard; ``gaps`` name observations that are missing (→ UNKNOWN)."""

    counts: Mapping[str, int] = field(default_factory=dict)
    anomalies: Sequence[Anomaly] = ()
    facts: Sequence[Mapping[str, Any]] = ()
    gaps: Sequence[str] = ()


class Rows(Protocol):
    """The rows of one shard in ``index`` order: numeric columns as numpy arrays, text columns as integer codes."""

    def __len__(self) -> int: ...

    def column(self, name: str) -> npt.NDArray[Any]:
        """A numeric column (int64), or the codes of a text column."""

    def code(self, column: str, text: str) -> int:
        """The code of a text in that column, -2 if it does not occur."""

    def text(self, column: str, row: int) -> str: ...

    def value(self, row: int) -> dict[str, Any]:
        """The row's ``value`` column, parsed."""

    def where(self, **equals: str | int) -> npt.NDArray[np.int64]:
        """Positions of the rows in which every named column equals the given text or number, ascending."""

    def numbers(self, key: str, at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The whole number under ``key`` of each row's ``value``, -1 where there is none; for flat values only."""

    def words(self, key: str, at: npt.NDArray[np.int64]) -> list[str]:
        """The text under ``key`` of each row's ``value``, "" where there is none; for flat values only."""

    def memo(self, make: Callable[[Rows], T]) -> T:
        """``make(self)``, computed once for all kernels that look at these rows."""


class Law(Protocol):
    """One promise. Build it with ``create(options)`` of its module in ``checkers/``; a module may also make several
    laws: then ``create`` returns a sequence."""

    @property
    def name(self) -> LawName: ...

    @property
    def scope(self) -> Scope: ...

    def examine(self, rows: Rows, context: RunContext) -> Partial: ...

    def judge(self, partials: Sequence[Partial], context: RunContext) -> Verdict:
        """Decide. Vacuous evidence (nothing acknowledged, no drain, no observations) is UNKNOWN, with the reason."""
