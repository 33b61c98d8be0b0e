"""The traces of a longer run: the lines of the load again and again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.longer.moving import HASHED, Moves, Value, goes_on
from chaos.history import manifest
from chaos.history.trace_lines import COLUMNS, COMMON, HEADER, Encoder, Form
from chaos.history.traces import read_traces

_to_json = json.JSONEncoder(separators=(",", ":")).encode


def traced_lines(run: Path) -> dict[str, bytes]:
    """Return what each node of a run has traced, as the lines that it wrote."""
    blocks, damage = read_traces(run, 0, manifest.read(run))
    assert not damage, damage
    encoders: dict[str, Encoder] = {}
    lines: dict[str, list[str]] = {}
    for row in pa.concat_tables(blocks).select(["kind", *COMMON, *COLUMNS, "value"]).to_pylist():
        row["value"] = json.loads(row["value"] or "{}")
        encoder = encoders.setdefault(row["node"], Encoder())
        lines.setdefault(row["node"], []).append(encoder.encode(row))
    return {node: "".join(mine).encode() for node, mine in lines.items()}


class NodeTrace:
    """What one node traced before the load, in it, and after it. Every line must be typed."""

    def __init__(self, lines: bytes, begin_ns: int, end_ns: int) -> None:
        self.forms: dict[int, Form] = {}
        self.headers: list[bytes] = []
        self.before, self.load, self.after = list[list[bytes]](), list[list[bytes]](), list[list[bytes]]()
        for line in lines.splitlines(keepends=True):
            if line.startswith(HEADER):
                form = Form.parse(line)
                assert form.number not in self.forms, "a node that lived several times"
                self.forms[form.number] = form
                self.headers.append(line)
                continue
            pieces = line.rstrip(b"\n").split(b"\t")
            time_ns = int(pieces[1])
            (self.before if time_ns < begin_ns else self.load if time_ns < end_ns else self.after).append(pieces)
        steps = [int(pieces[2]) for pieces in self.load]
        self.steps = max(steps, default=0) - min(steps, default=0) + 1


class Lines:
    """Lines of one trace, to be written with other numbers."""

    def __init__(self, trace: NodeTrace, lines: list[list[bytes]]) -> None:
        self._trace, self._forms = trace, [int(pieces[0]) for pieces in lines]
        width = 1 + len(COLUMNS)
        integers = np.array([[int(piece) for piece in pieces[1:width]] for pieces in lines], dtype=np.int64)
        integers = integers.reshape(-1, len(COLUMNS))
        self.numbers = {name: integers[:, place] for place, name in enumerate(COLUMNS)}
        self.f = [str(trace.forms[form].common["f"]) for form in self._forms]
        self._hashed = np.array([f in HASHED for f in self.f], dtype=np.bool_)
        self._pieces = [b"\t".join(pieces[width:]).decode() for pieces in lines]
        self.values = [self._value(form, pieces[width:]) for form, pieces in zip(self._forms, lines, strict=True)]
        #: The form of a row of the store that holds changes.
        self._changes = next((one for one in trace.forms.values() if "changes" in one.keys), None)

    def _value(self, number: int, pieces: list[bytes]) -> Value:
        form = self._trace.forms[number]
        return {key: json.loads(piece) for key, piece in zip(form.keys, pieces, strict=True)}

    def written(self, moves: Moves, node: str, copy: int, more_ns: int = 0) -> Iterator[str]:
        columns = {**self.numbers, **moves.columns(self.numbers, self._hashed, copy)}
        columns["step"] = self.numbers["step"] + copy * moves.steps[node]
        columns["time_ns"] = columns["time_ns"] + more_ns
        numbers = zip(*(columns[name].tolist() for name in COLUMNS), strict=True)
        queues = self.numbers["queue"].tolist()
        for at, row in enumerate(numbers):
            form, pieces, f = self._forms[at], self._pieces[at], self.f[at]
            if copy and any(moves.is_moved(f, key) for key in self._trace.forms[form].keys):
                form, pieces = self._moved(moves, at, queues[at], copy)
            numbers_of_it = "\t".join(map(str, row))
            yield f"{form}\t{numbers_of_it}\t{pieces}\n" if pieces else f"{form}\t{numbers_of_it}\n"

    def _moved(self, moves: Moves, at: int, queue: int, copy: int) -> tuple[int, str]:
        value, form = self.values[at], self._trace.forms[self._forms[at]]
        if "content" in value and value.get("outcome") == "applied":
            assert self._changes is not None and len(value["content"]["segments"]) == 1
            form, value = self._changes, goes_on(moves, value, queue, copy)
        else:
            value = moves.value(self.f[at], value, queue, copy)
        return form.number, "\t".join(_to_json(value[key]) for key in form.keys)
