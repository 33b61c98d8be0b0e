"""A recorded run that is recorded again, a piece at a time, as a harness does it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chaos.history import directory as store
from chaos.history.columns import REPEATED, VALUE
from chaos.history.history import History
from chaos.history.manifest import Manifest
from chaos.history.recorder import Recorder
from chaos.shell.trace_file import TraceFile

#: What a row of a trace file does not tell.
GIVEN = ("index", "kind", "op")


class Growing:
    """``directory`` is a run that goes on as long as the process ``pid`` lives. :meth:`pieces` records more of it each
    time that it is asked for the next piece; with ``processes`` nodes trace into files of their own."""

    def __init__(self, recorded: Path, directory: Path, *, pid: int = 0, processes: bool = False) -> None:
        table, damage = History.open(recorded).recorded()
        assert not damage
        self.rows: list[dict[str, Any]] = table.to_pylist()
        self.directory = directory
        self._processes = processes
        self._files: dict[str, TraceFile] = {}
        self._place: dict[int, int] = {}
        directory.mkdir()
        meta = store.read_meta(recorded).json
        changes: dict[str, Any] = {"deployment": "process"} if processes else {}
        changes |= {"state": store.RUNNING, "pid": pid or os.getpid()}
        (directory / store.EXPERIMENT).write_bytes((recorded / store.EXPERIMENT).read_bytes())
        with Manifest(directory) as manifest:
            manifest.seal_files([store.EXPERIMENT])
        store.write_meta(directory, {name: meta[name] for name in meta if name != "rows"} | changes)
        self._recorder = Recorder(directory, lambda: 0, batch_rows=1 << 20, batch_ns=None)

    def pieces(self, rows: int) -> Iterator[int]:
        """Record so many rows each time; how many have been recorded."""
        for number, row in enumerate(self.rows):
            if number and number % rows == 0:
                self._flush()
                yield number
            self._record(row)
        self._flush()
        yield len(self.rows)

    def whole(self) -> Path:
        """Record what is left."""
        for _ in self.pieces(1 << 40):
            pass
        return self.directory

    def end(self) -> None:
        """The run ends, as a harness ends it that has come to its end."""
        self._recorder.close()
        with Manifest(self.directory) as manifest:
            manifest.seal_files(store.line_files(self.directory))
        store.update_meta(self.directory, state="finished", rows=len(self._recorder))

    def _record(self, row: dict[str, Any]) -> None:
        value = json.loads(row[VALUE]) if row[VALUE] else {}
        if self._processes and row["kind"] == "trace":
            node = row["node"]
            if node not in self._files:
                self._files[node] = TraceFile(self.directory / store.TRACES / f"{node}.jsonl")
            told = {name: row[name] for name in row if name not in (*GIVEN, VALUE) and row[name] not in (-1, "")}
            self._files[node].add({**told, VALUE: value})
            return
        columns = {name: row[name] for name in row if name not in (*GIVEN, *REPEATED, VALUE)}
        self._place[row["index"]] = self._recorder.record(
            row["kind"], **columns, op=self._place.get(row["op"], -1), value=value
        )

    def _flush(self) -> None:
        self._recorder.flush()
        for file in self._files.values():
            file.write()
