"""What became of every message, by the second when it was first sent: in all, and by who acknowledged it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reports.rows import RunRows


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
    sent_s: Sequence[float]
    bad: bool = False

    @property
    def count(self) -> int:
        return len(self.sent_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFate:
    """The messages that ``node`` acknowledged: those of ``missing_s`` were not in the final reading, which went past
    them; when they and the others were first sent, as in :class:`Fate`."""

    node: str
    kept_s: Sequence[float]
    missing_s: Sequence[float]

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


def fates(rows: RunRows) -> tuple[list[Fate], list[ReplicaFate]]:
    """The fates that occurred, and those of what each replica acknowledged. Judged by what clients saw: what was
    acknowledged, and what the final reading gave out.

    What lies below the offset where the final reading of its queue began was removed before."""
    told = _messages(rows)
    return ([], []) if told is None else (_overall(told), _by_replica(told))


def _overall(told: _Messages) -> list[Fate]:
    acked, final, shapes = told.acked, told.final, _shapes(told)
    chosen = [
        ("in the final read", acked & final, False),
        *((f"missing: {shape}", shapes == shape, True) for shape in Shape),
        ("removed before", told.removed, False),
        ("not read out", acked & ~final & ~told.read_out, False),
        ("unclear, read", ~acked & final, False),
        ("unclear", ~acked & ~final & ~told.refused, False),
        ("refused", ~acked & ~final & told.refused, False),
    ]
    return [
        Fate(label=label, sent_s=np.sort(told.sent_s[which]).tolist(), bad=bad)
        for label, which, bad in chosen
        if which.any()
    ]


def _by_replica(told: _Messages) -> list[ReplicaFate]:
    found = []
    for node in sorted(set(told.by[told.acked].tolist()) - {""}):
        mine = told.acked & (told.by == node)
        kept, missing = mine & ~told.missing, mine & told.missing
        found.append(
            ReplicaFate(
                node=node,
                kept_s=np.sort(told.sent_s[kept]).tolist(),
                missing_s=np.sort(told.sent_s[missing]).tolist(),
            )
        )
    return found


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


def _messages(rows: RunRows) -> _Messages | None:
    """None if nothing was sent."""
    sends = rows.select("op", "send")
    sends = sends.filter(pc.invert(pc.starts_with(sends["process"].cast(pa.string()), "probe.")))
    invoked = _of_type(sends, "invoke")
    if not invoked.num_rows:
        return None
    messages, queues, sent_ns = (rows.numbers(invoked, name) for name in ("message", "queue", "time_ns"))
    first = _first_of_each(messages, queues, sent_ns)
    messages, queues, sent_ns = messages[first], queues[first], sent_ns[first]
    answers = _of_type(sends, "ok")
    names = answers["node"].cast(pa.string()).combine_chunks().dictionary_encode()
    codes = pc.fill_null(names.indices, -1).to_numpy(zero_copy_only=False)
    answered, at = rows.numbers(answers, "message"), rows.numbers(answers, "offset")
    by = _last(messages, answered, codes)
    acked = np.isin(messages, answered)
    unclear = np.isin(messages, rows.numbers(_of_type(sends, "info"), "message"))
    up = np.argsort(at, kind="stable")
    offsets = _last(messages, answered[up], at[up])
    reads = rows.select("op", "delivered")
    final = np.isin(messages, rows.numbers(reads, "message")[rows.seconds(reads) >= rows.phase_s("drain")])
    drained, begins = _drained(rows)
    read_out = np.isin(queues, drained)
    return _Messages(
        sent_s=(sent_ns - rows.zero_ns) / 1e9,
        by=np.array([*names.dictionary.to_pylist(), ""], dtype=object)[by],
        acked=acked,
        refused=~unclear & np.isin(messages, rows.numbers(_of_type(sends, "fail"), "message")),
        final=final,
        read_out=read_out,
        removed=acked & ~final & read_out & (offsets < _looked_up(queues, drained, begins)),
        queue=queues,
        offset=offsets,
    )


def _of_type(table: pa.Table, type: str) -> pa.Table:
    return table.filter(pc.equal(table["type"], type))


def _drained(rows: RunRows) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
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
