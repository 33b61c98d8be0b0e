"""The table of runs of Apache RocketMQ: what is noted, what is left to run, and what the cells say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import rocketmq
from benchmarks.rocketmq import Note


def note(**changed: Any) -> Note:
    return Note(
        **{
            "experiment": "pauses",
            "version": "5.5.0",
            "seed": 0,
            "started": "2026-11-22T20:00:00+00:00",
            "verdict": "VALID",
            "laws": {"durability": "VALID", "roles": "NOT APPLICABLE", "order": "UNKNOWN"},
            "anomalies": {},
            "acked": 10,
            "without_ms": 2_000,
            **changed,
        }
    )


def test_what_is_noted_is_not_run_again_and_controls_run_more_often(tmp_path: Path) -> None:
    rocketmq.append(path := tmp_path / "notes", [note(), note(version="5.3.3", seed=1)])
    notes = rocketmq.read_notes(path)
    assert notes == [note(), note(version="5.3.3", seed=1)]
    jobs = rocketmq.wanted(["control", "pauses"], 2, 3, notes)
    assert jobs == [("control", 0), ("control", 1), ("pauses", 1), ("control", 2)]


def test_cells_count_the_runs_that_a_law_judged() -> None:
    lost = note(seed=1, verdict="INVALID", laws={"durability": "INVALID"}, anomalies={"lost": 2}, without_ms=9_000)
    head, _, row = rocketmq.table([note(), lost]).splitlines()
    assert "roles" not in head
    assert row == "| `pauses` | 5.5.0 | 2 | 1/2 | ? | lost 2 | 6 / 9 |"


def test_the_table_stands_between_its_marks() -> None:
    page = rocketmq.with_table(f"a\n{rocketmq.BEGIN}old\n{rocketmq.END}b\n", "new\n")
    assert page == f"a\n{rocketmq.BEGIN}\nnew\n\n{rocketmq.END}b\n"
    with pytest.raises(ValueError, match="must hold the lines"):
        rocketmq.with_table("nothing", "new\n")


def test_the_page_is_made_from_the_notes() -> None:
    page = rocketmq.PAGE.read_text("utf-8")
    assert rocketmq.with_table(page, rocketmq.table(rocketmq.read_notes(rocketmq.NOTES))) == page


def test_every_experiment_names_its_version() -> None:
    for name in rocketmq.names():
        assert rocketmq.version_in((rocketmq.EXPERIMENTS / f"{name}.yaml").read_text("utf-8"))
