"""What became of every message, by the second when it was first sent: in all, and by who acknowledged it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reports.messages import Said
from reports.operations import Operations
from reports.rows import RunRows
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
    they were acknowledged, and the final reading of their queue went past them without them."""

    label: str
    sent_s: Numbers
    bad: bool = False

    @property
    def count(self) -> int:
        return len(self.sent_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFate:
    """The messages that ``node`` acknowledged: those of ``missing_s`` were not in the final reading, which went past
    them; when they and the others were first sent, as in :class:`Fate`."""

    node: str
    kept_s: Numbers
    missing_s: Numbers

    @property
    def count(self) -> int:
        return len(self.kept_s) + len(self.missing_s)


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
    """The fates that occurred, and those of what each replica acknowledged. Judged by what clients saw: what was
    acknowledged, and what the final reading gave out. Once: the messages are forgotten.

    What lies below the offset where the final reading of its queue began was removed before."""
    sent_s: dict[tuple[str, bool], list[Any]] = {}
    by: dict[tuple[str, bool], list[Any]] = {}
    names, drained = [*operations.nodes], _drained(operations.clock)
    for said in operations.messages.groups():
        told = _messages(said, drained, operations.clock.zero_ns)
        for fate, bad, which in _overall(told):
            sent_s.setdefault((fate, bad), []).append(told.sent_s[which])
        for code in np.unique(told.by[told.acked]).tolist():
            mine = told.acked & (told.by == code)
            for missing in (False, True):
                found = told.sent_s[mine & (told.missing == missing)]
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


def _sorted(parts: dict[tuple[str, bool], list[Any]], key: tuple[str, bool]) -> np.ndarray[Any, Any]:
    return np.sort(np.concatenate([np.empty(0), *parts.pop(key, [])]))


def _overall(told: _Messages) -> Iterator[tuple[str, bool, Any]]:
    """Each fate of :data:`FATES`, and whose it is."""
    acked, final, shapes = told.acked, told.final, _shapes(told)
    chosen = (
        acked & final,
        *(shapes == shape for shape in Shape),
        told.removed,
        acked & ~final & ~told.read_out,
        ~acked & final,
        ~acked & ~final & ~told.refused,
        ~acked & ~final & told.refused,
    )
    return ((fate, bad, which) for (fate, bad), which in zip(FATES, chosen, strict=True))


def _shapes(told: _Messages) -> np.ndarray[Any, Any]:
    """For each missing message the shape of the loss that it belongs to; "" for all others. A loss is a stretch of
    messages of one queue that are missing, by their acknowledged offsets, with none between them that is there."""
    found = np.full(len(told.missing), "", dtype=object)
    known = np.flatnonzero(told.acked & told.read_out & ~told.removed)
    known = known[np.lexsort((told.sent_s[known], told.offset[known], told.queue[known]))]
    for queue in np.unique(told.queue[told.missing]).tolist():
        mine = known[told.queue[known] == queue]
        gone = told.missing[mine]
        edges = np.flatnonzero(np.diff(gone.astype(np.int8), prepend=0, append=0))
        for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            at = (begin == 0, end == len(mine))
            shapes = {(True, True): Shape.WHOLE, (True, False): Shape.BEGINNING, (False, True): Shape.END}
            found[mine[begin:end]] = shapes.get(at, Shape.MIDDLE)
    return found


def _messages(said: dict[str, Said], drained: _Drained, zero_ns: int) -> _Messages:
    """The messages that were sent, of which this was said."""
    asked, ok = said["asked"], said["ok"]
    first = _first_of_each(asked.message, asked.queue, asked.time_ns)
    messages, queues = asked.message[first], asked.queue[first]
    acked = np.isin(messages, ok.message)
    unclear = np.isin(messages, said["info"].message)
    up = np.argsort(ok.offset, kind="stable")
    offsets = _last(messages, ok.message[up], ok.offset[up])
    final = np.isin(messages, said["final"].message)
    read_out = np.isin(queues, drained[0])
    return _Messages(
        sent_s=(asked.time_ns[first] - zero_ns) / 1e9,
        by=_last(messages, ok.message, ok.node),
        acked=acked,
        refused=~unclear & np.isin(messages, said["fail"].message),
        final=final,
        read_out=read_out,
        removed=acked & ~final & read_out & (offsets < _looked_up(queues, *drained)),
        queue=queues,
        offset=offsets,
    )


def _of_type(table: pa.Table, type: str) -> pa.Table:
    return table.filter(pc.equal(table["type"], type))


#: Queues, and an offset of each.
_Drained = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def _drained(rows: RunRows) -> _Drained:
    """The queues that were read to their end, sorted, and for each the lowest offset where that began."""
    drains = rows.select("op", "drain")
    ended = set(_of_type(drains, "ok")["op"].to_pylist())
    begun = _of_type(drains, "invoke")
    begun = begun.filter(pc.is_in(begun["index"], pa.array(sorted(ended), pa.int64())))
    queue, offset = rows.numbers(begun, "queue"), rows.numbers(begun, "offset")
    up = np.argsort(offset, kind="stable")
    queues, first = np.unique(queue[up], return_index=True)
    return queues, offset[up][first]


def _first_of_each(messages: Any, queues: Any, at: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The places of the first send of each message to each queue, ascending."""
    order = np.lexsort((at, queues, messages))
    message, queue = messages[order], queues[order]
    return np.sort(order[np.append(True, (message[1:] != message[:-1]) | (queue[1:] != queue[:-1]))])


def _last(wanted: Any, keys: Any, values: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """For each wanted key the last of its values; -1 where there is none."""
    again, first = np.unique(keys[::-1], return_index=True)
    return _looked_up(wanted, again, values[::-1][first])


def _looked_up(wanted: Any, keys: Any, values: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """For each wanted key its value; -1 where there is none."""
    if not len(keys):
        return np.full(len(wanted), -1, dtype=np.int64)
    order = np.argsort(keys)
    place = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    found = keys[order][place] == wanted
    return np.where(found, values[order][place], -1)
