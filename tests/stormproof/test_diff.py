"""``stormproof diff``: what differs is marked, and a history that differs shows its rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaos.verdict import Validity
from stormproof import cli
from tests.reports.comparison.test_pair import SENDS, recorded
from tests.reports.index.test_index import judged

GOLDEN = """\
  run         A      B
* name        a      b
  experiment  storm  storm
  deployment  sim    sim
  seed        1      1
* verdict     VALID  INVALID

  promise     A      B
* durability  VALID  INVALID

  violation  A  B
* lost       0  7

  during the load                        A                 B
* writes acknowledged                    80.00%            75.00%
  longest time without one (of a queue)  8.010 s           8.010 s
* send: ok of all                        4 of 5            3 of 4
* send: p50, p99, max in ms              15.0, 29.7, 30.0  20.0, 29.8, 30.0

the histories differ from row 9 on
         6      3.020 s  op send info         producer-0.0             op 5, queue 0
         7      9.000 s  op send invoke       producer-0.0             queue 0
         8      9.020 s  op send ok           producer-0.0             op 7, queue 0
A        9      7.000 s  op send invoke       producer-0.0             queue 1
A       10      7.010 s  op send ok           producer-0.0             op 9, queue 1
A       11     10.000 s  harness phase                                   {"phase":"heal"}
B        9     10.000 s  harness phase                                   {"phase":"heal"}
B       10     11.000 s  op send invoke       probe.0                  queue 0
B       11     12.000 s  op send ok           probe.0                  op 10, queue 0
"""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    judged(recorded(tmp_path / "a"), Validity.VALID)
    judged(recorded(tmp_path / "b", sends=SENDS[:4]), Validity.INVALID)
    return tmp_path


def test_what_differs_is_marked(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli._run(["diff", "a", "b", "--out", str(runs)]) == 0
    told = capsys.readouterr().out
    assert "".join(f"{line.rstrip()}\n" for line in told.splitlines()) == GOLDEN


def test_programs_get_the_same_as_json(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli._run(["diff", str(runs / "a"), str(runs / "b"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["laws"] == [{"law": "durability", "a": "VALID", "b": "INVALID"}]
    assert told["anomalies"] == [{"name": "lost", "a": 0, "b": 7}]
    assert told["identical"] is False and told["first_difference"]["row"] == 9
    assert told["first_difference"]["a"][0]["queue"] == 1
    assert told["b"]["measures"]["calls"]["send"]["ok"] == 3


def test_the_page_shows_both_on_one_axis(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli._run(["diff", "a", "b", "--as", "html", "--out", str(runs)]) == 0
    page = runs / "a" / "diff-b.html"
    assert capsys.readouterr().out == f"{page}\n"
    text = page.read_text("utf-8")
    assert "<h1>A is VALID, B is INVALID</h1>" in text and "the same up to row 9" in text
    assert text.count('class="lanes seconds"') == 1 and text.count('<h3 class="which">') == 2
    assert "7 acknowledged messages were lost" in text and "src=" not in text
    assert cli._run(["diff", "a", "b", "--as", "html", "--json", "--out", str(runs)]) == 0
    assert json.loads(capsys.readouterr().out)["page"] == str(page)
    assert cli._run(["diff", "a", "b", "--as", "text", "--open", "--out", str(runs)]) == 3


def test_values_of_runs_stay_text_on_the_page(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    for name in ("a", "b"):
        judged(recorded(tmp_path / name, name=evil, mutant=evil, state="finished"), Validity.UNKNOWN, evil)
    assert cli._run(["diff", "a", "b", "--as", "html", "--out", str(tmp_path)]) == 0
    assert evil not in (tmp_path / "a" / "diff-b.html").read_text("utf-8")


def test_a_run_of_which_little_is_left_is_compared_as_far_as_it_goes(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs / "b" / "history.arrows").unlink()
    assert cli._run(["diff", "a", "b", "--out", str(runs)]) == 0
    told = capsys.readouterr()
    assert "* lost       0  7" in told.out and "histories not compared" in told.out
    assert "can't be read" in told.err
    assert cli._run(["diff", "a", "b", "--as", "html", "--out", str(runs)]) == 0
    assert "were not compared row by row" in (runs / "a" / "diff-b.html").read_text("utf-8")
    assert cli._run(["diff", "a", "none", "--out", str(runs)]) == 3
