"""What became of every message, by the second when it was first sent: in all, and by who acknowledged it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from chaos.history.history import History
from reports import parts as _parts
from reports.messages import Bounds, Flags, Ints, Messages, given_of, sends_of
from reports.parts import Parts
from reports.summary import Numbers


class Shape(StrEnum):
    """Which part of its queue a loss took, of what was acknowledged there: each hints at another cause."""

    BEGINNING = "beginning"  # perhaps the queue was started over
    MIDDLE = "middle"
    END = "end"  # perhaps the final reading did not get that far
    WHOLE = "whole queue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """``label`` says what became of the messages that were first sent at ``sent_s``, in seconds and in order. ``bad``:
    they were acknowledged, and the final reading of their queue went past them without them. ``counts``: of very many
    messages, how many there were at each of these moments."""

    label: str
    sent_s: Numbers
    bad: bool = False
    counts: Ints | None = None

    @property
    def count(self) -> int:
        return _count(self.sent_s, self.counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFate:
    """The messages that ``node`` acknowledged: those of ``missing_s`` were not in the final reading, which went past
    them; when they and the others were first sent, and how many at each moment, as in :class:`Fate`."""

    node: str
    kept_s: Numbers
    missing_s: Numbers
    kept: Ints | None = None
    missing: Ints | None = None

    @property
    def count(self) -> int:
        return _count(self.kept_s, self.kept) + self.lost

    @property
    def lost(self) -> int:
        """How many are missing."""
        return _count(self.missing_s, self.missing)


def _count(moments: Numbers, counts: Ints | None) -> int:
    return len(moments) if counts is None else int(counts.sum())


#: All fates, in their order, and which are bad.
FATES = (
    ("in the final read", False),
    *((f"missing: {shape}", True) for shape in Shape),
    ("removed before", False),
    ("not read out", False),
    ("outcome unknown, read", False),
    ("outcome unknown", False),
    ("refused", False),
)
#: Messages by their fate, or by who acknowledged them and whether they are missing.
_Key = tuple[str, bool]
Fates = tuple[Sequence[Fate], Sequence[ReplicaFate]]


def fates(history: History) -> Fates:
    """Return the fates that occurred, and those of what each replica acknowledged. Judged by what clients saw: what was
    acknowledged, and what the final reading gave out.

    What lies below the offset where the final reading of its queue began was removed before."""
    rows = history.rows("op")
    messages = Messages.of(sends_of(rows), given_of(rows), history)
    found = {(fate, bad): np.sort(messages.sent_s[which]) for fate, bad, which in _overall(messages, messages.bounds)}
    overall = [Fate(label=fate, sent_s=sent_s, bad=bad) for (fate, bad), sent_s in found.items() if len(sent_s)]
    by = {(node, lost): np.sort(messages.sent_s[which]) for node, lost, which in _by_node(messages)}
    names = sorted({node for node, _ in by})
    return overall, [ReplicaFate(node=node, kept_s=by[node, False], missing_s=by[node, True]) for node in names]


@dataclass(kw_only=True)
class Counted:
    """The fates of some of the messages of a run: how many there are in each part of the axis. ``bounds``: as far as
    these messages show them; ``are_missing``: whether any of them is; ``given``: how many messages readers were
    given."""

    overall: dict[_Key, list[tuple[Ints, Ints]]] = field(default_factory=dict)
    by: dict[_Key, list[tuple[Ints, Ints]]] = field(default_factory=dict)
    bounds: dict[int, tuple[int, int]] = field(default_factory=dict)
    are_missing: bool = False
    given: int = 0

    @classmethod
    def of(cls, messages: Messages, parts: Parts, bounds: Bounds) -> Counted:
        """Take messages. ``bounds``: those of all, without which it is unknown what the missing ones are part of."""
        overall = {(fate, bad): [parts.counted(messages.sent_s[at])] for fate, bad, at in _overall(messages, bounds)}
        return cls(
            overall=overall,
            by={(node, lost): [parts.counted(messages.sent_s[at])] for node, lost, at in _by_node(messages)},
            bounds=dict(messages.bounds),
            are_missing=bool(messages.missing.any()),
            given=messages.given,
        )

    def merge(self, other: Counted) -> None:
        """Take others, of other messages."""
        for mine, more in ((self.overall, other.overall), (self.by, other.by)):
            for key, counted in more.items():
                mine[key] = [_parts.merged([*mine.get(key, []), *counted])]
        for queue, (low, high) in other.bounds.items():
            least, most = self.bounds.get(queue, (low, high))
            self.bounds[queue] = min(low, least), max(high, most)
        self.are_missing |= other.are_missing
        self.given += other.given

    def fates(self, parts: Parts) -> Fates:
        """Return the same as :func:`fates`."""
        overall = []
        for label, bad in FATES:
            found, counts = _parts.merged(self.overall.get((label, bad), []))
            overall.append(Fate(label=label, sent_s=parts.seconds(found), bad=bad, counts=counts))
        replicas = []
        for node in sorted({node for node, _ in self.by}):
            (kept, held), (gone, lost) = (_parts.merged(self.by[node, missing]) for missing in (False, True))
            kept_s, missing_s = parts.seconds(kept), parts.seconds(gone)
            replicas.append(ReplicaFate(node=node, kept_s=kept_s, missing_s=missing_s, kept=held, missing=lost))
        return [fate for fate in overall if fate.count], replicas


def _overall(messages: Messages, bounds: Bounds) -> Iterator[tuple[str, bool, Flags]]:
    """Yield each of :data:`FATES`, and whose it is."""
    acked, final, missing = messages.acked, messages.final, messages.missing
    shapes = _shapes(messages, missing, bounds)
    chosen = (
        acked & final,
        *(missing & (shapes == place) for place in range(len(Shape))),
        messages.removed,
        acked & ~final & ~messages.read_out,
        ~acked & final,
        ~acked & ~final & ~messages.refused,
        ~acked & ~final & messages.refused,
    )
    return ((fate, bad, which) for (fate, bad), which in zip(FATES, chosen, strict=True))


def _shapes(messages: Messages, missing: Flags, bounds: Bounds) -> npt.NDArray[np.int8]:
    """Return the place in :class:`Shape` of the loss that each missing message belongs to: whether it was acknowledged
    before all that is there of its queue, between that, or behind it, or nothing is there."""
    found, shapes = np.full(len(missing), -1, np.int8), [*Shape]
    for queue in np.unique(messages.queue[missing]).tolist():
        mine = np.flatnonzero(missing & (messages.queue == queue))
        if queue not in bounds:
            found[mine] = shapes.index(Shape.WHOLE)
            continue
        (low, high), offset = bounds[queue], messages.offset[mine]
        at_end = np.where(offset > high, shapes.index(Shape.END), shapes.index(Shape.MIDDLE))
        found[mine] = np.where(offset < low, shapes.index(Shape.BEGINNING), at_end)
    return found


def _by_node(messages: Messages) -> Iterator[tuple[str, bool, Flags]]:
    """Yield who acknowledged messages, whether these are missing, and which they are."""
    missing = messages.missing
    for code in np.unique(messages.by[messages.acked]).tolist():
        if code >= 0 and messages.nodes[code]:
            mine = messages.acked & (messages.by == code)
            for lost in (False, True):
                yield messages.nodes[code], lost, mine & (missing == lost)
