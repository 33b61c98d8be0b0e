"""Runs in Markdown: what is not green is told, and nothing that a run holds means more than its letters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaos.history.directory import write_meta, write_verdict
from chaos.verdict import Validity
from reports import markdown
from stormproof import cli
from tests.reports.run_report.test_html import judged, record_run
from tests.stormproof import small_runs


def run(parent: Path, seed: int, validity: Validity | None, why: tuple[str, ...] = ()) -> Path:
    place = parent / f"it-{seed}"
    place.mkdir()
    record_run(place)
    words = {"name": "it|x", "deployment": "sim", "replay": f"stormproof run 'a|b' --seed {seed}"}
    write_meta(place, {"run": place.name, "seed": seed, "state": "finished", **words})
    if validity is not None:
        write_verdict(place, judged(validity, why=why))
    return place


def test_the_worst_come_first_and_a_run_without_a_verdict_is_never_green(tmp_path: Path) -> None:
    runs = [
        run(tmp_path, 1, Validity.VALID),
        run(tmp_path, 2, Validity.UNKNOWN, ("no <b>drain</b> | of `it`\n# x",)),
        run(tmp_path, 3, None),
        tmp_path / "nothing",
    ]
    heading, empty, _, _, *rows = markdown.summary(runs).splitlines()
    assert heading == "## Stormproof: 2 ERROR, 1 UNKNOWN, 1 VALID" and empty == ""
    assert [row.split(" | ")[0] for row in rows] == ["| **ERROR**", "| **ERROR**", "| **UNKNOWN**"]
    assert "was not judged yet" in rows[0] and "is not a run directory" in rows[1]
    assert rows[2].split(" | ", 3)[1:3] == [r"it\|x (sim)", "2"]
    assert r"no \<b\>drain\</b\> \| of \`it\` \# x<br>`stormproof run 'a\|b' --seed 2` |" in rows[2]


def test_what_happened_is_the_story_of_the_report(tmp_path: Path) -> None:
    found = small_runs.planted(tmp_path)
    text = markdown.summary([found.directory])
    assert text.startswith("## Stormproof: 1 INVALID\n")
    assert f"**INVALID: {small_runs.LAW}** | small (sim) | 0 | Partition of broker-0 at 1.0 s → two masters" in text


def test_programs_get_an_object_for_each_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    runs = [run(tmp_path, 1, Validity.VALID), run(tmp_path, 2, Validity.UNKNOWN, ("no drain",))]
    assert cli._run(["summary", "--json", *map(str, runs)]) == 0
    bad, good = json.loads(capfd.readouterr().out)
    assert bad == {
        "verdict": "UNKNOWN", "name": "it|x", "seed": 2, "deployment": "sim", "laws": [], "by_policy": "",
        "story": "no drain",
        "replay": "stormproof run 'a|b' --seed 2", "run": str(runs[1]),
    }  # fmt: skip
    assert (good["verdict"], good["story"]) == ("VALID", "")


def test_no_runs_and_very_many_runs_still_make_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert markdown.summary([]) == "## Stormproof: no runs\n"
    monkeypatch.setattr(markdown, "LISTED", 2)
    text = markdown.summary([tmp_path / str(number) for number in range(5)])
    assert text.count("**ERROR**") == 2 and text.endswith("3 more runs are not VALID.\n")


@pytest.mark.parametrize(
    ("text", "shown"), [("plain", "`plain`"), ("a`b", "`` a`b ``"), ("a|b\nc", "`a\\|b c`"), ("\x1b[2J", "`[2J`")]
)
def test_code_stays_code(text: str, shown: str) -> None:
    assert markdown.code(text) == shown
