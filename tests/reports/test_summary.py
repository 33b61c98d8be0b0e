"""Which bars of roles end with a fault: by what it was proven to do, never by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from chaos.history.history import History
from chaos.history.recorder import STREAM, Recorder
from reports import summary
from reports.operations import Sends
from reports.summary import summarise

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
        (bar,) = summarise(History.of(stream.read_all()), ()).roles
    assert bar.end_s == (2.0 if ends else 4.0)


def _one_by_one(sends: Sends, end_s: float) -> list[tuple[str, float, float]]:
    """The oracle: sends in order, with what each client waits for."""
    chosen = np.flatnonzero(~np.isnan(sends.latency_ms))
    since: dict[str, float] = {}
    bars = []
    for at in chosen[np.argsort(sends.second[chosen], kind="stable")].tolist():
        client, second = sends.clients[int(sends.client[at])], float(sends.second[at])
        asked = since.setdefault(client, second - float(sends.latency_ms[at]) / 1e3)
        if sends.ok[at]:
            bars.append((client, asked, second))
            del since[client]
    bars += [(client, asked, end_s) for client, asked in since.items()]
    return [
        (client, start, min(end, end_s))
        for client, start, end in sorted(bars)
        if min(end, end_s) - start > summary.OUTAGE_S
    ]


@pytest.mark.parametrize("seed", range(30))
def test_clients_without_service_are_those_found_one_by_one(seed: int) -> None:
    random = np.random.default_rng(seed)
    size = int(random.integers(0, 60))
    sends = Sends(
        second=np.sort(random.integers(0, 40, size) / 4.0),
        latency_ms=np.where(random.random(size) < 0.1, np.nan, random.integers(0, 3000, size)),
        ok=random.random(size) < 0.4,
        queue=np.zeros(size, np.int64),
        client=random.integers(0, 3, size),
        clients=["b", "a", "c"],
    )
    found = [(bar.lane, bar.start_s, bar.end_s) for bar in summary._client_outages(sends, 9.0)]
    assert found == _one_by_one(sends, 9.0)


@pytest.mark.parametrize("late_ns", [1 << 62, 1 << 50])
def test_a_row_may_claim_any_time(tmp_path: Path, late_ns: int) -> None:
    """A send that ended in a hundred years, with the end of the load after it, is drawn in a few pieces."""
    clock = iter((0, SECOND, 2 * SECOND, 3 * SECOND, late_ns, late_ns + 1, late_ns + 2))
    recorder = Recorder(tmp_path, lambda: next(clock))
    recorder.record("harness", f="phase", value={"phase": "load"})
    for _ in range(2):
        columns = {"f": "send", "process": "producer-0.0", "queue": 0, "message": 1}
        op = recorder.record("op", type="invoke", **columns)
        recorder.record("op", type="ok", op=op, **columns)
    recorder.record("harness", f="phase", value={"phase": "heal"})
    recorder.record("harness", f="end", value={})
    recorder.close()
    with pa.ipc.open_stream(tmp_path / STREAM) as stream:
        story = summarise(History.of(stream.read_all()), ())
    (throughput,) = story.throughput
    assert len(throughput.x) <= summary.MOST_PIECES
    assert [curve.x for curve in story.latency] == [[2.5, float(late_ns // SECOND) + 0.5]] * 3
    assert [curve.y[1] for curve in story.latency] == [(late_ns - 3 * SECOND) / 1e6] * 3
