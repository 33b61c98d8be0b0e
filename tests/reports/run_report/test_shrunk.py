"""The report of a run that another was made smaller to has both side by side; nothing else has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import reports
from chaos.history.directory import write_meta, write_verdict
from chaos.verdict import Validity
from reports.run_report.shrunk import SUMMARY, shrunk
from tests.reports.run_report.test_html import HOSTILE, LOST, Page, judged, record_run

SIZE = {"operations": 2761, "messages": 2000, "faults": 3, "nodes": 8, "seconds": 20.0}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The small run, beside what the search has left, beside the larger run."""
    (tmp_path / "big").mkdir()
    (tmp_path / "big" / "experiment.yaml").write_text(f"name: big # {HOSTILE}\n")
    run = tmp_path / "big-shrunk" / "small"
    run.mkdir(parents=True)
    (run / "experiment.yaml").write_text("name: small\n")
    tell(run)
    return run


def tell(run: Path, **others: Any) -> None:
    told = {
        "run": "/elsewhere/big", "recorded": f"/elsewhere/big-shrunk/{run.name}", "before": SIZE,
        "after": {**SIZE, "operations": 8, "faults": 1}, "any": [f"rate_per_s of queue {HOSTILE}"],
        "signature": {"law": "durability", "anomalies": ["lost"], "cause": HOSTILE},
    }  # fmt: skip
    (run.parent / SUMMARY).write_text(json.dumps(told | others))


def test_both_runs_stand_side_by_side(small: Path) -> None:
    record_run(small)
    write_meta(small, {"run": "small", "seed": 7})
    write_verdict(small, judged(Validity.INVALID, (LOST,)))
    page = Page(reports.render(small).read_text("utf-8"))
    words = " ".join(" ".join(page.text).split())
    assert "This run was made from big by leaving out what its failure does not need." in words
    assert "operations 2,761 8" in words and "seconds 20 s 20 s" in words
    assert words.index("name: big") < words.index("name: small")
    assert "every other value that was tried of: rate_per_s of queue" in words
    assert page.tags.count("script") == 2 and not {"img", "iframe"} & set(page.tags)


def test_without_its_directory_the_larger_run_is_still_measured(small: Path) -> None:
    (small.parent.parent / "big" / "experiment.yaml").unlink()
    found = shrunk(small)
    assert found is not None and found.experiments == ("", "name: small\n") and len(found.sizes) == 5


@pytest.mark.parametrize(
    "others",
    [
        {"recorded": "another"}, {"before": None}, {"before": {"operations": 1}}, {"after": {**SIZE, "nodes": "many"}},
        {"signature": []}, {"signature": "x"}, {"any": 5},
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_left_out(small: Path, others: dict[str, Any]) -> None:
    tell(small, **others)
    assert shrunk(small) is None


def test_another_run_has_no_such_part(tmp_path: Path) -> None:
    assert shrunk(tmp_path) is None
    (tmp_path.parent / SUMMARY).write_text("[]")
    assert shrunk(tmp_path) is None
    (tmp_path.parent / SUMMARY).unlink()
