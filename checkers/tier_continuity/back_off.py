"""An uploader that gets no answer waits longer each time: a store that is down is not asked as fast as may be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from chaos.fault import Effect
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts.arrays import Flags, Ints

#: So many requests for one object in a row, with none of any other between them, show that none was answered. With a
#: pause that doubles from a twentieth of a second up to two seconds they take more than twice that long.
IN_A_ROW, WITHIN_NS = 16, 10_000_000_000


@dataclass(frozen=True, slots=True)
class Series:
    """The rows that sent the first and the last of these requests."""

    first: int
    last: int
    queue: int
    key: str
    within_s: float


def unrested(rows: Rows) -> Iterator[Series]:
    """For each life, master term and queue of an uploader the first such series, but for those during which a fault had
    its hands on the uploader's clock."""
    at, of_whom, keys = _asked(rows)
    times = rows.column("time_ns")[at]
    last = np.arange(IN_A_ROW - 1, len(at))
    first = last - (IN_A_ROW - 1)
    alike = np.cumsum(np.append(0, np.any(np.diff(of_whom, axis=0) != 0, axis=1)))[: len(at)]
    fast = (alike[first] == alike[last]) & (times[last] - times[first] < WITHIN_NS)
    first, last = first[fast], last[fast]
    sound = ~_are_skewed(rows, at[first], at[last])
    first, last = first[sound], last[sound]
    _, each = np.unique(of_whom[last, :4], axis=0, return_index=True)
    for n in each.tolist():
        yield Series(
            first=int(at[first[n]]),
            last=int(at[last[n]]),
            queue=int(of_whom[last[n], 3]),
            key=keys[int(of_whom[last[n], 4])],
            within_s=int(times[last[n]] - times[first[n]]) / 1e9,
        )


def _asked(rows: Rows) -> tuple[Ints, Ints, list[str]]:
    """Return the requests of uploads, by uploader, life, master term and queue; of each of them these and a number for
    the object that it asks for, -1 for any other request; and the objects' keys by these numbers."""
    at = rows.where(kind="trace", f="tier_request")
    at = at[rows.column("epoch")[at] >= 0]
    key_of, keys = rows.labels("key", at)
    verb_of, verbs = rows.labels("verb", at)
    is_get = np.isin(verb_of, [number for number, verb in enumerate(verbs) if verb == "get"])
    whose = [rows.column(name)[at] for name in ("node", "incarnation", "epoch", "queue")]
    of_whom = np.stack([*whose, np.where(is_get, key_of, -1 - np.arange(len(at)))], axis=1).astype(np.int64)
    order = np.lexsort([*of_whom[:, 3::-1].T])
    return at[order], of_whom[order], keys


def _are_skewed(rows: Rows, first: Ints, last: Ints) -> Flags:
    """Return which spans from one row to another of the same node a fault fell into that may have hit the node's
    clock."""
    skewed, times, nodes = np.zeros(len(first), dtype=np.bool_), rows.column("time_ns"), rows.column("node")[first]
    names = {int(code): rows.text("node", at) for code, at in zip(nodes.tolist(), first.tolist(), strict=True)}
    for fault in rows.memo(facts.faults):
        skews = fault.hits(Effect.SKEWS_CLOCKS)
        hit = [code for code, name in names.items() if name in skews or fault.may_hit(name)]
        skewed |= np.isin(nodes, hit) & (fault.began_ns <= times[last]) & (times[first] <= fault.until_ns)
    return skewed
