"""The rows of one run as typed columns that are read several times: in memory, or in a file if they are many."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO

import numpy as np
import pyarrow as pa

from chaos.errors import BadInput, MachineError
from chaos.history.columns import COLUMNS, WORDS
from chaos.history.ends import without, without_beginnings
from chaos.history.parted import numbers
from chaos.history.stream import SCHEMA

#: Rows of a run that are held in memory: about 200 MB.
MOST_ROWS = 1 << 20
#: So few rows never take more than this, nor does what is written at once.
MOST_HELD = 2 << 30
#: Words as numbers of a dictionary that all blocks share.
_CODED = pa.schema([field.with_type(pa.int32()) if field.name in WORDS else field for field in SCHEMA])


class Spool:
    """Takes blocks of rows (of :data:`SCHEMA`) and gives them back in their order, as often as anybody asks, without
    the beginnings of operations that their ends repeat (:mod:`chaos.history.ends`).

    Use it as a context manager: its file, on the disk of the run, has no name and is gone at the end, however the
    process ends. Raises :class:`MachineError` when the disk is full, :class:`BadInput` for a few rows that take
    gigabytes."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._file: IO[bytes] | None = None
        self._is_whole = False
        self._held: list[pa.Table] = []
        self._texts: dict[str, dict[str, int]] = {name: {} for name in WORDS}
        self._writer: pa.RecordBatchFileWriter | None = None
        self.num_rows = self._size = 0
        self._late: list[np.ndarray] = []
        self._left_out = np.empty(0, np.int64)
        #: Whether the rows are numbered from 0 on, without a gap.
        self.in_order = True

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._forget()

    def _forget(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # a full disk, which was reported before
                self._file.close()
        self._writer = self._file = None

    def add(self, block: pa.Table) -> None:
        index = block["index"].to_numpy()
        dense = np.arange(self.num_rows, self.num_rows + len(index))
        self.in_order = self.in_order and bool(np.array_equal(index, dense))
        self.num_rows += len(index)
        block, late = without_beginnings(block)
        self._late.append(late)
        if self._writer is None:
            self._held.append(block)
            self._size += block.nbytes
            if self._size > MOST_HELD:
                raise BadInput(
                    f"{self._run}: its first {self.num_rows:,} rows take more than {MOST_HELD:,} bytes; so few may not"
                    " take more"
                )
            if self.num_rows <= MOST_ROWS:
                return
            with self._written():
                options = pa.ipc.IpcWriteOptions(compression="lz4")
                self._file = TemporaryFile(dir=self._run)  # noqa: SIM115 (closed when the spool is)
                self._writer = pa.ipc.new_file(pa.PythonFile(self._file, "w"), _CODED, options=options)
        else:
            self._held = [block]
        with self._written():
            while self._held:
                self._write(self._held.pop(0))

    @contextmanager
    def _written(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise MachineError(f"cannot write the rows in {self._run}: {error.strerror or error}") from error

    def start_over(self, table: pa.Table) -> None:
        """Hold these rows, and none besides."""
        self._forget()
        self._held, self._late = [without_beginnings(table)[0]], []
        self.num_rows, self.in_order = table.num_rows, True

    def whole(self) -> pa.Table | None:
        """All rows, if they are held in memory."""
        if self._writer is not None:
            return None
        self._leave_out()
        if len(self._held) > 1:
            self._held = [_joined(self._held)]
        return self._held[0] if self._held else SCHEMA.empty_table()

    def refine(self, chosen: Callable[[pa.Table], pa.Table]) -> None:
        """Of rows that are held in memory keep the chosen ones of each block; those in a file stay all."""
        if self._writer is None:
            self._leave_out()
            for number, block in enumerate(self._held):
                self._held[number] = chosen(block)
            self.num_rows = sum(block.num_rows for block in self._held)

    def blocks(
        self, columns: Collection[str] = COLUMNS, *, backwards: bool = False, begun: bool = False
    ) -> Iterator[pa.Table]:
        """Yield the rows with these columns, some at a time; ``backwards``: the last block first; ``begun``: with the
        beginnings whose ends come in later blocks, for who looks at one block after the other. All blocks of a file
        have the same dictionaries. No block may be added any more."""
        wanted = [name for name in COLUMNS if name in columns]
        self._leave_out()
        if self._writer is None or self._file is None:
            held = self._held if not begun else [pa.concat_tables(self._held)] if self._held else []
            yield from (block.select(wanted) for block in held[:: -1 if backwards else 1])
            return
        if not self._is_whole:  # to close it again would write another footer
            with self._written():
                self._writer.close()
                self._file.flush()
            self._is_whole = True
        read = [name for name in COLUMNS if name in wanted or name == "index"]
        texts = {name: pa.array([*self._texts[name]], pa.string()) for name in WORDS if name in read}
        fields = [COLUMNS.index(name) for name in read]
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        reader = pa.ipc.open_file(pa.PythonFile(self._file, "r"), options=options)
        for number in range(reader.num_record_batches)[:: -1 if backwards else 1]:
            batch = reader.get_batch(number)
            arrays = [
                pa.DictionaryArray.from_arrays(batch[name], texts[name]) if name in texts else batch[name]
                for name in read
            ]
            block = pa.Table.from_arrays(arrays, read)
            yield (block if begun else without(block, self._left_out)).select(wanted)

    def _leave_out(self) -> None:
        """Leave out the beginnings that came in earlier blocks than their ends."""
        late, self._late = self._late, []
        if not late:
            return
        self._left_out = numbers.distinct(np.concatenate([self._left_out, *late]))
        if self._writer is None:
            self._held = [without(block, self._left_out) for block in self._held]

    def _write(self, block: pa.Table) -> None:
        assert self._writer is not None
        for batch in block.to_batches():
            arrays = [self._coded(name, batch[name]) if name in WORDS else batch[name] for name in COLUMNS]
            self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=_CODED))

    def _coded(self, name: str, words: pa.DictionaryArray) -> pa.Array:
        known = self._texts[name]
        codes = np.array([known.setdefault(text, len(known)) for text in words.dictionary.to_pylist()], np.int32)
        return pa.array(codes, pa.int32()).take(words.indices)


def _joined(blocks: list[pa.Table]) -> pa.Table:
    """All of them, none of which is left: one column after the other is put together, so that hardly a row is held
    twice."""
    table = pa.concat_tables(blocks).unify_dictionaries()
    blocks.clear()
    names, columns = table.column_names, []
    for name in names:
        columns.append(table.select([name]).combine_chunks()[name])
        table = table.drop_columns([name])
    return pa.Table.from_arrays(columns, names)
