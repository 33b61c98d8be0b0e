"""Rows on their way between the tasks of a job: as few bytes as it takes, and soon rows again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chaos.history.columns import BESIDE, COLUMNS, INTEGERS, VALUE, WORDS
from chaos.history.stream import SCHEMA

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
#: Where a block says what all of its rows have in a column that it lacks, and how many rows it has.
_CONSTANTS, _ROWS = b"constants", b"rows"
_NARROW = (pa.int8(), pa.int16(), pa.int32())
_WRITTEN = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 1), use_threads=False)
_READ = pa.ipc.IpcReadOptions(use_threads=False)


@dataclass(frozen=True, slots=True)
class Lean:
    """Rows of which some are packed, again and again: ``columns`` that differ, and what all rows have in the others."""

    columns: pa.Table
    constants: Mapping[str, int | str]

    @classmethod
    def of(cls, rows: pa.Table) -> Lean:
        """Take rows with columns of a history. Without ``index``, which is no constant, they would be no rows."""
        names = [name for name in rows.column_names if name != "index"]
        constants = {name: value for name in names if (value := _constant(name, rows[name])) is not None}
        return cls(rows.select([name for name in rows.column_names if name not in constants]), constants)

    def pack(self, at: Ints, beside: Flags | None = None) -> bytes:
        """Return the rows at these places as bytes. ``beside``: which of them stand beside, where that is to be
        known."""
        rows = self.columns.take(pa.array(at))
        return _packed(rows if beside is None else rows.append_column(BESIDE, pa.array(beside)), self.constants)


def pack(rows: pa.Table) -> bytes:
    """Return rows with columns of a history, and ``beside`` if they have it, as bytes: what is the same in all rows
    stands there once, and whole numbers take as few bytes as the largest of them."""
    return _packed(rows, {})


def _packed(rows: pa.Table, constants: Mapping[str, int | str]) -> bytes:
    constants, columns = dict(constants), dict[str, pa.Array]()
    for name in rows.column_names:
        if (value := _constant(name, rows[name])) is not None:
            constants[name] = value
            continue
        column = _joined(rows[name])
        columns[name] = _narrow(column) if name in INTEGERS else _words(column) if name in WORDS else column
    schema = pa.schema([pa.field(name, column.type) for name, column in columns.items()])
    schema = schema.with_metadata({_CONSTANTS: json.dumps(constants), _ROWS: str(rows.num_rows)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=_WRITTEN) as writer:
        if columns and rows.num_rows:
            writer.write_batch(pa.RecordBatch.from_arrays([*columns.values()], schema=schema))
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _constant(name: str, column: pa.ChunkedArray) -> int | str | None:
    """Return what all rows have in a column; None where they differ, or where it is not kept once."""
    if name in INTEGERS:
        if not len(column):
            return -1
        least, most = pc.min_max(column).as_py().values()
        return int(least) if least == most else None
    if name in WORDS:
        words = _joined(column)
        codes = words.indices.to_numpy()
        if not len(codes):
            return ""
        return str(words.dictionary[int(codes[0])].as_py()) if (codes == codes[0]).all() else None
    if name == VALUE:
        return None if pc.any(pc.not_equal(column, "")).as_py() else ""
    return None


def unpack(packed: bytes) -> pa.Table:
    """Return the rows again, with the types of a history."""
    with pa.ipc.open_stream(pa.BufferReader(packed), options=_READ) as reader:
        metadata, found = reader.schema.metadata, reader.read_all()
    rows, constants = int(metadata[_ROWS]), json.loads(metadata[_CONSTANTS])
    names = [name for name in (*COLUMNS, BESIDE) if name in constants or name in found.column_names]
    arrays = []
    for name in names:
        if name in constants:
            arrays.append(_repeated(name, constants[name], rows))
        elif name in WORDS:
            words = _joined(found[name])
            arrays.append(pa.DictionaryArray.from_arrays(words.indices.cast(pa.int32()), words.dictionary))
        else:
            column = _joined(found[name])
            arrays.append(column if name == BESIDE else column.cast(SCHEMA.field(name).type))
    return pa.Table.from_arrays(arrays, names)


def _joined(column: pa.ChunkedArray) -> pa.Array:
    joined = column.unify_dictionaries().combine_chunks()
    if isinstance(joined, pa.ChunkedArray):
        joined = joined.chunk(0) if joined.num_chunks else pa.array([], joined.type)
    return joined


def _narrow(column: pa.Array) -> pa.Array:
    least, most = pc.min_max(column).as_py().values()
    for narrow in _NARROW:
        if -(1 << narrow.bit_width - 1) <= least and most < 1 << narrow.bit_width - 1:
            return column.cast(narrow)
    return column


def _words(column: pa.DictionaryArray) -> pa.Array:
    """Return the words, of which those that none of the rows has are left out."""
    codes = column.indices.to_numpy()
    used = np.flatnonzero(np.bincount(codes))
    place = np.zeros(len(column.dictionary), np.int8 if len(used) < 127 else np.int32)
    place[used] = np.arange(len(used))
    return pa.DictionaryArray.from_arrays(pa.array(place[codes]), column.dictionary.take(pa.array(used)))


def _repeated(name: str, value: int | str, rows: int) -> pa.Array:
    if name in WORDS:
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([value], pa.string()))
    return pa.array(np.full(rows, value, np.int64)) if name in INTEGERS else pa.repeat(pa.scalar("", pa.string()), rows)
