"""The rows by which losses are explained. Of a strict run, which permits none, nothing is kept for it."""

from __future__ import annotations

from functools import cache

import numpy as np

from chaos.driver import Profile
from chaos.law import Reads, Rows, Sieve
from checkers._views.arrays import Ints
from checkers._views.reads import FAULTS, RUN, everywhere, own


def _all(rows: Rows) -> Ints:
    return np.arange(len(rows))


def _none(rows: Rows) -> Ints:
    return np.empty(0, dtype=np.int64)


def _changes(rows: Rows) -> Ints:
    """Of what each node answered about its role, the answers that differ from the one before, and the last one."""
    at = np.sort(rows.where(kind="poll", f="state", type="ok"))
    kept: list[int] = []
    last: dict[int, tuple[object, int]] = {}
    for row in at.tolist():
        told, node = rows.value(row), int(rows.column("node")[row])
        said = (told.get("role"), int(rows.column("epoch")[row]), str(told.get("set")))
        known, before = last.get(node, (None, -1))
        if said != known:
            kept += [before] if before >= 0 else []
            kept.append(row)
        last[node] = said, row
    return np.unique(np.array([*kept, *(row for _, row in last.values())], dtype=np.int64))


@cache
def _of(kind: str, f: str, *, strict: bool) -> Sieve:
    keep = _none if strict else _changes if kind == "poll" else _all
    return Sieve(rows=(own(kind, f),), columns=("node", "type", "epoch", "value"), keep=keep, fitted=_fit(kind, f))


@cache
def _fit(kind: str, f: str):  # type: ignore[no-untyped-def]
    def fitted(profile: Profile) -> Sieve:
        return _of(kind, f, strict=profile.strict)

    return fitted


def _unless_strict(kind: str, f: str) -> Reads:
    return Reads(kind=kind, f=(f,), everywhere=True, sieve=_of(kind, f, strict=False))


#: Terms of masters, what took the ends of logs away, what acknowledgements stood on, and roles as polled.
EVIDENCE = (
    everywhere("trace", "applied", "role", "recovered", "truncate", "bootstrap"),
    everywhere("final", "node"),
    _unless_strict("trace", "acked"),
    _unless_strict("poll", "state"),
    RUN,
    FAULTS,
)
