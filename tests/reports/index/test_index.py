"""A folder of runs as lines and as a page, whatever has become of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import BadInput
from chaos.history import directory
from chaos.verdict import Anomaly, RunVerdict, Validity, Verdict
from reports.index import html
from reports.index.overview import Unjudged, line, overview, turned

META = {"name": "storm", "seed": 3, "deployment": "sim", "started": "2026-01-02T03:04:05+00:00", "duration_s": 20.0}
NOBODY = 2**22 + 1  # more than any process id


def made(parent: Path, folder: str, **meta: object) -> Path:
    run = parent / folder
    run.mkdir()
    directory.write_meta(run, {**META, "state": "finished", "mutant": "", **meta})
    return run


def judged(run: Path, validity: Validity, *why: str) -> Path:
    anomalies = (Anomaly(law="durability", name="lost", explanation="gone", count=7),) * (validity == "INVALID")
    laws = [Verdict(law="durability", validity=validity, anomalies=anomalies)]
    told: dict[str, Any] = {"digest": "d", "engine": "local", "seconds": 0.1, "why": why}
    directory.write_verdict(run, RunVerdict(run=str(run), seed=3, validity=validity, laws=laws, **told))
    return run


def test_a_judged_run_says_what_was_found(tmp_path: Path) -> None:
    one = line(judged(made(tmp_path, "a"), Validity.INVALID))
    assert (one.verdict, one.violated, one.anomalies, one.found) == (
        "INVALID",
        ("durability",),
        {"lost": 7},
        "durability",
    )
    assert (one.experiment, one.deployment, one.seed, one.date) == ("storm", "sim", 3, "2026-01-02 03:04")
    assert line(judged(made(tmp_path, "b"), Validity.UNKNOWN, "no write", "more")).found == "no write"


@pytest.mark.parametrize(
    ("meta", "verdict"),
    [
        ({}, Unjudged.NOT_JUDGED),
        ({"state": "failed", "error": "the disk is full"}, Unjudged.FAILED),
        ({"state": "running", "pid": os.getpid()}, Unjudged.RUNNING),
        ({"state": "running", "pid": NOBODY}, Unjudged.CUT_SHORT),
        ({"state": "up"}, Unjudged.UP),
        ({"seed": "three"}, Unjudged.DAMAGED),
    ],
)
def test_a_run_without_a_verdict_says_why(tmp_path: Path, meta: Mapping[str, Any], verdict: Unjudged) -> None:
    assert line(made(tmp_path, "a", **meta)).verdict == verdict


def test_what_can_not_be_read_is_a_line_too(tmp_path: Path) -> None:
    torn = made(tmp_path, "torn")
    (torn / "run.json").write_text("{")
    altered = judged(made(tmp_path, "altered"), Validity.INVALID)
    (altered / "verdict.json").write_text((altered / "verdict.json").read_text().replace("INVALID", "VALID"))
    lost = made(tmp_path, "lost")
    (lost / "run.json").unlink()
    odd = judged(made(tmp_path, "odd"), Validity.VALID)
    directory.write_json(odd / "verdict.json", {"verdict": "FINE", "seed": 1, "anomalies": {}, "laws": [1], "why": []})
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "run.json")
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "run.json").symlink_to("nowhere")
    (tmp_path / "no-run").mkdir()
    lines = {one.name: one for one in overview(tmp_path)}
    assert lines.keys() >= {"torn", "altered", "lost", "odd", "pipe"} and "no-run" not in lines
    assert {one.verdict for one in lines.values()} == {Unjudged.DAMAGED}
    assert all(one.found for one in lines.values())


class Links(HTMLParser):
    """The links of a page, and the tags in it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[str | None] = []
        self.tags: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value for name, value in attrs if name == "href"]


def test_the_page_links_to_reports_and_takes_values_for_text(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    for name in ("javascript:alert(1)", "a b&c"):
        (judged(made(tmp_path, name, name=evil, mutant=evil), Validity.INVALID) / "report.html").write_text("")
    made(tmp_path, "torn" + os.fsdecode(b"\xff"), state="failed", error=evil)
    path = html.write(tmp_path, overview(tmp_path))
    found = Links(path.read_text("utf-8"))
    assert sorted(map(str, found.links)) == ["a%20b%26c/report.html", "javascript%3Aalert%281%29/report.html"]
    assert {"table", "style"} <= found.tags and path.read_text("utf-8").count("<script") == 1, "its own alone"


def test_the_page_says_what_happened_and_is_filtered_without_a_script(tmp_path: Path) -> None:
    judged(made(tmp_path, "a"), Validity.INVALID)
    judged(made(tmp_path, "b", name="calm"), Validity.VALID)
    text = html.write(tmp_path, overview(tmp_path)).read_text("utf-8")
    assert "<td>7 acknowledged messages were lost</td>" in text
    assert text.count('name="verdict"') == text.count('name="experiment"') == 3
    assert 'main:has(#verdict-0:checked) tr[data-verdict]:not([data-verdict="0"])' in text


def test_the_page_says_when_runs_began_and_names_the_command_that_compares_two(tmp_path: Path) -> None:
    for name in ("a", "it's"):
        judged(made(tmp_path, name), Validity.INVALID)
    text = html.write(tmp_path, overview(tmp_path)).read_text("utf-8")
    assert text.count('<time datetime="2026-01-02T03:04:05+00:00" title="2026-01-02 03:04 UTC">2026-01-02 03:04<') == 2
    assert """data-word="&#39;it&#39;&#34;&#39;&#34;&#39;s&#39;\"""" in text and "stormproof diff A B --open" in text
    assert "<form" not in html.page("runs", overview(tmp_path)[:1]), "one run alone is compared with none"


def test_an_experiment_that_has_turned_says_since_when(tmp_path: Path) -> None:
    days = (Validity.VALID, Validity.VALID, Validity.UNKNOWN, Validity.INVALID, Validity.INVALID)
    for day, validity in enumerate(days, 1):
        judged(made(tmp_path, f"a{day}", started=f"2026-01-0{day}T03:04:05+00:00"), validity)
    judged(made(tmp_path, "b1", name="calm", started="2026-01-01T00:00:00+00:00"), Validity.INVALID)
    judged(made(tmp_path, "b2", name="calm", started="2026-01-02T00:00:00+00:00"), Validity.VALID)
    judged(made(tmp_path, "c", mutant="lossy", started="2026-01-03T00:00:00+00:00"), Validity.INVALID)
    lines = overview(tmp_path)
    assert [(valid.name, invalid.name) for valid, invalid in turned(lines)] == [("a2", "a4")]
    assert "was VALID until" in html.page("runs", lines) and "was VALID until" not in html.page("runs", lines[:3])


def test_the_page_replaces_its_own_kind_only(tmp_path: Path) -> None:
    assert html.write(tmp_path, []) == html.write(tmp_path, [])
    (tmp_path / "index.html").write_text("<h1>my site</h1>")
    with pytest.raises(BadInput, match="left as it is"):
        html.write(tmp_path, [])


def test_the_page_links_to_sweeps_that_have_a_page(tmp_path: Path) -> None:
    for name, files in (
        ("one & two", ("sweep.json", "index.html")),
        ("half-begun", ("sweep.json",)),
        ("elsewhere", ()),
    ):
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).write_text("{}")
    text = html.write(tmp_path, []).read_text()
    assert '<a href="one%20%26%20two/index.html">one &amp; two</a>' in text
    assert "half-begun" not in text and "elsewhere" not in text


def test_runs_stand_in_the_order_in_which_they_started(tmp_path: Path) -> None:
    made(tmp_path, "a", started="2026-01-02T03:04:06+00:00")
    made(tmp_path, "b", started="2026-01-02T03:04:05+00:00")  # copied later
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "run.json").write_text("{")
    os.utime(tmp_path / "c" / "run.json", (1, 1))
    assert [one.name for one in overview(tmp_path)] == ["c", "b", "a"]
