"""The table of shrunk bugs: what is known is not done again, and what misses an aim is marked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import shrinking
from benchmarks.shrinking import KNOWN, known, medians, reached
from reference.mutants import MUTANTS


def told(operations: int, faults: int, seconds: float = 10.0) -> dict[str, Any]:
    sizes = {"faults": 7, "nodes": 8, "seconds": 45.0}
    return {
        "seed": 4,
        "found_by": 1,
        "stopped": "nothing more can be left out",
        "signature": {"law": "durability", "anomalies": ["lost"], "cause": "a change of masters"},
        "before": {"operations": 1000, **sizes},
        "after": {"operations": operations, **sizes, "faults": faults},
        "tried": 9,
        "seconds": seconds,
        "processor_s": seconds,
    }


@pytest.mark.parametrize(
    ("operations", "faults", "met"), [(200, 1, True), (201, 1, False), (5, 2, False), (5, 0, True)]
)
def test_an_aim_that_is_missed_is_marked(operations: int, faults: int, met: bool) -> None:
    result = told(operations, faults)
    assert reached(result) is met
    row = shrinking.row(MUTANTS[0], result)
    assert ("(!)" in row) is not met and f"{shrinking.scenario(MUTANTS[0])}, 1 |" in row


def test_the_medians_are_of_those_that_were_shrunk() -> None:
    line = medians([told(10, 1, 5.0), told(20, 1, 30.0), told(900, 1, 60.0)])
    assert line.startswith("2 of 3 meet the aims; medians: 98.0 % fewer operations, 30 s")
    assert medians([]) == "nothing was shrunk"


def test_only_what_the_same_code_found_is_known(tmp_path: Path) -> None:
    assert known(tmp_path, "a") is None
    (tmp_path / KNOWN).write_text(json.dumps({**told(5, 0), "code": "a"}), "utf-8")
    assert known(tmp_path, "a") is not None and known(tmp_path, "b") is None
    (tmp_path / KNOWN).write_text('{"seed": 1', "utf-8")
    assert known(tmp_path, "a") is None, "it was killed while it wrote"


def test_it_goes_on_where_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [one.name for one in MUTANTS[:3]]
    done: list[str] = []

    def measured(planted: Any, *arguments: object) -> dict[str, Any]:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(planted.name)
        return told(5, 0)

    monkeypatch.setattr(shrinking, "measured", measured)
    monkeypatch.setattr(shrinking, "code_version", lambda root: "a")
    monkeypatch.setattr("sys.argv", ["shrinking", *names, "--out", str(tmp_path)])
    assert shrinking.main() == 130
    assert done == names[:2]
    done.clear()
    assert shrinking.main() == 0
    assert done == names[2:]
    assert "3 of 3 meet the aims" in capsys.readouterr().out
