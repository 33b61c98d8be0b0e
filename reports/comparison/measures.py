"""What clients got of a system while the load lasted, in a few numbers that can be set side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chaos.history.history import History

#: Operations that change something: what a system must keep taking to be available.
WRITES = ("send", "write", "cas", "acquire")
#: How the names of the harness's own clients begin.
PROBE = "probe."


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """The calls of one kind that ended: how many of them were answered with ok, and how long those took, in
    milliseconds (None without any)."""

    ended: int
    ok: int
    p50_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """``acknowledged``: the share of writes, 0 to 1; ``longest_gap_s``: the longest time in which one queue (or the
    objects) took no write. Both are None where nobody wrote. ``calls``: by kind of operation, in alphabetical order.
    Only what workloads did during the load counts."""

    acknowledged: float | None
    longest_gap_s: float | None
    calls: Mapping[str, Calls] = field(default_factory=dict)


def measure(history: History) -> Measures:
    """Reduce a run to its measures."""
    ended, latency_ms = _ended(history)
    kind, ok = _words(ended, "f"), _words(ended, "type") == "ok"
    writes = np.isin(kind, WRITES)
    calls = {}
    for name in sorted(set(kind.tolist())):
        chosen = kind == name
        answered = latency_ms[chosen & ok]
        quantiles = np.quantile(answered, [0.5, 0.99, 1.0]).tolist() if len(answered) else [None, None, None]
        p50, p99, most = (None if one is None else round(one, 3) for one in quantiles)
        calls[name] = Calls(ended=int(chosen.sum()), ok=int((chosen & ok).sum()), p50_ms=p50, p99_ms=p99, max_ms=most)
    return Measures(
        acknowledged=float(ok[writes].mean()) if writes.any() else None,
        longest_gap_s=_longest_gap(history, ended, writes & ok) if writes.any() else None,
        calls=calls,
    )


def _ended(history: History) -> tuple[pa.Table, np.ndarray[Any, Any]]:
    """Return the rows that end a call of a workload during the load, and how long each took, in milliseconds."""
    calls = history.rows("op")
    process = calls["process"].cast(pa.string())
    calls = calls.filter(pc.and_(pc.not_equal(calls["f"], "delivered"), pc.invert(pc.starts_with(process, PROBE))))
    begun = calls.filter(pc.equal(calls["type"], "invoke"))
    ended = calls.filter(pc.not_equal(calls["type"], "invoke"))
    ended = ended.filter(pa.array(history.seconds(ended) <= _load_end_s(history)))
    index, op = begun["index"].to_numpy(), ended["op"].to_numpy()
    known = np.isin(op, index)  # a damaged history may have lost what was asked
    ended = ended.filter(pa.array(known))
    begun_ns = begun["time_ns"].to_numpy()[np.searchsorted(index, op[known])]
    return ended, (ended["time_ns"].to_numpy() - begun_ns) / 1e6


def _load_end_s(history: History) -> float:
    return min(history.phase_s("heal"), history.end_s)


def _longest_gap(history: History, ended: pa.Table, acknowledged: np.ndarray[Any, Any]) -> float:
    """Return the longest time between two acknowledged writes, or between one and the beginning or end of the load."""
    queue, seconds = ended["queue"].to_numpy(), history.seconds(ended)
    gaps = []
    for one in np.unique(queue[np.isin(_words(ended, "f"), WRITES)]).tolist():
        moments = np.sort(seconds[acknowledged & (queue == one)])
        gaps.append(float(np.diff([0.0, *moments.tolist(), _load_end_s(history)]).max()))
    return round(max(gaps), 3)


def _words(table: pa.Table, column: str) -> np.ndarray[Any, Any]:
    return table[column].cast(pa.large_string()).to_numpy(zero_copy_only=False)
