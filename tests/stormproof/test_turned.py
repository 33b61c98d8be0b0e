"""The verdict of a run is the same whenever the lines of its traces became segments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos.history import directory as store
from chaos.history import manifest
from chaos.history.seal_traces import seal_traces
from chaos.history.verdict_json import verdict_json
from chaos.judging.outcome import judge
from chaos.judging.run import examine_run
from chaos.verdict import Engine
from tests.chaos.history.runs import make_large, turn
from tests.stormproof.growing import Growing
from tests.stormproof.small_runs import planted

#: So many bytes of lines become a segment.
PIECE_BYTES = 2_000


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(planted(tmp_path_factory.mktemp("planted")).directory)


def _never(run: Growing) -> None:
    run.whole()


def _afterwards(run: Growing) -> None:
    run.whole()
    seal_traces(run.directory)


def _meanwhile(run: Growing) -> None:
    made = sum(turn(run.directory, PIECE_BYTES) for _ in run.pieces(len(run.rows) // 8))
    assert made > 5


def _meanwhile_and_afterwards(run: Growing) -> None:
    _meanwhile(run)
    seal_traces(run.directory)


WHEN: dict[str, Callable[[Growing], None]] = {
    "never": _never,
    "afterwards": _afterwards,
    "meanwhile": _meanwhile,
    "meanwhile and afterwards": _meanwhile_and_afterwards,
}


def judged(run: Path) -> dict[str, Any]:
    verdict = verdict_json(judge([examine_run(run)], engine=Engine.LOCAL, write=False)[0])
    return {name: value for name, value in verdict.items() if name not in ("run", "seconds", "engine")}


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("most", [1 << 20, 500])
def test_the_verdict_does_not_depend_on_when_lines_became_segments(
    recorded: Path, tmp_path: Path, most: int, ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of runs that have ended, and of ones whose harness was killed."""
    make_large(monkeypatch, most, 200)
    found, segments = [], []
    for when, do in WHEN.items():
        (tmp_path / when).mkdir()
        run = Growing(recorded, tmp_path / when / "run", processes=True)
        do(run)
        if ended:
            run.end()
        found.append(judged(run.directory))
        segments.append(len(store.sealed_segments(manifest.read(run.directory), "traces/broker-0.jsonl")))
    assert found[0]["verdict"] == "INVALID" and found[0]["digest"] and all(one == found[0] for one in found)
    assert segments[0] == 0 and segments[2] > 1
