"""One cause to hand on: what its page says of a planted bug, and that nothing in it means more than its letters."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from chaos.errors import BadInput
from chaos.history.directory import write_meta, write_verdict
from chaos.verdict import Validity
from reports.finding import as_markdown, html, model
from reports.finding.model import Finding, find
from stormproof import cli
from tests.reports.run_report.test_html import HOSTILE, LOST, Page, judged, record_run
from tests.stormproof import small_runs


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_runs.planted(tmp_path_factory.mktemp("planted")).directory


@pytest.fixture(scope="module")
def finding(planted: Path) -> Finding:
    return find(planted, 1)


def test_it_says_what_happened_and_how_to_see_it_again(finding: Finding) -> None:
    assert finding.sentence.startswith("Partition of broker-0 at 1.0 s → two masters for ")
    assert finding.kinds == [(small_runs.LAW, small_runs.ANOMALY, 1)] and len(finding.quoted) == 1
    assert finding.replay.endswith(f"--on sim --seed 0 --bug {small_runs.BUG}")
    assert finding.experiment == small_runs.EXPERIMENT
    assert dict(finding.facts)["planted bug"] == small_runs.BUG and "stormproof" in finding.versions
    assert '"acks"' in finding.configuration


def test_nodes_are_quoted_at_the_moments_that_matter_and_at_no_others(finding: Finding) -> None:
    moments = [event.at_s for event in finding.events]
    assert {"broker-0", "broker-1"} <= set(finding.traced)
    for told in finding.traced.values():
        assert 0 < len(told) <= model.ROWS
        assert [one.at_s for one in told] == sorted(one.at_s for one in told)
        assert all(min(abs(one.at_s - moment) for moment in moments) <= model.AROUND_S for one in told)
    assert any(one.what.startswith("role epoch 2") for one in finding.traced["broker-1"])


def test_it_counts_the_runs_of_the_same_experiment_that_show_it(planted: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(planted, tmp_path / name)
    for name, validity in (("good", Validity.VALID), ("other", Validity.INVALID)):
        (tmp_path / name).mkdir()
        told = {"name": "small", "deployment": "sim", "mutant": small_runs.BUG if name == "good" else ""}
        write_meta(tmp_path / name, {"run": name, "seed": 1, **told})
        write_verdict(tmp_path / name, judged(validity))
    assert find(tmp_path / "one", 1).often == (2, 3), "the run without the bug is another experiment"


def test_what_is_not_known_is_said(planted: Path, tmp_path: Path, finding: Finding) -> None:
    assert any(one.startswith("Not judged: ") for one in finding.unknown)
    assert not any("only in force" in one for one in finding.unknown), "the fault is linked by rows"
    record_run(tmp_path)
    write_meta(tmp_path, {"run": "r", "seed": 7, "deployment": "process", "state": "finished"})
    write_verdict(tmp_path, judged(Validity.INVALID, (LOST,), why=("the drain is missing",)))
    unknown = " ".join(find(tmp_path, 1).unknown)
    assert "while no fault was in force" in unknown
    assert "not the interleaving" in unknown and "the drain is missing." in unknown


def test_the_page_stands_by_itself_and_quotes_hostile_values_as_text(planted: Path, tmp_path: Path) -> None:
    page = Page(html.write(planted, find(planted, 1)).read_text("utf-8"))
    assert "svg" in page.tags and "Partition of broker-0 at 1.0 s" in " ".join(page.text)
    record_run(tmp_path)
    write_meta(tmp_path, {"run": HOSTILE, "name": HOSTILE, "seed": 7, "replay": HOSTILE})
    write_verdict(tmp_path, judged(Validity.INVALID, (LOST,)))
    (tmp_path / "experiment.yaml").write_text(HOSTILE)
    text = html.write(tmp_path, find(tmp_path, 1)).read_text("utf-8")
    assert not {"script", "img", "iframe", "object", "link"} & set(Page(text).tags)
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!#)""", text)
    told = as_markdown.markdown(find(tmp_path, 1))
    prose = re.sub(r"^```.*?^```", "", told, flags=re.DOTALL | re.MULTILINE)
    assert "<script" not in re.sub(r"\\<|`[^`]*`", "", prose) and "\x00" not in told


def test_the_markdown_has_the_same_parts(finding: Finding) -> None:
    text = as_markdown.markdown(finding)
    heads = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert heads == ["Run it again", "What happened", "What was broken", "What the nodes reported at those moments",
                     "What is not known", "Experiment", "Configuration and versions"]  # fmt: skip
    assert f"```yaml\n{small_runs.EXPERIMENT}```" in text and finding.replay in text
    rows = [line for line in text.splitlines() if re.match(r"\| \d", line)]
    assert len(rows) == len(finding.events) > 3


def test_the_command_writes_the_page_or_prints_markdown(planted: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli._run(["finding", str(planted)]) == 0
    assert capfd.readouterr().out.strip() == str(planted / "finding-1.html")
    assert cli._run(["finding", str(planted), "--markdown"]) == 0
    assert capfd.readouterr().out == as_markdown.markdown(find(planted, 1))
    assert cli._run(["finding", str(planted), "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert (told["cause"], told["of"], told["violations"][0]["anomaly"]) == (1, 1, small_runs.ANOMALY)
    assert [one["what"] for one in told["events"]] == [one.text for one in find(planted, 1).events]
    assert cli._run(["finding", str(planted), "--json", "--markdown"]) == 3
    assert cli._run(["finding", str(planted), "--cause", "9"]) == 3
    assert "there is no cause 9; its causes are numbered from 1 to 1" in capfd.readouterr().err


def test_a_run_without_violations_is_one_sentence(tmp_path: Path) -> None:
    record_run(tmp_path)
    write_meta(tmp_path, {"run": "r", "seed": 7})
    write_verdict(tmp_path, judged(Validity.VALID))
    with pytest.raises(BadInput, match="nothing to hand on"):
        find(tmp_path, 1)
