"""What stores report that they have applied of the groups' logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.shard_rows import Rows
from checkers._facts.arrays import Flags, Ints


@dataclass(frozen=True, slots=True)
class Fence:
    """A FENCE as one store has applied it, and the row that says so. ``end``: that of the group's bytes."""

    at: int
    group: int
    index: int
    epoch: int
    slice: str
    broker: str
    life: int
    end: int
    accepted: bool

    @property
    def owner(self) -> tuple[str, int]:
        """The broker, and which life of it."""
        return self.broker, self.life

    @property
    def content(self) -> tuple[object, ...]:
        """All that is the same on each replica."""
        return self.epoch, self.slice, self.broker, self.life, self.end, self.accepted


def fences(rows: Rows) -> tuple[Fence, ...]:
    """Return all reports of FENCEs by group and index, those of one entry in the order of the history."""
    return rows.memo(_fences)


def accepted_fences(rows: Rows) -> Mapping[int, Sequence[Fence]]:
    """Return of each group the FENCEs that any store says took effect, each once, by index."""
    return rows.memo(_accepted)


def _fences(rows: Rows) -> tuple[Fence, ...]:
    epoch, position = rows.column("epoch"), rows.column("position")
    found = []
    for at in rows.where(kind="trace", f="fence").tolist():
        value = rows.value(at)
        group, life, end = (whole_of(value, name) for name in ("group", "life", "end"))
        owned, broker = (str(value.get(name, "")) for name in ("slice", "broker"))
        accepted = value.get("accepted") is True
        found.append(Fence(at, group, int(position[at]), int(epoch[at]), owned, broker, life, end, accepted))
    return tuple(sorted(found, key=lambda one: (one.group, one.index, one.at)))


def _accepted(rows: Rows) -> Mapping[int, Sequence[Fence]]:
    once: dict[tuple[object, ...], Fence] = {}
    for one in fences(rows):
        if one.accepted:
            once.setdefault((one.group, one.index, one.content), one)
    found: dict[int, list[Fence]] = {}
    for one in once.values():
        found.setdefault(one.group, []).append(one)
    return found


def whole_of(value: Mapping[str, Any], name: str) -> int:
    """Return a whole number of a row's ``value``, -1 where there is none."""
    found = value.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else -1


@dataclass(frozen=True, slots=True)
class Appends:
    """All reports of APPENDs, as columns, by group and index. ``at`` are their rows; ``begin`` and ``end`` bytes;
    ``again``: an earlier entry had added these very records."""

    at: Ints
    group: Ints
    index: Ints
    epoch: Ints
    begin: Ints
    end: Ints
    crc: Ints
    accepted: Flags
    again: Flags

    def only(self, which: Flags) -> Appends:
        """Return some of them."""
        columns = (getattr(self, name)[which] for name in self.__slots__)
        return Appends(*columns)


def appends(rows: Rows) -> Appends:
    """Return them; computed once for all laws that look at these rows."""
    return rows.memo(_appends)


def _appends(rows: Rows) -> Appends:
    at = rows.where(kind="trace", f="group_append")
    numbers = {name: np.full(len(at), -1, dtype=np.int64) for name in ("group", "log_index", "end", "crc")}
    accepted, again = (np.zeros(len(at), dtype=np.bool_) for _ in range(2))
    for form in rows.forms(at):
        accepted[form.at] = form.value.get("accepted") is True
        again[form.at] = form.value.get("reason") == "again"
        for name, column in numbers.items():
            value = form.value.get(name)
            if isinstance(value, int | np.ndarray):
                column[form.at] = form.whole(value)
    order = np.lexsort((at, numbers["log_index"], numbers["group"]))
    at = at[order]
    group, index, end, crc = (column[order] for column in numbers.values())
    epoch, begin = rows.column("epoch")[at], rows.column("position")[at]
    return Appends(at, group, index, epoch, begin, end, crc, accepted[order], again[order])
