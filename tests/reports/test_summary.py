"""Which bars of roles end with a fault: by what it was proven to do, never by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from chaos.history.recorder import STREAM, Recorder
from reports.summary import tell

SECOND = 1_000_000_000
CRASH: dict[str, Any] = {"takes_down": ["broker-0"], "may_crash": ["broker-0"]}


@pytest.mark.parametrize(
    ("effects", "proven", "ends"),
    [
        (CRASH, CRASH, True),
        (CRASH, {"takes_down": ["broker-0"]}, True),
        (CRASH, {"may_crash": ["broker-0"]}, False),
        (CRASH, {}, False),
        ({"takes_down": ["broker-0"]}, {"takes_down": ["broker-0"]}, False),
        (None, None, False),
    ],
)
@pytest.mark.parametrize("name", ["kill", "slow_disk", "gremlin"])
def test_a_role_ends_with_the_life_that_a_fault_was_proven_to_end(
    tmp_path: Path, name: str, effects: dict[str, Any] | None, proven: dict[str, Any] | None, ends: bool
) -> None:
    clock = iter(range(0, 10**12, SECOND))
    recorder = Recorder(tmp_path, lambda: next(clock))
    recorder.record("harness", f="phase", value={"phase": "load"})
    role = {"node": "broker-0", "f": "role", "epoch": 1, "value": {"role": "master"}}
    recorder.record_trace({"incarnation": 1, "step": 1, "time_ns": SECOND, **role})
    planned = {"targets": ["broker-0"]} | ({"effects": effects} if effects is not None else {})
    done = {"phase": "inject", "proof": {}} | ({"proven": proven} if proven is not None else {})
    for type_, value in (("invoke", planned), ("ok", done), ("ok", {"phase": "undo", "effective": True})):
        recorder.record("fault", f=name, process="fault-0", type=type_, value=value)
    recorder.record("harness", f="end", value={})
    recorder.close()
    with pa.ipc.open_stream(tmp_path / STREAM) as stream:
        (bar,) = tell(stream.read_all(), ()).roles
    assert bar.end_s == (2.0 if ends else 4.0)
