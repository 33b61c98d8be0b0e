"""Rows of made histories: blocks of one kind each, joined in order of time and written as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos.history.beginnings import Beginnings
from chaos.history.columns import COLUMNS, INTEGERS, VALUE

Ints = npt.NDArray[np.int64]


def block(f: str, time: Ints, **columns: Any) -> dict[str, Any]:
    """Return rows of one kind. ``of``: the rows of the invocations that these belong to, one each, or those of the
    numbers ``call``."""
    return {"f": f, "time": time, "of": None, "call": None, **columns}


def joined(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return all rows of a queue in order of time, messages behind the end of the pull that brought them. ``op`` is the
    place of the invocation among them."""
    lengths = [len(one["time"]) for one in blocks]
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).tolist()
    start_of = {id(one): start for one, start in zip(blocks, starts, strict=True)}
    op = np.full(sum(lengths), -1, dtype=np.int64)
    for one, start, length in zip(blocks, starts, lengths, strict=True):
        if one["of"] is not None:
            call = np.arange(length) if one["call"] is None else one["call"]
            op[start : start + length] = start_of[id(one["of"])] + call
    time = np.concatenate([one["time"] for one in blocks])
    order = np.argsort(time, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    found: dict[str, Any] = {"time": time[order], "op": np.where(op >= 0, place[op], -1)[order]}
    for name in ("epoch", "queue", "offset", "message", "hash"):
        found[name] = np.concatenate([_filled(one, name, -1, np.int64) for one in blocks])[order]
    for name in ("type", "f", "process", "node", VALUE):
        found[name] = np.concatenate([_filled(one, name, "", object) for one in blocks])[order]
    return found


def _filled(one: dict[str, Any], name: str, none: Any, kind: Any) -> npt.NDArray[Any]:
    given = one.get(name, none)
    return given if isinstance(given, np.ndarray) else np.full(len(one["time"]), given, dtype=kind)


def table_of(columns: dict[str, Any]) -> pa.Table:
    """Return the rows of a queue, of which ends repeat their beginnings."""
    count = len(columns["time"])
    arrays = {name: pa.repeat(pa.scalar(-1, pa.int64()), count) for name in INTEGERS}
    arrays |= {name: pa.array(columns[name]) for name in ("op", "epoch", "queue", "offset", "message", "hash")}
    arrays |= {"index": pa.array(np.arange(count)), "time_ns": pa.array(columns["time"] * 1_000)}
    for name in ("type", "f", "process", "node"):
        arrays[name] = pa.array(columns[name], pa.string()).dictionary_encode()
    arrays |= {"kind": pa.repeat("op", count).dictionary_encode(), VALUE: pa.array(columns[VALUE], pa.string())}
    return Beginnings().repeat(pa.table({name: arrays[name] for name in COLUMNS}))
