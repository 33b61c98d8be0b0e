"""Rows of a node's trace as Arrow segments: ``traces/NODE.0000.arrows`` and so on, each a file of its own, which is
read in a tenth of the time that the lines take of which it was made."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from chaos import guarded
from chaos.history.bounded.messages import MOST_BATCH, extent
from chaos.history.columns import COLUMNS, Kind
from chaos.history.directory import SEGMENTS
from chaos.history.stream import MOST_ROWS, SCHEMA

T = TypeVar("T")

#: No segment is larger; ours have some megabytes.
LARGEST_SEGMENT = 1 << 28
#: Rows that are decoded together.
BATCH_ROWS = 1 << 17
#: What a segment says of itself: how many rows it has, which of its lines were no rows, and where the next ones begin.
_ROWS, _DAMAGE, _END = b"rows", b"damage", b"end"
#: A row gets its number where it is read, and is a trace whatever it says.
_SCHEMA = pa.schema([SCHEMA.field(name) for name in COLUMNS if name not in ("index", "kind")])
_WRITTEN = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_READ = pa.ipc.IpcReadOptions(use_threads=False)
#: What a number takes; the number of a text takes less.
_WIDTH = 8


@dataclass(frozen=True, slots=True)
class Place:
    """A place between two lines of a trace: its ``offset`` in bytes, and how many ``lines`` stand before it.
    ``headers``: those that hold there."""

    offset: int = 0
    lines: int = 0
    headers: tuple[str, ...] = ()


def segment_name(node: str, number: int) -> str:
    """Return the name of a segment in the folder of traces."""
    return f"{node}.{number:04}{SEGMENTS}"


def write_segment(path: Path, rows: pa.Table, damage: Sequence[str], end: Place) -> None:
    """Write a segment into a file that isn't there yet. ``damage``: of the lines that it was made of; ``end``: where
    these end. Raises ``OSError``, and leaves nothing then."""
    about = {_ROWS: str(rows.num_rows), _DAMAGE: json.dumps([*damage]), _END: json.dumps(asdict(end))}
    schema = _SCHEMA.with_metadata(about)
    table = rows.select(_SCHEMA.names).unify_dictionaries().combine_chunks().cast(schema)
    with guarded.created(path) as file:
        try:
            with pa.ipc.new_stream(file, schema, options=_WRITTEN) as writer:
                writer.write_table(table, max_chunksize=BATCH_ROWS)
            file.flush()
        except BaseException:
            path.unlink()
            raise


def segment_rows(run: Path, name: str) -> int:
    """Return how many rows a segment of a run says that it has; 0 for what is none. Raises
    :class:`chaos.errors.BadInput` for what is no regular file, or is too large."""
    return _said(run, name, _said_rows) or 0


def segment_end(run: Path, name: str) -> Place | None:
    """Return where the lines end of which a segment of a run was made; None for what doesn't say so. Raises as
    :func:`segment_rows`."""
    return _said(run, name, _said_end)


def _said(run: Path, name: str, what: Callable[[pa.Schema], T]) -> T | None:
    try:
        with (
            guarded.opened(guarded.below(run, name), LARGEST_SEGMENT) as file,
            pa.ipc.open_stream(pa.PythonFile(file, "r"), options=_READ) as reader,
        ):
            return what(reader.schema)
    except (pa.ArrowException, ValueError, OSError):
        return None


def segment_blocks(
    data: bytes, name: str, first_index: int, damage: list[str], columns: Collection[str] = COLUMNS
) -> Iterator[pa.Table]:
    """Yield the rows of a segment with these columns, indexed from ``first_index`` on, some at a time. ``damage`` gets
    the sentences of its lines, and one for a segment that is none, whose rows are left out from there on."""
    rows, names = 0, [name for name in COLUMNS if name in columns]
    wanted = [place for place, name in enumerate(_SCHEMA.names) if name in names] or [0]
    options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=wanted)
    try:
        _refuse_large(data)
        with pa.ipc.open_stream(pa.BufferReader(data), options=options) as reader:
            if reader.schema != pa.schema([_SCHEMA.field(place) for place in wanted]):
                raise ValueError("it has other columns")
            damage += _sentences(reader.schema)
            for batch in reader:
                batch.validate(full=True)
                if any(column.null_count for column in batch.columns):
                    raise ValueError("a row lacks something")
                yield _numbered(batch, first_index + rows, names)
                rows += batch.num_rows
            if rows != _said_rows(reader.schema):
                raise ValueError(f"it has {rows:,} rows, and says that they are {_said_rows(reader.schema):,}")
    except MemoryError:
        raise
    except (pa.ArrowException, ValueError, OSError, RecursionError) as error:
        damage.append(f"{name} is no segment of a trace: {error}; what is missing of its rows is left out")


def _numbered(batch: pa.RecordBatch, first_index: int, names: Sequence[str]) -> pa.Table:
    rows = batch.num_rows
    made = {
        "index": pa.array(np.arange(first_index, first_index + rows)),
        "kind": pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([str(Kind.TRACE)])),
    }
    arrays = [made[name] if name in made else batch[name] for name in names]
    return pa.Table.from_arrays(arrays, schema=pa.schema([SCHEMA.field(name) for name in names]))


def _refuse_large(data: bytes) -> None:
    found = extent(data)
    size = max(found.size, found.rows * _WIDTH * len(COLUMNS))
    if size > MOST_BATCH:
        raise ValueError(f"it becomes {size:,} bytes; at most {MOST_BATCH:,} are decoded")


def _said_rows(schema: pa.Schema) -> int:
    rows = int((schema.metadata or {}).get(_ROWS, b"0"))
    if not 0 <= rows <= MOST_ROWS:
        raise ValueError(f"no segment has {rows} rows")
    return rows


def _said_end(schema: pa.Schema) -> Place:
    said = json.loads((schema.metadata or {}).get(_END, b"null"))
    if guarded.misfit(said, {"offset": int, "lines": int, "headers": [str]}) or min(said["offset"], said["lines"]) < 0:
        raise ValueError("it doesn't say where its lines end")
    return Place(said["offset"], said["lines"], tuple(said["headers"]))


def _sentences(schema: pa.Schema) -> list[str]:
    given = json.loads((schema.metadata or {}).get(_DAMAGE, b"[]"))
    if not isinstance(given, list):
        raise ValueError("what it says of its lines is not a list")
    return [str(sentence) for sentence in given]
