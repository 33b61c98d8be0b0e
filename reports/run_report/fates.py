"""What became of every message, by the second when it was first sent: in all, and by who acknowledged it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from reports.message_table import Bit, Block, MessageTable, Place, parted
from reports.messages import Ints, Said
from reports.operations import Operations, drained
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Messages:
    """A column each: all messages that were sent, when, who acknowledged them, and what became of them."""

    sent_s: Any
    by: Any
    acked: Any
    refused: Any
    final: Any
    read_out: Any
    removed: Any
    queue: Any
    offset: Any

    @property
    def missing(self) -> Any:
        return self.acked & ~self.final & self.read_out & ~self.removed


def fates(operations: Operations) -> tuple[list[Fate], list[ReplicaFate]]:
    """Return the fates that occurred, and those of what each replica acknowledged. Judged by what clients saw: what was
    acknowledged, and what the final reading gave out. Call it once: the messages are forgotten.

    What lies below the offset where the final reading of its queue began was removed before."""
    if operations.messages.table is not None:
        return _counted(operations.messages.table, [*operations.nodes])
    sent_s: dict[tuple[str, bool], list[Any]] = {}
    by: dict[tuple[str, bool], list[Any]] = {}
    names, ends = [*operations.nodes], drained(operations.clock)
    for said in operations.messages.groups():
        messages = _messages(said, ends, operations.clock.zero_ns)
        for fate, bad, which in _overall(messages):
            sent_s.setdefault((fate, bad), []).append(messages.sent_s[which])
        for code in np.unique(messages.by[messages.acked]).tolist():
            mine = messages.acked & (messages.by == code)
            for missing in (False, True):
                found = messages.sent_s[mine & (messages.missing == missing)]
                by.setdefault((names[code] if code >= 0 else "", missing), []).append(found)
    overall = [Fate(label=fate, sent_s=one, bad=bad) for fate, bad in FATES if len(one := _sorted(sent_s, (fate, bad)))]
    replicas = [
        ReplicaFate(node=node, kept_s=_sorted(by, (node, False)), missing_s=_sorted(by, (node, True)))
        for node in sorted({node for node, _ in by} - {""})
    ]
    return overall, replicas


#: All fates, in their order, and which are bad.
FATES = (
    ("in the final read", False),
    *((f"missing: {shape}", True) for shape in Shape),
    ("removed before", False),
    ("not read out", False),
    ("unclear, read", False),
    ("unclear", False),
    ("refused", False),
)


def _counted(table: MessageTable, names: Sequence[str]) -> tuple[list[Fate], list[ReplicaFate]]:
    """Return the same of messages of which flags are held."""
    every: dict[tuple[str, bool], Ints] = {}
    by: dict[tuple[int, bool], Ints] = {}
    for block in table.blocks:
        for fate, chosen in zip(FATES, _of_block(block), strict=True):
            every[fate] = every.get(fate, 0) + parted(block.first[chosen])
        acked, missing = block.has(Bit.ASKED, Bit.OK), block.missing
        for node in np.unique(block.node[acked]).tolist():
            mine = acked & (block.node == node)
            for lost in (False, True):
                found = parted(block.first[mine & (missing == lost)])
                by[node, lost] = by.get((node, lost), 0) + found
    overall = []
    for label, bad in FATES:
        sent_s, counts = table.parts.moments(every[label, bad])
        overall.append(Fate(label=label, sent_s=sent_s, bad=bad, counts=counts))
    replicas = []
    for name, node in sorted((names[node - 1], node) for node, lost in by if node and not lost and names[node - 1]):
        kept_s, kept = table.parts.moments(by[node, False])
        missing_s, gone = table.parts.moments(by[node, True])
        replicas.append(ReplicaFate(node=name, kept_s=kept_s, missing_s=missing_s, kept=kept, missing=gone))
    return [fate for fate in overall if fate.count], replicas


def _of_block(block: Block) -> Iterator[Any]:
    """Yield which messages have each of :data:`FATES`."""
    asked, acked, final = block.has(Bit.ASKED), block.has(Bit.OK), block.has(Bit.FINAL)
    missing, read_out = block.missing, block.has(Bit.READ_OUT)
    shape = np.full(len(asked), Place.MIDDLE, np.uint8) if block.shape is None else block.shape
    refused = block.has(Bit.FAIL) & ~block.has(Bit.INFO)
    yield asked & acked & final
    yield from (missing & (shape == place) for place in Place)
    yield asked & acked & ~final & read_out & ~missing
    yield asked & acked & ~final & ~read_out
    yield asked & ~acked & final
    yield asked & ~acked & ~final & ~refused
    yield asked & ~acked & ~final & refused


def _sorted(parts: dict[tuple[str, bool], list[Any]], key: tuple[str, bool]) -> np.ndarray[Any, Any]:
    return np.sort(np.concatenate([np.empty(0), *parts.pop(key, [])]))


def _overall(messages: _Messages) -> Iterator[tuple[str, bool, Any]]:
    """Return each fate of :data:`FATES`, and whose it is."""
    acked, final, shapes = messages.acked, messages.final, _shapes(messages)
    chosen = (
        acked & final,
        *(shapes == shape for shape in Shape),
        messages.removed,
        acked & ~final & ~messages.read_out,
        ~acked & final,
        ~acked & ~final & ~messages.refused,
        ~acked & ~final & messages.refused,
    )
    return ((fate, bad, which) for (fate, bad), which in zip(FATES, chosen, strict=True))


def _shapes(messages: _Messages) -> np.ndarray[Any, Any]:
    """Return, for each missing message, the shape of the loss that it belongs to; "" for all others. A loss is a
    stretch of messages of one queue that are missing, by their acknowledged offsets, with none between them that is
    there."""
    found = np.full(len(messages.missing), "", dtype=object)
    known = np.flatnonzero(messages.acked & messages.read_out & ~messages.removed)
    known = known[np.lexsort((messages.sent_s[known], messages.offset[known], messages.queue[known]))]
    for queue in np.unique(messages.queue[messages.missing]).tolist():
        mine = known[messages.queue[known] == queue]
        gone = messages.missing[mine]
        edges = np.flatnonzero(np.diff(gone.astype(np.int8), prepend=0, append=0))
        for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            at = (begin == 0, end == len(mine))
            shapes = {(True, True): Shape.WHOLE, (True, False): Shape.BEGINNING, (False, True): Shape.END}
            found[mine[begin:end]] = shapes.get(at, Shape.MIDDLE)
    return found


def _messages(said: dict[str, Said], ends: tuple[Ints, Ints], zero_ns: int) -> _Messages:
    """Return the messages that were sent, of which this was said."""
    asked, ok = said["asked"], said["ok"]
    first = _first_of_each(asked.message, asked.queue, asked.time_ns)
    messages, queues = asked.message[first], asked.queue[first]
    acked = np.isin(messages, ok.message)
    unclear = np.isin(messages, said["info"].message)
    up = np.argsort(ok.offset, kind="stable")
    offsets = _last(messages, ok.message[up], ok.offset[up])
    final = np.isin(messages, said["final"].message)
    read_out = np.isin(queues, ends[0])
    return _Messages(
        sent_s=(asked.time_ns[first] - zero_ns) / 1e9,
        by=_last(messages, ok.message, ok.node),
        acked=acked,
        refused=~unclear & np.isin(messages, said["fail"].message),
        final=final,
        read_out=read_out,
        removed=acked & ~final & read_out & (offsets < _looked_up(queues, *ends)),
        queue=queues,
        offset=offsets,
    )


def _first_of_each(messages: Any, queues: Any, at: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the places of the first send of each message to each queue, ascending."""
    order = np.lexsort((at, queues, messages))
    message, queue = messages[order], queues[order]
    new = (message[1:] != message[:-1]) | (queue[1:] != queue[:-1])
    return np.sort(order[np.append(True, new)[: len(order)]])


def _last(wanted: Any, keys: Any, values: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return, for each wanted key, the last of its values; -1 where there is none."""
    again, first = np.unique(keys[::-1], return_index=True)
    return _looked_up(wanted, again, values[::-1][first])


def _looked_up(wanted: Any, keys: Any, values: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return, for each wanted key, its value; -1 where there is none."""
    if not len(keys):
        return np.full(len(wanted), -1, dtype=np.int64)
    order = np.argsort(keys)
    place = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    found = keys[order][place] == wanted
    return np.where(found, values[order][place], -1)
