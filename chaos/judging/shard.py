"""The rows of one shard as numpy columns, and the Arrow form of what the kernels find."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chaos.history import uris
from chaos.history.columns import COLUMNS, INTEGERS, VALUE, WORDS
from chaos.judging.forms import forms, parse
from chaos.law import ALWAYS, Form, Rows
from chaos.verdict import Anomaly

#: So many values are kept as they were parsed. Kernels come back to few rows, but a long run has many.
MOST_PARSED = 1 << 15

T = TypeVar("T")
Positions = npt.NDArray[np.int64]

#: One anomaly of one run as a row, for whoever joins and counts findings over many runs.
ANOMALIES = pa.schema(
    [
        ("run", pa.string()),
        ("law", pa.string()),
        ("name", pa.string()),
        ("explanation", pa.string()),
        ("rows", pa.list_(pa.int64())),
        ("queue", pa.int64()),
        ("offset", pa.int64()),
        ("message", pa.int64()),
        ("count", pa.int64()),
    ]
)


def anomaly_row(run: str, anomaly: Anomaly) -> dict[str, Any]:
    """One anomaly as a row of :data:`ANOMALIES`."""
    return {
        "run": run,
        "law": str(anomaly.law),
        "name": str(anomaly.name),
        "explanation": anomaly.explanation,
        "rows": list(anomaly.rows),
        "queue": anomaly.queue,
        "offset": anomaly.offset,
        "message": anomaly.message,
        "count": anomaly.count,
    }


class Shard:
    """Implements :class:`chaos.law.Rows` over an Arrow table with the columns of a history. A row that is there
    twice (a damaged history) is taken once: nobody did anything twice because of it."""

    def __init__(self, table: pa.Table) -> None:
        table = table.combine_chunks()
        index = _integers(table, "index")
        self._order = None if bool(np.all(index[1:] > index[:-1])) else np.unique(index, return_index=True)[1]
        self._table = table
        self._length = len(index) if self._order is None else len(self._order)
        self._columns: dict[str, npt.NDArray[Any]] = {"index": self._sorted(index)}
        self._texts: dict[str, list[str]] = {}
        self._values: pa.Array | None = None
        self._codes: tuple[npt.NDArray[Any], pa.Array] | None = None
        self._parsed: dict[int, dict[str, Any]] = {}
        self._where: dict[tuple[tuple[str, str | int], ...], Positions] = {}
        self._memo: dict[Callable[[Rows], Any], Any] = {}

    @classmethod
    def read(cls, path: str | Path, columns: Collection[str] = COLUMNS) -> Shard:
        """Read these columns of a Parquet shard, and those by which rows are told apart; ``path`` may be a URI. Raises
        ``OSError`` or ``pyarrow.ArrowInvalid`` when it isn't one, ``KeyError`` when it lacks a column."""
        wanted = [name for name in COLUMNS if name in columns or name in ALWAYS]
        repeated = [VALUE] if VALUE in wanted else None
        source = _opened(path) if uris.is_uri(str(path)) else path
        with pq.ParquetFile(source, memory_map=source is path, read_dictionary=repeated) as file:
            table = file.read(columns=wanted)
        if missing := [name for name in wanted if name not in table.column_names]:
            raise KeyError(f"it has no column {', '.join(missing)}")
        return cls(table)

    def __len__(self) -> int:
        return self._length

    def column(self, name: str) -> npt.NDArray[Any]:
        if name not in self._columns:
            if name in INTEGERS:
                self._columns[name] = self._sorted(_integers(self._table, name))
            elif name in WORDS:
                codes, self._texts[name] = _words(self._table, name)
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
        """The texts behind the codes of a text column."""
        self.column(column)
        return self._texts[column]

    def value(self, row: int) -> dict[str, Any]:
        row = int(row)
        if row not in self._parsed:
            if len(self._parsed) == MOST_PARSED:
                self._parsed.clear()
            self._parsed[row] = parse(self._value_column()[row].as_py())
        return self._parsed[row]

    def forms(self, at: Positions) -> Sequence[Form]:
        texts = self._value_column().take(pa.array(at, pa.int64()))
        return forms(texts.dictionary_decode() if pa.types.is_dictionary(texts.type) else texts)

    def where(self, **equals: str | int) -> Positions:
        return self._all_of(tuple(sorted(equals.items())))

    def _all_of(self, key: tuple[tuple[str, str | int], ...]) -> Positions:
        """Rows of one ``f`` are sought once in the whole shard, and those of a node or a queue among them."""
        if key not in self._where:
            if not key:
                return np.arange(self._length)
            *rest, (name, wanted) = key
            code = self.code(name, wanted) if isinstance(wanted, str) else wanted
            column = self.column(name)
            if rest:
                found = self._all_of(tuple(rest))
                self._where[key] = found[column[found] == code]
            else:
                self._where[key] = np.flatnonzero(column == code)
        return self._where[key]

    def numbers(self, key: str, at: Positions) -> Positions:
        if not len(at):
            return np.empty(0, dtype=np.int64)
        places, found = self._extract(rf'"{key}":\s*(?P<found>-?\d+)', at)
        return np.append(pc.cast(pc.fill_null(found, "-1"), pa.int64()).to_numpy(), -1)[places]

    def words(self, key: str, at: Positions) -> list[str]:
        codes, texts = self.labels(key, at)
        words: list[str] = np.array(texts, dtype=np.object_)[codes].tolist()
        return words

    def labels(self, key: str, at: Positions) -> tuple[Positions, list[str]]:
        if not len(at):
            return np.empty(0, dtype=np.int64), [""]
        places, found = self._extract(rf'"{key}":\s*"(?P<found>[^"\\]*)"', at)
        encoded = pc.fill_null(found, "").dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        if "" not in texts:
            texts.append("")
        return np.append(encoded.indices.to_numpy().astype(np.int64), texts.index(""))[places], texts

    def memo(self, make: Callable[[Rows], T]) -> T:
        if make not in self._memo:
            self._memo[make] = make(self)
        found: T = self._memo[make]
        return found

    def _extract(self, pattern: str, at: Positions) -> tuple[Positions, pa.Array]:
        """What the pattern finds in these rows' values: the texts that it finds, null where it finds nothing, and each
        row's place among them, the one behind the last for a row without a value. Each value that occurs is looked at
        once: many rows have the same."""
        codes, known = self._value_codes()
        occurs = np.zeros(len(known) + 1, dtype=np.bool_)
        occurs[codes[at]] = True
        used = np.flatnonzero(occurs[:-1])
        places = np.full(len(known) + 1, len(used), dtype=np.int64)
        places[used] = np.arange(len(used))
        found = pc.extract_regex(known.take(pa.array(used)), pattern)
        return places[codes[at]], pc.struct_field(found, "found")

    def _value_codes(self) -> tuple[npt.NDArray[Any], pa.Array]:
        """Each row's value as a number, -1 for none, and the texts that the numbers stand for."""
        if self._codes is None:
            values = self._value_column()
            coded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
            self._codes = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False), coded.dictionary
        return self._codes

    def _value_column(self) -> pa.Array:
        if self._values is None:
            column = self._table.column(VALUE)
            array = column.chunk(0) if column.num_chunks else pa.array([], pa.string())
            self._values = array if self._order is None else array.take(pa.array(self._order))
        return self._values

    def _sorted(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return column if self._order is None else column[self._order]


def _opened(uri: str | Path) -> pa.NativeFile:
    try:
        files, path = uris.resolve(str(uri))
    except ValueError as error:  # whatever else is wrong with a shard is an OSError as well
        raise OSError(f"{uris.without_secrets(str(uri))} is no URI that can be read: {error}") from error
    return files.open_input_file(path)


def _integers(table: pa.Table, name: str) -> Positions:
    column = table.column(name)
    if column.null_count:
        column = pc.fill_null(column, -1)
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _words(table: pa.Table, name: str) -> tuple[npt.NDArray[Any], list[str]]:
    column = table.column(name)
    if not column.num_chunks:
        return np.empty(0, dtype=np.int32), []
    array = column.chunk(0)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    codes = pc.fill_null(array.indices, -1).to_numpy(zero_copy_only=False)
    return codes, array.dictionary.to_pylist()
