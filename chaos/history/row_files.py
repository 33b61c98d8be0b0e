"""The files of a run that hold its rows, read in the order of these, or in pieces where they are many."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos import guarded
from chaos.errors import ChaosError, DamagedHistory
from chaos.history import manifest
from chaos.history import pieces as _pieces
from chaos.history.beginnings import Beginnings
from chaos.history.columns import COLUMNS, GIVEN, INTEGERS
from chaos.history.directory import SHARDS, line_files, shard_files
from chaos.history.ends import with_beginnings
from chaos.history.made import Made
from chaos.history.manifest import Sealed
from chaos.history.pieces import Piece, pieces, rows_of
from chaos.history.row import Keep
from chaos.history.stream import SCHEMA, STREAM, stream_blocks
from chaos.history.traces import trace_blocks

#: Lines of traces hardly ever take fewer bytes; those of ours take twice as many.
LINE_BYTES = 64


class RowFiles:
    """The rows of one run directory. ``sealed``: what its manifest vouches for."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self.sealed: Sealed = manifest.read(run)
        self._damage: list[str] = []
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
        return bool(self.pieces)

    def rows(self, keep: Keep | None = None, among: Collection[range] | None = None) -> tuple[pa.Table, list[str]]:
        """Return as :meth:`recorded` does. ``among``: the numbers that wanted rows may have, if that is known: of a
        large run no others are read."""
        if self.pieces:
            found = [piece for piece in self.pieces if among is None or _meets(piece, among)]
            with suppress(DamagedHistory):
                return _in_order(self._of_pieces(found, _every if keep is None else keep)), self._damage
            self._broken = True
        return self.recorded(keep)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The pieces of a large run, in the order of their rows; nothing where they are not what was recorded."""
        return () if self._broken else self._found_pieces

    @cached_property
    def _found_pieces(self) -> tuple[Piece, ...]:
        found = pieces(self._run, self.sealed)
        if found or self._may_have < _pieces.LARGE_ROWS:
            return found if rows_of(found) >= _pieces.LARGE_ROWS else ()
        return self._made_pieces()

    def _made_pieces(self) -> tuple[Piece, ...]:
        """Return the pieces that are made of a large run that can't be read apart as it stands, for as long as this
        object lives."""
        self._made = made = Made(Path(tempfile.gettempdir()))
        weakref.finalize(self, made.forget)
        try:
            for block in self.recorded_blocks(self._damage):
                made.add(block)
            if made.in_order and made.table is None:
                return made.pieces
        except (ChaosError, OSError):
            pass
        made.forget()
        return ()

    @cached_property
    def _may_have(self) -> int:
        """How many rows the run may have: those of its batches, and a line takes some bytes."""
        lines = [self._run / name for name in line_files(self._run)]
        of_stream = sum(batch.rows for batch in self.sealed.batches)
        return of_stream + sum(path.lstat().st_size for path in lines) // LINE_BYTES

    @staticmethod
    def _of_pieces(wanted: Sequence[Piece], keep: Keep) -> Iterator[pa.Table]:
        with ThreadPoolExecutor(1) as reader:  # to decode a piece needs no interpreter: it is done ahead
            pieces = iter(wanted)
            ahead = [reader.submit(piece.read) for piece in islice(pieces, 1)]
            while ahead:
                rows = ahead.pop().result()
                ahead += [reader.submit(piece.read) for piece in islice(pieces, 1)]
                yield rows.filter(pa.array(np.array(keep(rows), dtype=np.bool_)))

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
            except MemoryError:
                raise
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


def _meets(piece: Piece, among: Collection[range]) -> bool:
    last = piece.first_index + piece.rows
    return any(numbers.start < last and piece.first_index < numbers.stop for numbers in among)


def _every(rows: pa.Table) -> npt.NDArray[np.bool_]:
    return np.ones(rows.num_rows, np.bool_)


def _in_order(blocks: Iterator[pa.Table]) -> pa.Table:
    """Return all rows of these blocks, in the order of their numbers."""
    table = pa.concat_tables([SCHEMA.empty_table(), *blocks]).unify_dictionaries()
    index = table["index"].to_numpy()
    if np.all(index[1:] > index[:-1]):
        return table.combine_chunks()
    return table.take(pa.array(np.argsort(index, kind="stable"))).combine_chunks()


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
