"""What is found out of the pieces of a large run before they are divided: how they are to be, and what the run is."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from chaos.errors import DamagedHistory
from chaos.history.columns import Kind
from chaos.history.digests import segment_digest
from chaos.history.ends import without_beginnings
from chaos.history.parted import numbers
from chaos.history.parted.choosing import Chosen, Ints, Part, Sieve
from chaos.history.parted.words import among
from chaos.history.pieces import Piece
from chaos.history.rare import Rare
from chaos.history.run_meta import RunMeta
from chaos.history.shards import is_split
from chaos.judging.evidence import PROBE
from chaos.judging.layout import Layout, buckets_of, counted, kept_before, ordered, parts_of
from chaos.judging.packing import pack, unpack
from chaos.ops import DELIVERED, OpType

#: No task is given more rows of its own than this, if its keys can be parted at all.
TASK_ROWS = 1 << 20
#: How many rows each key of a part has.
Counts = Sequence[tuple[Ints, Ints]]


@dataclass(frozen=True, slots=True)
class Task:
    """A piece to be looked at. ``may_split``: the run has more rows than one shard should."""

    piece: Piece
    meta: RunMeta
    may_split: bool


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What one piece has. ``damage``: why it can't be read apart from the others; then the rest says nothing.
    ``digest``: of a piece of the stream. ``begun``: beginnings in other pieces that ends here repeat. ``counts``: of
    each part of the plan; ``split_counts``: of those that take the place of each. ``before``: what sieves keep of the
    rows that they must know before all others."""

    damage: str = ""
    digest: bytes = b""
    rare: bytes = b""
    begun: Ints | None = None
    counts: Counts = ()
    split_counts: tuple[Counts, ...] = ()
    before: tuple[bytes, ...] = ()


def survey(task: Task) -> Surveyed:
    """Look at one piece."""
    try:
        rows = task.piece.read()
        return surveyed(rows, task.meta, of_stream=task.piece.is_of_stream, may_split=task.may_split)
    except DamagedHistory as error:
        return Surveyed(damage=str(error))


def surveyed(rows: pa.Table, meta: RunMeta, *, of_stream: bool, may_split: bool) -> Surveyed:
    """Look at the rows of one piece. Raises :class:`chaos.errors.DamagedHistory` for those of strangers, of whom an
    operation may be two rows in two pieces."""
    _refuse_halves(rows)
    rare, parts = Rare(PROBE), parts_of(meta)
    rare.add(rows)
    digest = segment_digest(rows) if of_stream else b""
    rows, begun = without_beginnings(rows)
    return Surveyed(
        digest=digest,
        rare=pack(rare.table()),
        begun=begun,
        counts=counted(rows, parts),
        split_counts=tuple(counted(rows, part.split) for part in parts) if may_split else (),
        before=tuple(pack(kept_before(sieve, rows)) for sieve in ordered(_every(parts))),
    )


def _every(parts: Sequence[Part]) -> tuple[Part, ...]:
    return tuple(one for part in parts for one in (part, *part.split))


def _refuse_halves(rows: pa.Table) -> None:
    op, length = (rows[name].to_numpy() for name in ("op", "began_value"))
    halves = among(rows, "kind", (str(Kind.OP),)) & ~among(rows, "f", (DELIVERED,)) & (op >= 0) & (length < 0)
    halves &= ~among(rows, "type", (str(OpType.INVOKE),))
    if not numbers.among(op[halves], rows["index"].to_numpy()).all():
        raise DamagedHistory("an operation ends in another segment than it began in, and does not repeat its beginning")


@dataclass(frozen=True, slots=True)
class Survey:
    """What all pieces of a run have together, in their order. ``sizes``: how many rows each shard may have."""

    layout: Layout
    sizes: tuple[int, ...]
    rare: pa.Table
    digest: str


def summed(found: Sequence[Surveyed], meta: RunMeta, goals: Sequence[Chosen], most: int) -> Survey:
    """Return what pieces have together. ``most``: rows of its own that no task should have more of."""
    rare = Rare(PROBE)
    for one in found:
        rare.add(unpack(one.rare))
    parts, split, left, counts = parts_of(meta), set[str](), list[Part](), list[tuple[Ints, Ints]]()
    for number, part in enumerate(parts):
        mine = _added([one.counts[number] for one in found])
        if is_split(part, mine[1], most):
            split.add(part.name)
            left += part.split
            counts += [_added([one.split_counts[number][at] for one in found if one.split_counts])
                       for at in range(len(part.split))]  # fmt: skip
        else:
            left.append(part)
            counts.append(mine)
    layout = Layout(
        meta=meta,
        split=frozenset(split),
        buckets=buckets_of(left, counts, most),
        left_out=numbers.distinct(np.concatenate([one.begun for one in found if one.begun is not None])),
        goals=tuple(goals),
    )
    every = ordered(_every(parts))
    known = [_known(sieve, [one.before[every.index(sieve)] for one in found]) for sieve in ordered(layout.parts)]
    tree = hashlib.sha256(b"".join(one.digest for one in found)).hexdigest()
    sizes = [
        int(rows[buckets.number == one].sum())
        for buckets, (_, rows) in zip(layout.buckets, counts, strict=True)
        for one in buckets.filled
    ]
    return Survey(replace(layout, known_before=tuple(known)), tuple(sizes), rare.table(), tree)


def _known(sieve: Sieve, packed: Sequence[bytes]) -> bytes:
    return pack(kept_before(sieve, pa.concat_tables([*map(unpack, packed)]).unify_dictionaries()))


def _added(counts: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """Return the numbers of rows of all pieces together."""
    if not counts:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    keys = np.concatenate([one for one, _ in counts])
    distinct, place = np.unique(keys, return_inverse=True)
    rows = np.bincount(place, np.concatenate([rows for _, rows in counts]), len(distinct)).astype(np.int64)
    return distinct, rows
