"""The rows of one shard as numpy columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chaos.fault import ACCIDENT
from chaos.history.columns import BESIDE, INTEGERS, VALUE, WORDS, Kind
from chaos.history.ends import with_beginnings
from chaos.judging.forms import Searched, forms, parse
from chaos.law import RunContext
from chaos.shard_rows import Form, Rows

#: So many values are kept as they were parsed. Kernels come back to few rows, but a long run has many.
MOST_PARSED = 1 << 15
#: So many of those that are asked for together are parsed at a time.
PARSED_AT_ONCE = 1 << 12
#: By so many texts it is decided whether most of them differ.
SAMPLE = 1 << 10

T = TypeVar("T")
#: What is known of each queue, by what made it; or why that could not be made.
Lookups = Mapping[Callable[[Rows], Any], Mapping[int, Any] | Exception]
Positions = npt.NDArray[np.int64]


def are_accidents(table: pa.Table) -> pa.ChunkedArray:
    """Which rows are those of an accident of the machine (:mod:`chaos.run.accidents`)."""
    kind, f = (table[name].cast(pa.string()) for name in ("kind", "f"))
    return pc.fill_null(pc.and_(pc.equal(kind, str(Kind.FAULT)), pc.equal(f, ACCIDENT)), False)


def seen_by(context: RunContext, table: pa.Table) -> pa.Table:
    """Return the rows of a shard that laws are to see."""
    return table.filter(pc.invert(are_accidents(table))) if context.without_accidents else table


class Shard:
    """Implements :class:`chaos.law.Rows` over an Arrow table with the columns of a history, with the beginnings that
    ends repeat (:mod:`chaos.history.ends`). A row that is there twice (a damaged history) is taken once: it does
    not mean that anything was done twice."""

    def __init__(self, table: pa.Table, lookups: Lookups | None = None) -> None:
        """``lookups``: what is known of whole queues; without them it is made of these rows."""
        self._lookups = lookups
        table, recorded = with_beginnings(table)
        index = _integers(table["index"])
        self._own = _own(table)
        self._order = _order(index)
        #: Columns that nobody has asked for yet.
        self._arrow = {name: table.column(name) for name in table.column_names}
        self._length = len(index) if self._order is None else len(self._order)
        if self._own is not None:
            self._own = self._sorted(self._own)
        self._hides = self._own is not None
        self._besides: Shard | None = None
        self._columns: dict[str, npt.NDArray[Any]] = {"index": self._sorted(index)}
        self._texts: dict[str, list[str]] = {}
        self._narrow: dict[str, npt.NDArray[Any]] = {}
        self._values: list[Searched] = []
        self._parsed: dict[int, dict[str, Any]] = {}
        self._where: dict[tuple[tuple[str, str | int], ...], Positions] = {}
        self._memo: dict[Callable[[Rows], Any], Any] = {}
        #: For each row the ``index`` of that which stands for it in this table: its own, or that of its end.
        self.recorded = self._sorted(recorded)

    def __len__(self) -> int:
        return self._length

    @property
    def beside(self) -> Shard:
        if not self._hides:
            return self
        if self._besides is None:
            self._besides = copy(self)
            self._besides._hides, self._besides._where, self._besides._memo = False, {}, {}
        return self._besides

    @property
    def own(self) -> npt.NDArray[np.bool_]:
        return np.ones(self._length, dtype=np.bool_) if self._own is None else self._own

    def column(self, name: str) -> npt.NDArray[Any]:
        if name not in self._columns:
            if name in INTEGERS:
                self._columns[name] = self._sorted(_integers(self._arrow.pop(name)))
            elif name in WORDS:
                codes, self._texts[name] = _words(self._arrow.pop(name))
                self._columns[name] = self._sorted(codes)
            else:
                raise KeyError(f"a history has no column {name!r} that numbers stand in")
        return self._columns[name]

    def code(self, column: str, text: str) -> int:
        self.column(column)
        texts = self._texts[column]
        return texts.index(text) if text in texts else -2

    def text(self, column: str, row: int) -> str:
        code = int(self.column(column)[row])
        return self._texts[column][code] if code >= 0 else ""

    def texts(self, column: str) -> list[str]:
        """Return the texts behind the codes of a text column."""
        self.column(column)
        return self._texts[column]

    def value(self, row: int) -> dict[str, Any]:
        row = int(row)
        found = self._parsed.get(row)
        if found is None:
            found = parse(self._searchable().values[row].as_py())
            self._keep({row: found})
        return found

    def values(self, at: Positions) -> Iterator[dict[str, Any]]:
        for begin in range(0, len(at), PARSED_AT_ONCE):
            wanted = at[begin : begin + PARSED_AT_ONCE].tolist()
            fresh = [row for row in wanted if row not in self._parsed]
            texts = self._searchable().values.take(pa.array(fresh, pa.int64())).to_pylist()
            parsed = dict(zip(fresh, map(parse, texts), strict=True))
            found = [parsed[row] if row in parsed else self._parsed[row] for row in wanted]
            self._keep(parsed)
            yield from found

    def _keep(self, parsed: Mapping[int, dict[str, Any]]) -> None:
        if len(self._parsed) + len(parsed) > MOST_PARSED:
            self._parsed.clear()
        self._parsed.update(parsed)

    def forms(self, at: Positions) -> Sequence[Form]:
        return forms(self._searchable().values.take(pa.array(at, pa.int64())))

    def where(self, **equals: str | int) -> Positions:
        return self._all_of(tuple(sorted(equals.items())))

    def _all_of(self, key: tuple[tuple[str, str | int], ...]) -> Positions:
        """Rows of one ``f`` are sought once in the whole shard, and those of a node or a queue among them."""
        if key not in self._where:
            if not key:
                return np.flatnonzero(self.own) if self._hides else np.arange(self._length)
            *rest, (name, wanted) = key
            code = self.code(name, wanted) if isinstance(wanted, str) else wanted
            if code == -2 and name in WORDS:
                self._where[key] = np.empty(0, dtype=np.int64)
            elif rest:
                found = self._all_of(tuple(rest))
                equal = self.column(name)[found] == code
                self._where[key] = found if equal.all() else found[equal]
            else:
                equal = self._in_few_bytes(name) == code
                self._where[key] = np.flatnonzero(equal & self.own if self._hides else equal)
        return self._where[key]

    def _in_few_bytes(self, name: str) -> npt.NDArray[Any]:
        """Return a column to be compared with many codes: those of a few words fit into a byte."""
        column = self.column(name)
        if len(self._texts.get(name, ())) > np.iinfo(np.int8).max or name not in self._texts:
            return column
        if name not in self._narrow:
            self._narrow[name] = column.astype(np.int8)
        return self._narrow[name]

    def numbers(self, key: str, at: Positions) -> Positions:
        return self._searchable().numbers(key, at) if len(at) else np.empty(0, dtype=np.int64)

    def words(self, key: str, at: Positions) -> list[str]:
        codes, texts = self.labels(key, at)
        words: list[str] = np.array(texts, dtype=np.object_)[codes].tolist()
        return words

    def labels(self, key: str, at: Positions) -> tuple[Positions, list[str]]:
        return self._searchable().labels(key, at) if len(at) else (np.empty(0, dtype=np.int64), [""])

    def memo(self, make: Callable[[Rows], T]) -> T:
        if make not in self._memo:
            self._memo[make] = make(self)
        found: T = self._memo[make]
        return found

    def lookup(self, make: Callable[[Rows], Mapping[int, T]]) -> Mapping[int, T]:
        if self._lookups is None:
            return self.beside.memo(make)
        found = self._lookups[make]
        if isinstance(found, Exception):
            raise found
        return found

    def forget(self) -> None:
        """Let go of what was made of the rows, which may hold them in turn: in a circle, they would stay."""
        self._memo.clear()
        if self._besides is not None:
            self._besides._memo.clear()

    def _searchable(self) -> Searched:
        if not self._values:
            values = _encoded(self._arrow.pop(VALUE))
            self._values.append(Searched(values if self._order is None else values.take(pa.array(self._order))))
        return self._values[0]

    def _sorted(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return column if self._order is None else column[self._order]


def _encoded(texts: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return each text that occurs once; of many that mostly differ all, since to find those that are equal takes four
    times the bytes of the texts."""
    if len(texts) > MOST_PARSED and not texts.null_count and not pa.types.is_dictionary(texts.type):
        some = texts.take(pa.array(np.linspace(0, len(texts) - 1, SAMPLE, dtype=np.int64)))
        if pc.count_distinct(some).as_py() > SAMPLE // 2:
            return pa.DictionaryArray.from_arrays(
                pa.array(np.arange(len(texts), dtype=np.int32)), texts.combine_chunks()
            )
    return texts.dictionary_encode().combine_chunks()


def _order(index: Positions) -> Positions | None:
    """Which rows to take, and in which order, so that ``index`` ascends; None where it does."""
    return None if bool(np.all(index[1:] > index[:-1])) else np.unique(index, return_index=True)[1]


def _own(table: pa.Table) -> npt.NDArray[np.bool_] | None:
    """Which rows do not stand beside; None where that is all of them."""
    if BESIDE not in table.column_names:
        return None
    beside = np.asarray(table[BESIDE].to_numpy(), dtype=np.bool_)
    return ~beside if beside.any() else None


def _integers(column: pa.ChunkedArray) -> Positions:
    if column.null_count:
        column = pc.fill_null(column, -1)
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _words(column: pa.ChunkedArray) -> tuple[npt.NDArray[Any], list[str]]:
    array = column.combine_chunks()
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    codes = pc.fill_null(array.indices, -1).to_numpy(zero_copy_only=False)
    return codes, array.dictionary.to_pylist()
