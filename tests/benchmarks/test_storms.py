"""Runs of experiments on real deployments: what is known is not run again, and what differs is told."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks import storms
from benchmarks.storms import Storm, problems, read, table


def storm(verdict: str, on: str = "netns", seed: int = 0, **more: object) -> Storm:
    return Storm(experiment="calm", deployment=on, seed=seed, verdict=verdict, **more)  # type: ignore[arg-type]


def test_only_what_is_not_known_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(storms, "code_version", lambda root: "code")
    done: list[tuple[str, int]] = []

    def run(file: Path, on: str, seed: int, folder: Path, inventory: Path | None) -> Storm:
        done.append((on, seed))
        return storm("UNKNOWN" if seed else "VALID", on, seed)

    monkeypatch.setattr(storms, "run", run)
    state = tmp_path / "state.jsonl"
    words = ["calm.yaml", "--on", "netns", "--on", "process", "--seeds", "0..1", "--state", str(state)]
    assert storms.main(words) == 1 and done == [("netns", 0), ("process", 0), ("netns", 1), ("process", 1)]
    state.write_text(state.read_text()[:-20] + "\n")  # killed in the middle of a line
    for more, again in (([], [("process", 1)]), (["--again"], [("netns", 1), ("process", 1)])):
        done.clear()
        assert storms.main([*words, *more]) == 1 and done == again
    out = capsys.readouterr().out
    assert "| calm | 1 UNKNOWN, 1 VALID | 1 UNKNOWN, 1 VALID | 0 | none |" in out
    assert "calm, seed 1, on process: UNKNOWN" in out and "4 of 4 runs" in out
    with state.open("a") as file:
        file.write(json.dumps({"code": "other", **asdict(storm("INVALID", seed=7))}) + "\n")
    assert sorted(read(state, "code")) == [("calm", on, seed) for on in ("netns", "process") for seed in (0, 1)]


def test_no_run_is_begun_when_the_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(storms, "run")
    assert storms.main(["calm.yaml", "--on", "sim", "--for-s", "0", "--state", str(tmp_path / "state.jsonl")]) == 0


def test_what_deployments_differ_in_is_told() -> None:
    assert list(problems([storm("VALID"), storm("VALID", "process"), storm("INVALID", seed=1)])) == []
    assert list(problems([storm("VALID"), storm("INVALID", "process")])) == [
        "calm, seed 0: VALID on netns, INVALID on process"
    ]
    assert list(problems([storm("REFUSED", why=("no netem",), load=2.0)])) == [
        "calm, seed 0, on netns: REFUSED (load 2) no netem"
    ]


def test_operations_and_faults_are_summed() -> None:
    rows = list(table([storm("VALID", operations=900, faults={"kill": 1}), storm("VALID", seed=1, operations=100)]))
    assert rows[-1] == "| calm | 2 VALID | 1,000 | 1 kill |"
