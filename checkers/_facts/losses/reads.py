"""The rows by which losses are explained. Of a strict run, which permits none, nothing is kept for it."""

from __future__ import annotations

from functools import cache

import numpy as np

from chaos.kernel import Reads, Sieve
from chaos.shard_rows import Rows
from checkers._facts.arrays import Ints
from checkers._facts.nodes.logs import highest_of
from checkers._facts.reads import FAULTS, LIVES, RUN, everywhere, own


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
        value, node = rows.value(row), int(rows.column("node")[row])
        said = (value.get("role"), int(rows.column("epoch")[row]), str(value.get("set")))
        known, before = last.get(node, (None, -1))
        if said != known:
            kept += [before] if before >= 0 else []
            kept.append(row)
        last[node] = said, row
    return np.unique(np.array([*kept, *(row for _, row in last.values())], dtype=np.int64))


@cache
def _of(kind: str, f: str, *, strict: bool) -> Sieve:
    keep = _none if strict else _changes if kind == "poll" else _all
    return Sieve(
        rows=(own(kind, f),),
        columns=("node", "type", "epoch", "value"),
        keep=keep,
        streamed=keep is not _changes,
        fitted=lambda profile: _of(kind, f, strict=profile.strict),
    )


def _unless_strict(kind: str, f: str) -> Reads:
    return Reads(kind=kind, f=(f,), everywhere=True, sieve=_of(kind, f, strict=False))


def _furthest(rows: Rows) -> Ints:
    """Of each node the record that ends furthest, or begins there: records do not overlap."""
    return highest_of(rows, np.arange(len(rows)), "node")


@cache
def _taken(*, strict: bool) -> Sieve:
    return Sieve(
        rows=(own("trace", "append"),),
        columns=("node", "position", "value"),
        keep=_none if strict else _furthest,
        streamed=True,
        fitted=lambda profile: _taken(strict=profile.strict),
        many_clocks=not strict,
    )


@cache
def _whole(f: str, *, strict: bool) -> Sieve:
    return Sieve(
        rows=(own("trace", f),),
        columns=("node",),
        keep=_none if strict else _all,
        streamed=True,
        fitted=lambda profile: _whole(f, strict=profile.strict),
    )


#: What replicas confirmed and acknowledged, and what they deleted, for a kernel of the whole run.
CONFIRMS = tuple(Reads(kind="trace", f=(f,), sieve=_whole(f, strict=False)) for f in ("confirm", "acked", "retention"))
#: How far each replica has taken records. Without a common clock the furthest one of each is enough.
TAKEN = Reads(kind="trace", f=("append",), sieve=_taken(strict=False))
#: What may have cut something: terms of masters, their elections, crashes, roles as polled, and faults. And by which a
#: single record is followed besides: what took the ends of logs away, and what acknowledgements stood on.
ACKED = _unless_strict("trace", "acked")
TERMS = (everywhere("trace", "applied", "role", "recovered"), _unless_strict("poll", "state"), RUN, FAULTS)
#: The same for kernels of the whole run, whose only shard has all rows.
TERMS_OF_RUN = (own("trace", "applied", "role", "recovered"), own("poll", "state"), RUN, FAULTS)
EVIDENCE = (
    *TERMS,
    everywhere("trace", "truncate", "bootstrap"),
    everywhere("final", "node"),
    ACKED,
)
#: The columns that all of this is read by, besides those of every explanation.
COLUMNS = ("type", "epoch", "queue", *LIVES)
