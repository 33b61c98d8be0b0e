"""What commands say of a judged run: an UNKNOWN is a diagnosis that fits on a screen, and JSON has the whole story."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaos.history import directory
from chaos.history.stream import STREAM
from reports.in_words import story
from stormproof import cli

EXPERIMENT = """
name: small
system:
  reference: {brokers: 3, queues: 4}
duration: 6s
workloads:
  - queue: {producers: 2, consumers: 1, rate_per_s: 100}
faults:
  - partition: {shape: halves, target: master}
    at: 1s
    for: 3s
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shown")
    (folder / "small.yaml").write_text(EXPERIMENT, "utf-8")
    return folder


def run(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = cli._run([*words, "--out", str(folder / "runs")])
    return code, capsys.readouterr().out


def test_json_has_the_story_and_where_to_read_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("run", str(folder / "small.yaml"), "--on", "sim", "--seed", "1", "--bug", "ack-before-replication")
    code, out = run(folder, capsys, *words, "--json")
    told, made = json.loads(out), directory.runs(folder / "runs")[-1]
    assert code == 1 and told["report"] == str(made / "report.html") and Path(told["report"]).is_file()
    assert told["replay_command"] == directory.read_meta(made).replay_command == " ".join(["stormproof", *words])
    assert told["story"] == story(made) and "acknowledged" in told["title"]
    assert [step["kind"] for step in told["chain"]][:2] == ["fault", "why"]
    assert told["chain"][1]["decided_by"] == ["Replication.acknowledged_end"]
    (fault,) = told["effective_faults"]
    assert (fault["fault"], fault["start_s"], fault["end_s"]) == ("partition", 1.0, pytest.approx(4.0, abs=0.1))
    again = json.loads(run(folder, capsys, "check", made.name, "--json")[1])
    different = {"seconds", "engine"}
    assert {name: value for name, value in again.items() if name not in different} == {
        name: value for name, value in told.items() if name not in different
    }
    code, out = run(folder, capsys, "replay", made.name, "--json")
    assert json.loads(out)["replay"]["identical"] is True and json.loads(out)["replay_command"]


def test_an_unknown_run_says_each_reason_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, capsys, "run", str(folder / "small.yaml"), "--on", "sim", "--seed", "2")[0] == 0
    made = directory.runs(folder / "runs")[-1]
    with (made / STREAM).open("r+b") as file:
        file.truncate((made / STREAM).stat().st_size // 2)
    code, out = run(folder, capsys, "check", made.name)
    lines = out.splitlines()
    assert code == 2 and len(lines) < 24 and max(map(len, lines[:-1])) <= 100
    assert lines[0] == "? UNKNOWN  small, seed 2, sim" and lines[-1].startswith("stormproof run ")
    reasons = json.loads(run(folder, capsys, "check", made.name, "--json")[1])["why"]
    assert len(reasons) > len(lines), "each law names the damage"
    assert out.count("is cut off") <= 1 and "more reasons (-v)" in out
    shown = run(folder, capsys, "check", made.name, "-v")[1]
    assert "durability       UNKNOWN" in shown and "more reasons (-v)" not in shown
