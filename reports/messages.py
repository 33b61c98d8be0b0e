"""What was said of each message: sent, acknowledged, refused, read in the end. A few numbers for each, no rows; and a
few bytes for each of very many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from chaos.ops import SEQUENCE_BITS
from reports.message_table import Bit, MessageTable

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def small(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the same whole numbers in as few bytes as hold them."""
    least, most = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    width = next(
        w for w in (np.int8, np.int16, np.int32, np.int64) if np.iinfo(w).min <= least and most <= np.iinfo(w).max
    )
    return numbers.astype(width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Some rows of one kind, a number for each. What the kind does not have is empty."""

    message: Ints
    queue: Ints
    time_ns: Ints
    offset: Ints
    node: Ints


class _Pile:
    """Columns of numbers to which some are added at a time."""

    def __init__(self, names: Sequence[str]) -> None:
        self._held: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in names}

    def add(self, columns: dict[str, Ints], at: Ints) -> None:
        for name, held in self._held.items():
            held.append(small(columns[name][at]))

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for held in self._held.values() for column in held)

    def taken(self, name: str) -> Ints:
        """Return a column, which is forgotten; empty where there is none."""
        held = self._held.pop(name, [])
        return np.concatenate(held, dtype=np.int64) if held else np.empty(0, np.int64)


#: The columns of each kind of row that are about a message.
KINDS = {
    "asked": ("sequence", "queue", "time_ns"),
    "ok": ("sequence", "offset", "node"),
    "info": ("sequence",),
    "fail": ("sequence",),
    "final": ("sequence",),
}


#: So many rows about messages are held.
HELD = 1 << 20


class Messages:
    """Takes rows about messages, and gives them back by the queue that the messages were made for, one after the other:
    what is about one message stands together. Where messages were sent to other queues, they all stand together.

    What is more than :data:`HELD` rows goes into a table that ``table`` makes, with all that was given before. Times
    are counted from ``zero_ns``."""

    def __init__(self, table: Callable[[], MessageTable], zero_ns: int = 0) -> None:
        self._make = table
        self._zero_ns = zero_ns
        #: Where there are too many rows to be held.
        self.table: MessageTable | None = None
        self._rows = 0
        self._piles: dict[tuple[int, str], _Pile] = {}
        self._mixed = False

    @property
    def nbytes(self) -> int:
        """How much memory the messages take."""
        return sum(pile.nbytes for pile in self._piles.values()) + (self.table.nbytes if self.table else 0)

    def add(self, kind: str, message: Ints, **columns: Ints) -> None:
        """Add rows of one of :data:`KINDS`, with its columns."""
        self._rows += len(message)
        if self.table is None and self._rows > HELD:
            self.table = self._make()
            for group in self.groups():
                for name, said in group.items():
                    self._fill(name, said.message, {"time_ns": said.time_ns, "offset": said.offset, "node": said.node})
        if self.table is None:
            self._hold(kind, message, columns)
        else:
            self._fill(kind, message, columns)

    def _fill(self, kind: str, message: Ints, columns: Mapping[str, Ints]) -> None:
        assert self.table is not None
        if kind == "asked":
            self.table.sent(message, (columns["time_ns"] - self._zero_ns) / 1e9)
        elif kind == "ok":
            self.table.acknowledged(message, columns["offset"], columns["node"])
        else:
            self.table.said(Bit[kind.upper()], message)

    def _hold(self, kind: str, message: Ints, columns: Mapping[str, Ints]) -> None:
        made_for = message >> SEQUENCE_BITS
        numbers = {**columns, "sequence": message & (1 << SEQUENCE_BITS) - 1}
        if kind == "asked":
            self._mixed = self._mixed or bool((columns["queue"] != made_for).any())
        for queue in np.unique(made_for).tolist():
            pile = self._piles.setdefault((queue, kind), _Pile(KINDS[kind]))
            pile.add(numbers, np.flatnonzero(made_for == queue))

    def groups(self) -> Iterator[dict[str, Said]]:
        """Yield what was said, by kind, one group of messages after the other; what is given is forgotten."""
        queues = sorted({queue for queue, _ in self._piles})
        for group in [queues] if self._mixed else [[queue] for queue in queues]:
            yield {kind: self._said(kind, group) for kind in KINDS}

    def _said(self, kind: str, group: Sequence[int]) -> Said:
        found: dict[str, list[Ints]] = {name: [] for name in ("message", "queue", "time_ns", "offset", "node")}
        for queue in group:
            pile = self._piles.pop((queue, kind), _Pile(()))
            found["message"].append(pile.taken("sequence") + (queue << SEQUENCE_BITS))
            for name in ("queue", "time_ns", "offset", "node"):
                found[name].append(pile.taken(name))
        return Said(**{name: np.concatenate([*parts, np.empty(0, np.int64)]) for name, parts in found.items()})
