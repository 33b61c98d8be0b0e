"""Reads what a run has recorded so far, while it goes on: the harness's rows first, then the traces of its nodes.

A node writes the trace of a step before any message of that step leaves. So the traces that are read after the
harness's rows hold all that nodes had traced when something of it reached the harness. Beyond that moment they are
ahead of one another, each as far as its file went when it was read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos.errors import DamagedHistory, Overtaken
from chaos.history import manifest
from chaos.history.columns import COLUMNS, Kind
from chaos.history.made import Made
from chaos.history.manifest import Sealed
from chaos.history.parted import numbers
from chaos.history.parted.choosing import coded
from chaos.history.pieces import Piece
from chaos.history.stream import stream_blocks
from chaos.history.traces import trace_blocks

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
#: What says of which step a row is.
_STEP = ("index", "kind", "node", "incarnation", "step")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """What a run has recorded so far.

    Its rows are the wanted ones, without steps that may not be whole, and numbered as ``check`` would number them now;
    those below ``of_stream`` keep their numbers for ever. They are in ``table``, or in ``pieces`` where they are many.
    ``recorded``: how many rows were read in all; ``until_ns``: the time of the harness's last row, up to which they
    are complete, -1 before the first. ``damage``: one sentence for each part that isn't what was written.
    """

    table: pa.Table | None
    pieces: tuple[WholeSteps, ...]
    of_stream: int
    recorded: int
    until_ns: int
    damage: tuple[str, ...] = ()

    def blocks(self) -> Iterator[pa.Table]:
        """Yield all rows, some at a time."""
        if self.table is not None:
            yield self.table
        yield from (piece.read() for piece in self.pieces)


@dataclass(slots=True)
class LastSteps:
    """The last step of those that were traced into the one history: node, incarnation, step; and that of each node
    whose traces have a file of their own."""

    of_stream: tuple[str, int, int] | None = None
    of_nodes: dict[str, tuple[str, int, int]] = field(default_factory=dict)

    def read_stream(self, rows: pa.Table) -> None:
        traces = np.flatnonzero(_of(rows, "kind", str(Kind.TRACE)))
        for step in _last_steps(rows.take(pa.array(traces[-1:]))):
            self.of_stream = step

    def read_traces(self, rows: pa.Table) -> None:
        self.of_nodes.update({step[0]: step for step in _last_steps(rows)})


@dataclass(frozen=True, eq=False, slots=True)
class Cut:
    """Which rows of a run that goes on stand in steps that are whole: of the one history those before the number
    ``end``; of the traces of nodes, which have the numbers from ``of_stream`` on, all but those that are ``left``
    out, ascending."""

    of_stream: int
    end: int
    left: Ints

    @classmethod
    def of(cls, blocks: Iterable[pa.Table], of_stream: int, last: LastSteps) -> Cut:
        """Of the one history everything from its last step on is left out: more rows of that step may follow. Of the
        traces the last step of each node."""
        end, left = of_stream, [np.empty(0, np.int64)]
        for rows in blocks:
            index = rows["index"].to_numpy()
            is_traced = index >= of_stream
            if last.of_stream is not None and not is_traced.all():
                same = ~is_traced & _of(rows, "kind", str(Kind.TRACE)) & _of_step(rows, last.of_stream)
                end = min(end, int(index[same].min(initial=end)))
            if is_traced.any():
                codes, texts = coded(rows, "node")
                for code in np.unique(codes[is_traced]).tolist():
                    step = last.of_nodes[texts[code] if code >= 0 else ""]
                    left.append(index[is_traced & _of_step(rows, step)])
        return cls(of_stream, end, numbers.distinct(np.concatenate(left)))

    def whole(self, rows: pa.Table) -> pa.Table:
        """Return those of these rows that stand in whole steps."""
        index = rows["index"].to_numpy()
        found = (index < self.end) | ((index >= self.of_stream) & ~numbers.wanted(index, self.left))
        return rows if found.all() else rows.filter(pa.array(found))


@dataclass(frozen=True, slots=True)
class WholeSteps:
    """A piece without the steps that may not be whole: fewer rows than the piece has."""

    piece: Piece
    cut: Cut

    @property
    def first_index(self) -> int:
        return self.piece.first_index

    @property
    def rows(self) -> int:
        return self.piece.rows

    @property
    def is_of_stream(self) -> bool:
        return False

    def read(self, columns: Collection[str] = COLUMNS) -> pa.Table:
        """As :meth:`chaos.history.pieces.Piece.read`."""
        return self.cut.whole(self.piece.read({*columns, "index"})).select(
            [name for name in COLUMNS if name in columns]
        )


def read_prefix(run: Path, wanted: Callable[[pa.Table], Flags], rows: Made) -> Prefix | None:
    """Read what a run that goes on has recorded so far into ``rows``, which must be empty; None before there is
    anything. ``wanted`` says which of some rows are kept. Raises ``FileNotFoundError`` when files of it are removed
    meanwhile, :class:`chaos.errors.Overtaken` when lines of it become a segment, :class:`chaos.errors.BadInput` for
    what is no regular file of a size to read, and :class:`chaos.errors.MachineError` when the disk is full."""
    sealed = manifest.read(run)
    promised = sum(batch.rows for batch in sealed.batches)
    if not promised:
        return None
    recorded, until_ns, last = 0, -1, LastSteps()
    found: list[str] = []
    try:
        for block in stream_blocks(run, sealed, found):
            recorded += block.num_rows
            until_ns = block["time_ns"][-1].as_py() if block.num_rows else until_ns
            kept = block.filter(pa.array(wanted(block)))
            last.read_stream(kept)
            rows.add(kept)
    except DamagedHistory as error:
        _refuse_overtaken(run, sealed)
        if not recorded:
            return None
        damage = [*sealed.damage, str(error)]
    else:
        damage = [*sealed.damage, *(found if recorded < promised else ())]  # what isn't sealed yet is no damage
        for block in trace_blocks(run, of_stream := recorded, sealed, damage):
            recorded += block.num_rows
            kept = block.filter(pa.array(wanted(block)))
            last.read_traces(kept)
            rows.add(kept)
        if damage:
            _refuse_overtaken(run, sealed)
        return _prefix(rows, of_stream, recorded, until_ns, damage, last)
    return _prefix(rows, recorded, recorded, until_ns, damage, last)


def _refuse_overtaken(run: Path, sealed: Sealed) -> None:
    if manifest.read(run).stored.keys() != sealed.stored.keys():
        raise Overtaken("segments were put elsewhere while they were read: try again")


def _prefix(rows: Made, of_stream: int, recorded: int, until_ns: int, damage: list[str], last: LastSteps) -> Prefix:
    table = rows.table
    pieces = rows.pieces if table is None else ()
    blocks = (piece.read(_STEP) for piece in pieces) if table is None else [table]
    cut = Cut.of(blocks, of_stream, last)
    return Prefix(
        table=None if table is None else cut.whole(table),
        pieces=tuple(WholeSteps(piece, cut) for piece in pieces),
        of_stream=of_stream,
        recorded=recorded,
        until_ns=until_ns,
        damage=tuple(damage),
    )


def end_of_whole_steps(stream: pa.Table) -> int:
    """How many rows come before the last step that any node has traced into the one history, as simulated nodes do:
    more rows of that step may follow. All rows where no node has."""
    traces = np.flatnonzero(_of(stream, "kind", str(Kind.TRACE)))
    if not len(traces):
        return stream.num_rows
    (last,) = _last_steps(stream.slice(int(traces[-1]), 1))
    return int(traces[np.flatnonzero(_of_step(stream.take(pa.array(traces)), last))[0]])


def _last_steps(rows: pa.Table) -> Iterator[tuple[str, int, int]]:
    """Yield the last step of each node in these rows."""
    codes, texts = coded(rows, "node")
    incarnation, step = (rows[name].to_numpy() for name in ("incarnation", "step"))
    for code in np.unique(codes).tolist():
        at = np.flatnonzero(codes == code)[-1]
        yield texts[code] if code >= 0 else "", int(incarnation[at]), int(step[at])


def _of_step(rows: pa.Table, step: tuple[str, int, int]) -> Flags:
    same: Flags = (rows["incarnation"].to_numpy() == step[1]) & (rows["step"].to_numpy() == step[2])
    return same & _of(rows, "node", step[0])


def _of(rows: pa.Table, column: str, text: str) -> Flags:
    codes, texts = coded(rows, column)
    found: Flags = codes == (texts.index(text) if text in texts else -1 if not text else -2)
    return found
