"""The null system answers all that the harness's clients ask of it, and what they did is counted."""

from __future__ import annotations

import pytest

from benchmarks import null_system
from benchmarks.null_system import measure


def test_every_send_is_answered_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(null_system, "WARM_S", 0.2)
    bench = measure(4, 0.5)
    assert set(bench.outcomes) == {"ok"} and bench.outcomes["ok"] == len(bench.latencies_s) > 20
    assert 0 < bench.own_s < bench.all_s
    assert len(bench.recorder) > 2 * len(bench.latencies_s), "an invocation and a completion of each"
    assert sum(bench.shared["sequence"].values()) >= len(bench.latencies_s)
