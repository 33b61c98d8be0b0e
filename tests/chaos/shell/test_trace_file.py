"""The file of a node's trace rows."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from chaos.history.trace_lines import MOST_FORMS, Decoder, Encoder
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


NUMBERS = ("time_ns", "step", "epoch", "queue", "offset", "position", "message", "hash")
ROW = dict.fromkeys(NUMBERS, 1) | {
    "kind": "trace",
    "node": "broker-0",
    "incarnation": 1,
    "f": "append",
    "value": {"size": 5},
}


def decoded(path: Path) -> list[object]:
    decoder = Decoder()
    return [row for line in path.read_bytes().splitlines() if (row := decoder.decode(line)) is not None]


def test_whole_rows_are_typed_and_each_life_says_how(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    whole = {key: value for key, value in ROW.items() if key != "kind"}
    for life in (1, 2):
        trace = TraceFile(path)
        for step in range(3):
            trace.add({**ROW, "incarnation": life, "step": step})
        trace.write()
        with path.open("ab") as file:
            file.write(b"0\t1\t2\t1\t1\t1")  # killed in mid-write
    assert path.read_bytes().count(b'={"form":0') == 2
    TraceFile(path)
    assert decoded(path) == [{**whole, "incarnation": life, "step": step} for life in (1, 2) for step in range(3)]


@pytest.mark.parametrize(
    "change",
    [{"kind": "op"}, {"value": None}, {"value": '{"a":1}'}, {"value": {1: 2}}, {"extra": 1}, {"hash": None}, {"f": []}],
)
def test_a_row_that_has_no_form_is_json(change: dict[str, object]) -> None:
    row = {**ROW, **change}
    assert json.loads(Encoder().encode(row)) == json.loads(json.dumps(row))


def test_a_life_has_no_more_than_so_many_forms() -> None:
    encoder = Encoder()
    lines = "".join(encoder.encode({**ROW, "value": {f"k{n}": n}}) for n in range(MOST_FORMS + 50))
    assert lines.count("\n{") == 50 and lines.count("=") == MOST_FORMS


def test_a_line_that_a_full_disk_has_cut_short_is_never_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace"
    trace = TraceFile(path)
    trace.add(ROW)
    trace.write()
    write, left = os.write, [22]

    def fill(handle: int, data: bytes) -> int:
        if not left[0]:
            raise OSError(28, "No space left on device")
        some, left[0] = data[: left[0]], 0
        return write(handle, some)

    trace.add({**ROW, "value": {"size": 123456}})
    monkeypatch.setattr(os, "write", fill)
    with pytest.raises(OSError, match="No space"):
        trace.write()
    monkeypatch.undo()
    trace.add({**ROW, "step": 9})
    trace.write()
    first, cut, *rest = path.read_bytes().split(b"\n")[1:-1]
    assert first.endswith(b"\t5") and cut.endswith(b"\t1234!")
    assert len(rest) == 2 and rest[0].startswith(b'={"form":0')
    decoder = Decoder()
    for line in path.read_bytes().splitlines()[:2]:
        decoder.decode(line)
    with pytest.raises(ValueError, match="Extra data"):
        decoder.decode(cut)
