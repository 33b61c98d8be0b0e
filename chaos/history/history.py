"""A recorded run, read: the one way to its rows for reports, explanations, comparisons, exports and laws' engines."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chaos.events import Event
from chaos.history.columns import COLUMNS, INTEGERS, Kind
from chaos.history.directory import read_meta, refuse_newer
from chaos.history.manifest import Sealed
from chaos.history.opening import resolve_one
from chaos.history.pieces import Piece
from chaos.history.row import Keep, Row, rows_of
from chaos.history.row_files import RowFiles
from chaos.history.run_meta import RunMeta


class History:
    """The rows of one run, in ``index`` order, with what its ``run.json`` says.

    Rows are read when they are first asked for, and held. What a large run has too many of is read with :meth:`only`,
    which holds the wanted rows alone, or as :attr:`pieces`. Seconds count from when the load began (from the harness's
    first row, if it never did), as laws count them too.

    Reading rows raises :class:`chaos.errors.DamagedHistory` when nothing at all can be read, and
    :class:`chaos.errors.BadInput` when there is no regular file of a size to read, or its rows would be too large once
    they are decoded.
    """

    def __init__(
        self,
        run: Path | None,
        files: RowFiles | None,
        held: tuple[pa.Table, Sequence[str]] | None = None,
        meta: RunMeta | None = None,
    ) -> None:
        self._run = run
        self._files = files
        self._given = held
        self._meta = meta

    @classmethod
    def open(cls, run: Path | str, folder: Path = Path("runs")) -> History:
        """Open the run in a directory, or the one that a word of a user means, as
        :func:`chaos.history.opening.resolve_one` says: a run in a ZIP archive or under a URI is copied into ``folder``.
        Raises :class:`chaos.errors.BadInput` for what is no run, and for one that a newer version has recorded."""
        place = run if isinstance(run, Path) else resolve_one(run, folder)
        refuse_newer(place)
        return cls(place, RowFiles(place))

    @classmethod
    def of(cls, table: pa.Table, meta: RunMeta | None = None, damage: Sequence[str] = ()) -> History:
        """Take rows that are held already, in ``index`` order. Without ``meta`` nothing is known of the run."""
        return cls(None, None, (table, damage), meta or RunMeta())

    # The run

    @property
    def run(self) -> Path:
        """The directory of the run. Raises ``ValueError`` where rows were given."""
        if self._run is None:
            raise ValueError("these rows were read from no run")
        return self._run

    @property
    def meta(self) -> RunMeta:
        """What ``run.json`` says. Raises as :func:`chaos.history.directory.read_meta`."""
        if self._meta is None:
            self._meta = read_meta(self.run)
        return self._meta

    @property
    def sealed(self) -> Sealed:
        """What the manifest of the run vouches for."""
        return self._source.sealed

    @property
    def one_clock(self) -> bool:
        """Whether the order of recording is that of time, for rows of different nodes too."""
        return self.meta.one_clock

    @property
    def damage(self) -> Sequence[str]:
        """One sentence for each damage met while the rows were read."""
        return self._held[1]

    # Rows of which not all are held

    @property
    def is_large(self) -> bool:
        """Whether nobody should hold all rows."""
        return bool(self.pieces)

    @property
    def pieces(self) -> Sequence[Piece]:
        """All rows of a large run, in pieces that are read apart; none of a small one."""
        return () if self._files is None else self._files.pieces

    def recorded_blocks(self, damage: list[str]) -> Iterator[pa.Table]:
        """Yield what was recorded, some rows at a time, never from shards: the stream, then the traces of nodes that
        were processes. Raises ``FileNotFoundError`` without a stream. ``damage`` gets a sentence for each damage
        met."""
        return self._source.recorded_blocks(damage)

    def recorded(self) -> tuple[pa.Table, Sequence[str]]:
        """Return what was recorded, and one sentence for each damage met; from shards only where nothing else is
        left."""
        return self._source.recorded()

    def only(self, keep: Keep, among: Collection[range] | None = None) -> History:
        """Return the history of the wanted rows alone. ``among``: the numbers that these may have, if that is known."""
        return History(self._run, None, self._source.rows(keep, among), self._meta)

    def with_rows(self, table: pa.Table, damage: Sequence[str] = ()) -> History:
        """Return a history of the same run with these rows, in ``index`` order."""
        return History(self._run, None, (table, damage), self._meta)

    # Rows that are held

    @property
    def table(self) -> pa.Table:
        """All rows, with :data:`chaos.history.stream.SCHEMA`."""
        return self._held[0]

    @property
    def num_rows(self) -> int:
        rows: int = self.table.num_rows
        return rows

    @overload
    def rows(self, kind: str, *names: str, columns: Collection[str] | None = None) -> pa.Table: ...

    @overload
    def rows(self, kind: type[Event], *names: type[Event], columns: Collection[str] | None = None) -> pa.Table: ...

    def rows(self, kind: Any, *names: Any, columns: Collection[str] | None = None) -> pa.Table:
        """Return the rows of a ``kind`` with one of these names in ``f``, or with any; or the rows of some events of
        nodes, by their classes. ``columns``: those that are returned."""
        if not isinstance(kind, str):
            kind, names = str(Kind.TRACE), tuple(one.f for one in (kind, *names))
        if kind not in self._of_kind:
            self._of_kind[kind] = self.table.filter(pc.equal(self.table["kind"], kind))
        found = self._of_kind[kind]
        found = found.filter(pc.is_in(found["f"], pa.array(names))) if names else found
        return found if columns is None else found.select([name for name in found.column_names if name in columns])

    @overload
    def each(self, kind: str, *names: str, keep: Keep | None = None) -> list[Row]: ...

    @overload
    def each(self, kind: type[Event], *names: type[Event], keep: Keep | None = None) -> list[Row]: ...

    def each(self, kind: Any, *names: Any, keep: Keep | None = None) -> list[Row]:
        """Return the same rows as objects; with ``keep`` the wanted ones of them."""
        table = self.rows(kind, *names)
        return self.of_table(table if keep is None else table.filter(keep(table)))

    def numbered(self, indices: Iterable[int]) -> list[Row]:
        """Return the rows with these numbers, as far as there are such."""
        wanted = pa.array(sorted(set(indices)), pa.int64())
        return self.of_table(self.table.filter(pc.is_in(self.table["index"], wanted)))

    def row(self, number: int) -> Row:
        """Return the row of this number. Raises ``KeyError``."""
        for row in self.numbered([number]):
            return row
        raise KeyError(number)

    def of_table(self, table: pa.Table) -> list[Row]:
        """Return rows of this run as objects."""
        return list(rows_of(table, self.zero_ns))

    @cached_property
    def has_traces(self) -> bool:
        """Whether any node traced anything."""
        return bool(self.rows("trace").num_rows)

    @cached_property
    def polls(self) -> Sequence[Row]:
        """Polls of nodes that were answered with a state."""
        return [row for row in self.each("poll", "state") if row.type == "ok"]

    # Time

    @cached_property
    def phases(self) -> Mapping[str, int]:
        """When each phase of the run first began, in nanoseconds, by its name and in the order of recording."""
        found: dict[str, int] = {}
        for row in rows_of(self.rows("harness", "phase"), 0):
            found.setdefault(str(row.value.get("phase")), row.time_ns)
        return found

    @cached_property
    def zero_ns(self) -> int:
        """The moment from which seconds are counted."""
        if "load" in self.phases:
            return self.phases["load"]
        harness = self.rows("harness")
        times = (harness if harness.num_rows else self.table)["time_ns"]
        return int(times[0].as_py()) if len(times) else 0

    @cached_property
    def end_s(self) -> float:
        """When the last row was recorded, by its own clock."""
        times = self.table["time_ns"].to_numpy()
        return self.second(int(times.max())) if len(times) else 0.0

    def phase_s(self, phase: str) -> float:
        """Return when this phase began; infinity if it never did."""
        return self.second(self.phases[phase]) if phase in self.phases else float("inf")

    @property
    def load_end_s(self) -> float:
        """When the phase after the load began; the end of the run, if none did."""
        phases = [*self.phases]
        after = phases.index("load") + 1 if "load" in phases else len(phases)
        return self.phase_s(phases[after]) if after < len(phases) else self.end_s

    def second(self, time_ns: int) -> float:
        return (time_ns - self.zero_ns) / 1e9

    def seconds(self, table: pa.Table) -> npt.NDArray[np.float64]:
        """Return the second of each of these rows."""
        found: npt.NDArray[np.float64] = (table["time_ns"].to_numpy() - self.zero_ns) / 1e9
        return found

    def before(self, one: Row, other: Row) -> bool:
        """Return whether a row was recorded before another: by the order of recording, or else by the clocks."""
        if self.one_clock:
            return one.index < other.index
        return (one.time_ns, one.index) < (other.time_ns, other.index)

    # Two histories

    def first_difference(self, other: History) -> int | None:
        """Return the number of the first row in which two histories differ, counted from 0; None when they are the
        same. Where one is the beginning of the other, that is the first row that only the longer one has."""
        a, b = self.table, other.table
        common = min(a.num_rows, b.num_rows)
        first = common
        for name in COLUMNS:  # each column only has to be looked at before the first difference so far
            differ = np.flatnonzero(_plain(a, name, first) != _plain(b, name, first))
            first = int(differ[0]) if len(differ) else first
        return None if first == a.num_rows == b.num_rows else first

    @cached_property
    def _held(self) -> tuple[pa.Table, Sequence[str]]:
        return self._source.rows() if self._given is None else self._given

    @cached_property
    def _of_kind(self) -> dict[str, pa.Table]:
        return {}

    @property
    def _source(self) -> RowFiles:
        if self._files is None:
            raise ValueError("these rows were given: there is no more to read")
        return self._files


def _plain(table: pa.Table, name: str, rows: int) -> npt.NDArray[Any]:
    column = table[name].slice(0, rows)
    if name in INTEGERS:
        return column.to_numpy()
    return column.cast(pa.large_string()).to_numpy(zero_copy_only=False)
