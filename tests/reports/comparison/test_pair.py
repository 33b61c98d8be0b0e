"""Two runs side by side: what clients got, and where histories part."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from chaos.history.directory import write_meta
from chaos.history.history import History
from chaos.history.recorder import Recorder
from reports.comparison.measures import Calls, measure
from reports.comparison.pair import pair

SECOND, MS = 1_000_000_000, 1_000_000
META = {"name": "storm", "seed": 1, "deployment": "sim", "state": "finished", "mutant": ""}
#: Sends: the queue, when it was asked (in seconds of the load), how long it took (in ms), and how it ended.
SENDS = [(0, 1.0, 10, "ok"), (1, 2.0, 30, "ok"), (0, 3.0, 20, "info"), (0, 9.0, 20, "ok"), (1, 7.0, 10, "ok")]


def recorded(run: Path, *, sends: list[tuple[int, float, int, str]] = SENDS, **meta: object) -> Path:
    run.mkdir()
    recorder = Recorder(run, lambda: 0)
    recorder.record("harness", time_ns=100 * SECOND, f="phase", value={"phase": "load"})
    for queue, at_s, ms, end in sends:
        asked = 100 * SECOND + int(at_s * SECOND)
        op = recorder.record("op", time_ns=asked, f="send", type="invoke", process="producer-0.0", queue=queue)
        told = {"op": op, "queue": queue, "type": end, "process": "producer-0.0"}
        recorder.record("op", time_ns=asked + ms * MS, f="send", **told)
    recorder.record("harness", time_ns=110 * SECOND, f="phase", value={"phase": "heal"})
    op = recorder.record("op", time_ns=111 * SECOND, f="send", type="invoke", process="probe.0", queue=0)
    recorder.record("op", time_ns=112 * SECOND, f="send", type="ok", process="probe.0", queue=0, op=op)
    recorder.close()
    write_meta(run, {**META, **meta})
    return run


def test_only_what_workloads_did_during_the_load_is_measured(tmp_path: Path) -> None:
    found = measure(History.open(recorded(tmp_path / "a")))
    assert found.acknowledged == 0.8
    assert found.longest_gap_s == 8.01  # of queue 0, from 1.01 s to 9.02 s
    assert found.calls == {"send": Calls(ended=5, ok=4, p50_ms=15.0, p99_ms=29.7, max_ms=30.0)}


def test_a_run_in_which_nobody_wrote_has_no_availability(tmp_path: Path) -> None:
    found = measure(History.open(recorded(tmp_path / "a", sends=[])))
    assert (found.acknowledged, found.longest_gap_s, dict(found.calls)) == (None, None, {})


def test_simulated_histories_part_at_the_first_row_that_differs(tmp_path: Path) -> None:
    later = [*SENDS[:2], (0, 3.0, 21, "info"), *SENDS[3:]]
    a, b = recorded(tmp_path / "a"), recorded(tmp_path / "b", sends=later)
    found = pair(a, b)
    assert found.parting is not None and found.parting.row == 6
    assert [row.index for row in found.parting.before] == [3, 4, 5]
    assert [row.time_ns for row in (found.parting.a[0], found.parting.b[0])] == [103_020_000_000, 103_021_000_000]
    shutil.copytree(a, tmp_path / "copy")
    assert pair(a, tmp_path / "copy").identical is True


@pytest.mark.parametrize("harm", ["torn", "process"])
def test_histories_that_say_nothing_together_are_not_compared(tmp_path: Path, harm: str) -> None:
    a = recorded(tmp_path / "a")
    b = recorded(tmp_path / "b", deployment="process" if harm == "process" else "sim")
    if harm == "torn":
        (b / "history.arrows").write_bytes(b"")
    found = pair(a, b)
    assert found.identical is None and found.why and found.parting is None
    assert (found.b.measures is None, bool(found.b.damage)) == (harm == "torn", harm == "torn")
