"""The file of a node's trace rows."""

from __future__ import annotations

import os
from pathlib import Path

from chaos.shell.trace_file import TraceFile


def test_rows_are_appended_step_by_step_and_a_torn_last_line_goes(tmp_path: Path) -> None:
    path = tmp_path / "run" / "trace"
    first = TraceFile(path)
    first.add({"f": "a"})
    assert path.read_bytes() == b""
    first.write()
    path.write_bytes(path.read_bytes() + b'{"f":"to')
    second = TraceFile(path)
    second.add({"f": "b"})
    second.write()
    assert path.read_bytes() == b'{"f":"a"}\n{"f":"b"}\n'


def test_rows_that_nobody_wants_are_not_even_encoded() -> None:
    trace = TraceFile(Path(os.devnull))
    trace.add({"f": object()})
    trace.write()
