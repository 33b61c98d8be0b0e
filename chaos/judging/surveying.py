"""What is found out of the pieces of a large run before they are divided: how they are to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from chaos.errors import DamagedHistory
from chaos.history.columns import VALUE, Kind
from chaos.history.ends import NEEDED, without_beginnings
from chaos.history.parted import numbers, places
from chaos.history.parted.choosing import OF_VALUES, Chooser, Ints, Part, Sieve, is_split
from chaos.history.parted.words import among
from chaos.history.pieces import Readable
from chaos.history.stream import SCHEMA
from chaos.judging.layout import Layout, buckets_of, counted, kept_before, ordered
from chaos.judging.packing import pack, unpack
from chaos.ops import DELIVERED, OpType

#: No task is given more rows of its own than this, if its keys can be parted at all.
TASK_ROWS = 1 << 20
#: Columns that say where rows belong.
_ALWAYS = (*NEEDED, "kind", "type", "f", "queue", "node")


@dataclass(frozen=True, slots=True)
class Task:
    """A piece to be looked at. ``layout``: of which the plan is known, and which parts of it are split."""

    piece: Readable
    layout: Layout


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What one piece has. ``damage``: why it can't be read; then the rest says nothing. ``begun``: beginnings in other
    pieces that ends here repeat. ``counts``: of each part the keys that rows have, ascending, and how many each has.
    ``queues``: those of which anything is made for all shards. ``before``: what sieves keep of the rows that they must
    know before all others. ``halved_from``: the first beginning
    in another piece that an end here does not repeat; ``delivered_from``: the first beginning of an operation that has
    deliveries here, and no end; -1 for none."""

    damage: str = ""
    begun: Ints | None = None
    counts: Sequence[tuple[Ints, Ints]] = ()
    queues: tuple[int, ...] = ()
    before: tuple[bytes, ...] = ()
    halved_from: int = -1
    delivered_from: int = -1


def survey(task: Task) -> Surveyed:
    """Look at one piece."""
    try:
        return surveyed(task.piece, task.layout)
    except DamagedHistory as error:
        return Surveyed(damage=str(error))


def _columns(parts: Sequence[Part]) -> set[str]:
    """Return what must be read of rows to know where they belong; without values, of which few keys are made."""
    keys = {part.key for part in parts}
    return {*_ALWAYS, *(column for key, columns in places.COLUMNS.items() if key in keys for column in columns)}


def surveyed(piece: Readable, layout: Layout) -> Surveyed:
    """Look at one piece. Raises :class:`chaos.errors.DamagedHistory` where it can't be read."""
    columns, sieves = _columns(layout.parts), ordered(layout.parts)
    rows = piece.read(columns)
    if any(Chooser(rows).any_of(part.maybe_own).any() for part in layout.parts if part.key in OF_VALUES):
        rows = piece.read({*columns, VALUE})
    is_ordered = Chooser(rows).any_of([one for sieve in sieves for one in sieve.before]).any()
    known = piece.read() if is_ordered else SCHEMA.empty_table()
    halved, delivered = _apart(rows) if layout.split else (-1, -1)
    rows, begun = without_beginnings(rows)
    chooser = layout.chooser(rows)
    return Surveyed(
        begun=begun,
        counts=counted(chooser, layout.parts),
        queues=_queues(chooser, layout),
        before=tuple(pack(kept_before(sieve, known)) for sieve in sieves),
        halved_from=halved,
        delivered_from=delivered,
    )


def _apart(rows: pa.Table) -> tuple[int, int]:
    """As ``halved_from`` and ``delivered_from``."""
    index, op, length = (rows[name].to_numpy() for name in ("index", "op", "began_value"))
    of_operation = among(rows, "kind", (str(Kind.OP),)) & (op >= 0) & (op < index)
    delivered = of_operation & among(rows, "f", (DELIVERED,))
    ends = of_operation & ~delivered & ~among(rows, "type", (str(OpType.INVOKE),))
    halves = op[ends & (length < 0)]
    halves = halves[~numbers.among(halves, index)]
    alone = op[delivered]
    alone = alone[~numbers.among(alone, op[ends])]
    return _least(halves), _least(alone)


def _least(found: Ints) -> int:
    return int(found.min()) if len(found) else -1


def spans(found: Sequence[Surveyed], firsts: Sequence[int]) -> list[tuple[int, int]]:
    """Return which pieces have rows of one operation that must be looked at together, as (first, last): each of them
    more than one piece, in their order. ``firsts``: the number of the first row of each piece."""
    wanted = []
    for number, one in enumerate(found):
        for begun, last in ((one.halved_from, number), (one.delivered_from, len(found) - 1)):
            if begun >= 0:
                first = max(0, int(np.searchsorted(firsts, begun, side="right")) - 1)
                wanted.append((min(first, number), last))
    joined: list[tuple[int, int]] = []
    for first, last in sorted(wanted):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return [(first, last) for first, last in joined if first < last]


def split(found: Sequence[Surveyed], planned: Layout, most: int) -> frozenset[str]:
    """Return the parts of a plan that others take the place of. ``most``: rows of its own that no task should have more
    of."""
    counts = [_added([one.counts[number] for one in found])[1] for number in range(len(planned.parts))]
    return frozenset(part.name for part, rows in zip(planned.parts, counts, strict=True) if is_split(part, rows, most))


def summed(found: Sequence[Surveyed], planned: Layout, most: int) -> tuple[Layout, tuple[int, ...]]:
    """Return how pieces are to be divided, by what they have together, and how many rows each shard may have."""
    counts = [_added([one.counts[number] for one in found]) for number in range(len(planned.parts))]
    sieves = ordered(planned.parts)
    layout = replace(
        planned,
        buckets=buckets_of(planned.parts, counts, most),
        left_out=numbers.distinct(np.concatenate([one.begun for one in found if one.begun is not None])),
        known_before=tuple(_known(sieve, [one.before[at] for one in found]) for at, sieve in enumerate(sieves)),
        queues=tuple(sorted({queue for one in found for queue in one.queues})),
    )
    sizes = [
        int(rows[buckets.number == one].sum())
        for buckets, (_, rows) in zip(layout.buckets, counts, strict=True)
        for one in buckets.filled
    ]
    return layout, tuple(sizes)


def _queues(chooser: Chooser, layout: Layout) -> tuple[int, ...]:
    """Return the queues with rows of which anything is made for all shards."""
    named = chooser.keys("queue")[chooser.any_of([one for lookup in layout.lookups for one in lookup.rows])]
    return tuple(queue for queue in numbers.distinct(named).tolist() if queue >= 0)


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
