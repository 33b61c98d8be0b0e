"""What became of every message, by the second when it was first sent: in all, and by who acknowledged it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reports.rows import RunRows

#: So many moments of a run are told apart; messages of one moment and fate are one mark.
MOMENTS = 600
#: A pause of no more than so many moments does not end a span.
PAUSE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """``label`` says what became of ``count`` messages; they were sent in ``spans`` (from, to) of seconds, in order.
    ``bad``: they were acknowledged, and the final reading of their queue went past them without them."""

    label: str
    count: int
    spans: Sequence[tuple[float, float]]
    bad: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFate:
    """Of the ``count`` messages that ``node`` acknowledged, ``missing`` were not in the final reading, which went past
    them; when they and the others were first sent, as in :class:`Fate`."""

    node: str
    count: int
    missing: int
    kept_spans: Sequence[tuple[float, float]]
    missing_spans: Sequence[tuple[float, float]]


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
    moment_s: float

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
    acked, final = told.acked, told.final
    chosen = [
        ("in the final read", acked & final, False),
        ("missing", told.missing, True),
        ("removed before", told.removed, False),
        ("not read out", acked & ~final & ~told.read_out, False),
        ("unclear, read", ~acked & final, False),
        ("unclear", ~acked & ~final & ~told.refused, False),
        ("refused", ~acked & ~final & told.refused, False),
    ]
    return [
        Fate(label=label, count=int(which.sum()), spans=_spans(told.sent_s[which], told.moment_s), bad=bad)
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
                node=node, count=int(mine.sum()), missing=int(missing.sum()),
                kept_spans=_spans(told.sent_s[kept], told.moment_s),
                missing_spans=_spans(told.sent_s[missing], told.moment_s),
            )
        )  # fmt: skip
    return found


def _messages(rows: RunRows) -> _Messages | None:
    """None if nothing was sent."""
    sends = rows.select("op", "send")
    sends = sends.filter(pc.invert(pc.starts_with(sends["process"].cast(pa.string()), "probe.")))
    invoked = _of_type(sends, "invoke").group_by(["message", "queue"]).aggregate([("time_ns", "min")])
    if not invoked.num_rows:
        return None
    messages, queues = rows.numbers(invoked, "message"), rows.numbers(invoked, "queue")
    answers = _of_type(sends, "ok")
    names = answers["node"].cast(pa.string()).to_pylist()
    by = dict(zip(answers["message"].to_pylist(), names, strict=True))
    answered = answers.group_by("message").aggregate([("offset", "max")])
    acked = np.isin(messages, rows.numbers(answered, "message"))
    unclear = np.isin(messages, rows.numbers(_of_type(sends, "info"), "message"))
    offsets = _looked_up(messages, rows.numbers(answered, "message"), rows.numbers(answered, "offset_max"))
    reads = rows.select("op", "delivered")
    final = np.isin(messages, rows.numbers(reads, "message")[rows.seconds(reads) >= rows.phase_s("drain")])
    drained, begins = _drained(rows)
    read_out = np.isin(queues, drained)
    return _Messages(
        sent_s=(rows.numbers(invoked, "time_ns_min") - rows.zero_ns) / 1e9,
        by=np.array([by.get(message, "") for message in messages.tolist()], dtype=object),
        acked=acked,
        refused=~unclear & np.isin(messages, rows.numbers(_of_type(sends, "fail"), "message")),
        final=final,
        read_out=read_out,
        removed=acked & ~final & read_out & (offsets < _looked_up(queues, drained, begins)),
        moment_s=max(rows.end_s, 1e-9) / MOMENTS,
    )


def _of_type(table: pa.Table, type: str) -> pa.Table:
    return table.filter(pc.equal(table["type"], type))


def _drained(rows: RunRows) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The queues that were read to their end, sorted, and for each the lowest offset where that began."""
    drains = rows.select("op", "drain")
    ended = set(_of_type(drains, "ok")["op"].to_pylist())
    begun = _of_type(drains, "invoke")
    begun = begun.filter(pc.is_in(begun["index"], pa.array(sorted(ended), pa.int64())))
    lowest = begun.group_by("queue").aggregate([("offset", "min")]).sort_by("queue")
    return rows.numbers(lowest, "queue"), rows.numbers(lowest, "offset_min")


def _looked_up(wanted: Any, keys: Any, values: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """For each wanted key its value; -1 where there is none."""
    if not len(keys):
        return np.full(len(wanted), -1, dtype=np.int64)
    order = np.argsort(keys)
    place = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    found = keys[order][place] == wanted
    return np.where(found, values[order][place], -1)


def _spans(seconds: Any, moment_s: float) -> list[tuple[float, float]]:
    """The moments in which something was sent; those that nearly follow one another are one span."""
    if not len(seconds):
        return []
    moments = np.unique(np.floor(seconds / moment_s).astype(np.int64))
    first = np.flatnonzero(np.diff(moments, prepend=moments[0] - PAUSE - 2) > PAUSE + 1)
    last = np.append(first[1:] - 1, len(moments) - 1)
    return [
        (float(moments[a] * moment_s), float((moments[b] + 1) * moment_s)) for a, b in zip(first, last, strict=True)
    ]
