"""The files of a run that hold its rows: what was recorded, and shards that were made of all of it.

Shards need no parsing. They stand in for the history only as long as they are all of it; its first bad byte, or a byte
more, and what was recorded is read itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos import guarded
from chaos.errors import ChaosError, DamagedHistory
from chaos.history import manifest
from chaos.history.beginnings import Beginnings
from chaos.history.columns import COLUMNS, GIVEN, INTEGERS
from chaos.history.directory import SEGMENTS, SHARDS, TRACES, shard_files, trace_files
from chaos.history.ends import NEEDED, with_beginnings
from chaos.history.manifest import Sealed
from chaos.history.pieces import Piece, pieces
from chaos.history.row import Keep
from chaos.history.shards import SINGLE_SHARD_ROWS, WHOLE
from chaos.history.stream import MOST_ROWS, SCHEMA, STREAM, is_sound, stream_blocks
from chaos.history.trace_segments import segment_rows
from chaos.history.traces import trace_blocks

ONE = f"{SHARDS}/{WHOLE}.parquet"

#: Makes of wanted rows what is held: other columns, but no other rows.
Shape = Callable[[pa.Table], pa.Table]
#: What goes wrong with shards: whatever it is, the reader of what was recorded says it better.
_NO_SHARDS = (ChaosError, OSError, pa.ArrowException, ValueError)


class RowFiles:
    """The rows of one run directory. ``sealed``: what its manifest vouches for. What vouches for the shards is checked
    once."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self.sealed: Sealed = manifest.read(run)
        self._broken = False

    def recorded_blocks(self, damage: list[str], *, most: int | None = None) -> Iterator[pa.Table]:
        """Yield the recorded rows, then the traces of nodes that were processes, some at a time: at least one block, as
        they are numbered in the stream. ``damage`` gets a sentence for each damage met. Raises as
        :func:`chaos.history.stream.stream_blocks`, also for a stream of more than ``most`` bytes (or, without it, of
        gigabytes that were not sealed)."""
        rows = 0
        for block in stream_blocks(self._run, self.sealed, damage, most):
            rows += block.num_rows
            yield block
        yield from trace_blocks(self._run, rows, self.sealed, damage)

    def recorded(self, keep: Keep | None = None) -> tuple[pa.Table, list[str]]:
        """Return all sound rows in ``index`` order, and one sentence for each damage met: the stream up to its first
        bad batch, then the traces; without a stream, the shards. Rows that ``keep`` does not want are looked at for
        damage, and never held all at once.

        Raises :class:`DamagedHistory` when nothing at all can be read, :class:`chaos.errors.BadInput` when there is no
        regular file of a size to read, or its rows would be too large once they are decoded."""
        damage: list[str] = []
        blocks: list[pa.Table] = []
        rows, in_order = 0, True
        try:
            for block in self.recorded_blocks(damage, most=None if keep else guarded.LARGEST_ROWS):
                if keep is not None:
                    numbers = np.arange(rows, rows + block.num_rows)
                    in_order = in_order and bool(np.array_equal(block["index"].to_numpy(), numbers))
                    rows += block.num_rows
                    block = block.filter(keep(block))
                blocks.append(block)
        except FileNotFoundError:
            table, damage = _numbered(*self._left_shards())
            return table if keep is None else table.filter(keep(table)), damage
        if keep is not None and not in_order:
            table, damage = self.recorded()
            return table.filter(keep(table)), damage
        table = pa.concat_tables(blocks).unify_dictionaries().combine_chunks()
        return _numbered(table, damage) if keep is None else (table, damage)

    @property
    def is_large(self) -> bool:
        """Whether there are so many rows that nobody should hold all of them."""
        return bool(self._pieces) or (self._named != [ONE] and bool(self._shards))

    def rows(
        self, keep: Keep | None = None, columns: Collection[str] = COLUMNS, shape: Shape | None = None
    ) -> tuple[pa.Table, list[str]]:
        """Return as :meth:`recorded` does, with these columns, from the shards if that is faster: where nodes traced
        into files of their own, or few rows of many are wanted. ``columns``: those that ``keep`` and ``shape`` need,
        ``index`` among them."""
        names = [name for name in COLUMNS if name in columns]
        if self._pieces:
            with suppress(DamagedHistory):
                return _in_order(self._of_pieces(_every if keep is None else keep, names), names, shape), []
            self._broken = True
        is_faster = bool(trace_files(self._run)) if self._named == [ONE] else keep is not None
        if is_faster and self._shards:
            try:
                return self._from_shards(keep, names, shape), []
            except _NO_SHARDS:
                self._broken = True
        table, damage = self.recorded(keep)
        table = table.select(names)
        return table if shape is None else shape(table), damage

    def blocks(self, keep: Keep, columns: Collection[str] = COLUMNS) -> Iterator[pa.Table]:
        """Yield the wanted rows with these columns, ``index`` among them, some at a time, in any order, each once. For
        runs that are large: one shard after the other. Raises as :meth:`recorded`."""
        names = [name for name in COLUMNS if name in columns]
        seen = _Seen(self._promised)
        if self.is_large:
            try:
                yield from self._of_pieces(keep, names, seen) if self._pieces else self._of_shards(keep, names, seen)
                return
            except _NO_SHARDS:
                self._broken = True
        rows = self.recorded(keep)[0].select(names)
        yield rows.filter(pa.array(seen.new(rows["index"].to_numpy()))) if self._broken else rows

    @property
    def _pieces(self) -> tuple[Piece, ...]:
        """The segments of a large run, if they can be read apart from one another."""
        return () if self._broken else self._found_pieces

    @cached_property
    def _found_pieces(self) -> tuple[Piece, ...]:
        found = pieces(self._run, self.sealed)
        return found if sum(piece.rows for piece in found) >= SINGLE_SHARD_ROWS else ()

    def _of_pieces(self, keep: Keep, names: list[str], seen: _Seen | None = None) -> Iterator[pa.Table]:
        for piece in self._pieces:
            rows = piece.read(names)
            wanted = np.array(keep(rows), dtype=np.bool_)
            if seen is not None:
                wanted = seen.new(rows["index"].to_numpy(), wanted)
            yield rows.filter(pa.array(wanted))

    def _of_shards(self, keep: Keep, names: list[str], seen: _Seen, held: Any = None) -> Iterator[pa.Table]:
        from chaos.history.bounded.shard_files import batches  # late: few read shards here

        for name in self._shards:
            for ends in batches(self._run / name, {*names, *NEEDED}, held):
                rows = with_beginnings(ends)[0].select(names)
                wanted = np.array(keep(rows), dtype=np.bool_)
                yield rows.filter(pa.array(seen.new(rows["index"].to_numpy(), wanted)))

    def _from_shards(self, keep: Keep | None, names: list[str], shape: Shape | None) -> pa.Table:
        from chaos.history.bounded.shard_files import Budget

        held = Budget(self._run) if keep is None else None
        found = self._of_shards(_every if keep is None else keep, names, _Seen(self._promised), held)
        return _in_order(found, names, shape)

    @cached_property
    def _promised(self) -> int:
        """How many rows the run may have: those of its batches and segments, and a line takes some bytes."""
        lines = {name: sums[-1].length for name, sums in self.sealed.files.items() if name.startswith(f"{TRACES}/")}
        segments = [name for name in lines if name.endswith(SEGMENTS)]
        traced = sum(lines[name] for name in lines.keys() - {*segments})
        traced += sum(segment_rows(self._run, name) for name in segments)
        return min(MOST_ROWS, sum(batch.rows for batch in self.sealed.batches) + traced)

    @property
    def _named(self) -> list[str]:
        """The shards that the manifest names."""
        return sorted(name for name in self.sealed.files if name.startswith(f"{SHARDS}/"))

    @property
    def _shards(self) -> list[str]:
        """The shards if they are the whole history."""
        return [] if self._broken else self._vouched

    @cached_property
    def _vouched(self) -> list[str]:
        try:
            return self._whole_in_shards()
        except _NO_SHARDS:
            return []

    def _whole_in_shards(self) -> list[str]:
        """Return the shards if they were made, without any damage, from all that is there now: only then are they
        sealed, and after all the rest. Empty where that isn't so, or where they hold more than that can be."""
        from chaos.history.bounded.shard_files import measured, repeats

        run, sealed, shards = self._run, self.sealed, self._named
        traces = trace_files(run)
        if sealed.damage or not shards or not guarded.is_there(run / STREAM) or not set(traces) <= sealed.files.keys():
            return []
        sealed_traces = [name for name in sealed.files if name.startswith(f"{TRACES}/")]
        last = max([sealed.last_batch, *(sealed.lines[name] for name in sealed_traces)])
        if min(sealed.lines[name] for name in shards) < last or not is_sound(run, sealed):
            return []
        if any(manifest.altered(run, sealed, name) for name in [*shards, *sealed_traces]):
            return []
        if any(measured(run / name).rows > self._promised for name in shards):
            return []
        return shards if all(repeats(run / name) for name in shards) else []

    def _left_shards(self) -> tuple[pa.Table, list[str]]:
        """Read the shards where they are all that is left of the history."""
        from chaos.history.bounded.shard_files import Budget, batches, measured, repeats

        run, sealed, paths = self._run, self.sealed, shard_files(self._run)
        if not paths:
            raise DamagedHistory(f"{run} holds no history: neither {STREAM} nor {SHARDS}/*.parquet")
        in_manifest = {name for name in sealed.files if name.startswith(f"{SHARDS}/")}
        names = sorted(in_manifest | {*paths})
        if problems := [problem for name in names if (problem := manifest.altered(run, sealed, name))]:
            raise DamagedHistory("; ".join(problems))
        promised, held = Budget(run / SHARDS), Budget(run / SHARDS)
        for name in paths:
            promised.take(measured(run / name).size)
        is_whole = all(repeats(run / name) for name in paths)
        columns = COLUMNS if is_whole else GIVEN
        tables = [SCHEMA.empty_table().select(columns)]
        for path in paths:
            try:
                tables += batches(run / path, columns, held)
            except (pa.ArrowException, KeyError, ValueError, OSError) as error:
                raise DamagedHistory(f"{run / path} is no shard of a history: {error}") from error
        table = pa.concat_tables(tables).unify_dictionaries().combine_chunks().sort_by("index")
        damage = [f"{STREAM} is missing; the shards that were made of it stand in for it"] if sealed.batches else []
        if len(paths) > 1:
            index = table["index"].to_numpy()  # rows that every shard repeats come once
            again = index[1:] == index[:-1]
            numbers = [name for name in INTEGERS if name in columns]
            other = again & np.any([np.diff(table[name].to_numpy()) != 0 for name in numbers], axis=0)
            damage += [f"{int(other.sum())} rows stand in two shards with different contents"] if other.any() else []
            table = table.filter(pa.array(np.append(True, ~again)[: table.num_rows]))
        if is_whole:
            return with_beginnings(table)[0].sort_by("index"), damage
        return Beginnings().repeat(table).cast(SCHEMA), damage


def _every(rows: pa.Table) -> npt.NDArray[np.bool_]:
    return np.ones(rows.num_rows, np.bool_)


def _in_order(blocks: Iterator[pa.Table], names: list[str], shape: Shape | None) -> pa.Table:
    """Return all rows of these blocks, which have the columns ``names``, in the order of their numbers."""
    empty = pa.schema([SCHEMA.field(name) for name in names]).empty_table()
    tables = [rows if shape is None else shape(rows) for rows in (empty, *blocks)]
    table = pa.concat_tables(tables).unify_dictionaries()
    index = table["index"].to_numpy()
    if np.all(index[1:] > index[:-1]):
        return table.combine_chunks()
    return table.take(pa.array(np.argsort(index, kind="stable"))).combine_chunks()


class _Seen:
    """Which rows were taken already, a bit for each of at most so many: some stand in several shards."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._taken = np.zeros(0, np.uint8)

    def new(
        self, index: npt.NDArray[np.int64], wanted: npt.NDArray[np.bool_] | np.bool_ = np.True_
    ) -> npt.NDArray[np.bool_]:
        """Return those of the wanted rows that are taken now. Rows of a sound history are numbered from 0 on."""
        most = int(index.max(initial=-1)) + 1
        if most > self._rows or index.min(initial=0) < 0:
            raise ValueError("rows are numbered otherwise")
        place, bit = index >> 3, np.left_shift(1, index & 7).astype(np.uint8)
        if most > 8 * len(self._taken):
            more = max(most // 8 + 1, 2 * len(self._taken)) - len(self._taken)
            self._taken = np.append(self._taken, np.zeros(more, np.uint8))
        found: npt.NDArray[np.bool_] = wanted & (self._taken[place] & bit == 0)
        np.bitwise_or.at(self._taken, place[found], bit[found])
        return found


def _numbered(table: pa.Table, damage: list[str]) -> tuple[pa.Table, list[str]]:
    """Return rows numbered from 0 on, without a gap: the second of one number is left out, a missing one is
    reported."""
    index = table["index"].to_numpy()
    if bool(np.array_equal(index, np.arange(len(index)))):
        return table, damage
    numbers, first = np.unique(index, return_index=True)
    if len(first) < len(index):
        damage = [*damage, f"{len(index) - len(first)} rows stand there more than once; the first of each is taken"]
    if not np.array_equal(first, np.arange(len(index))):
        table = table.take(pa.array(first))
    missing = int(numbers[-1]) + 1 - len(numbers) + int(numbers[0] < 0)
    if missing:
        damage = [*damage, f"{missing} rows are missing between the others"]
    return table, damage
