"""``stormproof check --follow``: what is told of a run while it goes on, and how following ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import BadInput
from chaos.history import directory as store
from chaos.history.made import Made
from chaos.history.prefix import read_prefix
from chaos.history.recorder import Recorder
from chaos.judging import following
from chaos.judging.following import State, conclude, follow, is_at_work, pause_s
from chaos.judging.so_far import able, wanted
from chaos.verdict import Engine, Validity
from stormproof import cli
from tests.chaos.history.runs import make_large, turn
from tests.stormproof.conftest import Begin
from tests.stormproof.growing import Growing
from tests.stormproof.small_runs import ANOMALY, planted

EXPERIMENT = Path(__file__).parents[2] / "examples" / "start" / "stale_master.yaml"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(planted(tmp_path_factory.mktemp("planted")).directory)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "pause_s", lambda took_s: 0.0)


@pytest.fixture
def another() -> Iterator[int]:
    """A process that lives as long as the test."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as popen:
        yield popen.pid
        popen.kill()


def found(state: State) -> set[tuple[str, int, int]]:
    return {(one.name, one.queue, one.offset) for law in state.laws for one in law.violations if one.rows}


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("processes", "most", "piece_bytes"),
    [(False, 1 << 20, 0), (True, 1 << 20, 0), (True, 500, 0), (True, 1 << 20, 2_000), (True, 500, 2_000)],
)
def test_what_is_told_while_a_run_goes_on_stands_in_its_verdict(
    recorded: Path, tmp_path: Path, processes: bool, most: int, piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where so many rows are judged in pieces, and where lines have become segments."""
    make_large(monkeypatch, most, 200)
    run = Growing(recorded, tmp_path / "run", processes=processes)
    states, told, first, made = follow(run.directory), set[tuple[str, int, int]](), -1, 0
    for rows in run.pieces(len(run.rows) // 8):
        made += turn(run.directory, piece_bytes) if piece_bytes else 0
        state = next(states)
        assert told <= found(state)
        told |= found(state)
        first = rows if told and first < 0 else first
        assert not state.damage and state.recorded <= rows
    run.end()
    with pytest.raises(StopIteration):
        next(states)
    assert (made > 5) == bool(piece_bytes)
    assert 0 < first < len(run.rows) and ANOMALY in {name for name, _, _ in told}
    monkeypatch.undo()
    verdict = conclude(run.directory, Engine.LOCAL)
    assert verdict.validity is Validity.INVALID
    assert told <= {(one.name, one.queue, one.offset) for law in verdict.laws for one in law.anomalies}


@pytest.mark.usefixtures("at_once")
def test_a_damaged_part_is_told_and_nothing_counts(recorded: Path, tmp_path: Path) -> None:
    run = Growing(recorded, tmp_path / "run")
    states, pieces = follow(run.directory), run.pieces(len(run.rows) // 8)
    for _ in range(6):
        next(pieces)
    assert found(next(states))
    with (run.directory / "history.arrows").open("r+b") as file:
        file.seek(5000)
        file.write(b"\xff\xff\xff\xff")
    next(pieces)
    next(states)  # once is no proof: a line may have been half written
    next(pieces)
    state = next(states)
    assert state.damage and not found(state)
    assert "checksum" in state.damage[0]


def test_nothing_is_read_before_there_is_a_row(tmp_path: Path) -> None:
    with Made(tmp_path) as rows:
        assert read_prefix(tmp_path / "gone", wanted(able()), rows) is None
        Recorder(tmp_path, lambda: 0).close()
        assert read_prefix(tmp_path, wanted(able()), rows) is None


def test_a_run_without_a_manifest_can_not_be_followed(recorded: Path, tmp_path: Path) -> None:
    run = Growing(recorded, tmp_path / "run")
    (run.directory / "manifest").unlink()
    with pytest.raises(BadInput, match="has no manifest, so nothing vouches for what is recorded there"):
        next(follow(run.directory))


def test_pauses_leave_most_of_a_core_and_tell_within_a_minute() -> None:
    assert pause_s(0.01) == following.LEAST_PAUSE_S
    for took_s in (1.0, 5.0, 12.0, 20.0, 27.0):
        assert pause_s(took_s) + 2 * took_s <= 60
    assert pause_s(5.0) == 15.0
    assert pause_s(100.0) == following.LEAST_PAUSE_S


@pytest.mark.usefixtures("at_once")
def test_a_run_that_is_removed_is_one_sentence(recorded: Path, tmp_path: Path) -> None:
    run = Growing(recorded, tmp_path / "run")
    run.whole()
    states = follow(run.directory)
    next(states)
    shutil.rmtree(run.directory)
    with pytest.raises(BadInput, match="the run is gone; it was removed while it was followed"):
        next(states)


def test_a_cluster_for_use_by_hand_records_nothing(tmp_path: Path) -> None:
    store.write_meta(tmp_path, {"state": store.UP, "pid": os.getpid()})
    with pytest.raises(BadInput, match="records nothing that could be followed"):
        next(follow(tmp_path))


def test_nothing_is_written_where_the_harness_may_be_judging(recorded: Path, tmp_path: Path, another: int) -> None:
    run = Growing(recorded, tmp_path / "run", pid=another)
    run.whole()
    run.end()
    assert is_at_work(run.directory)
    before = sorted(run.directory.rglob("*"))
    assert cli._run(["check", str(run.directory), "--follow", "--engine", "local"]) == 1
    assert sorted(run.directory.rglob("*")) == before


def test_a_manifest_line_that_is_being_written_is_read_again(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Growing(recorded, tmp_path / "run")
    run.whole()
    run.end()
    manifest = run.directory / "manifest"
    whole = manifest.read_bytes()
    manifest.write_bytes(whole + b"0000")
    monkeypatch.setattr(following.time, "sleep", lambda seconds: manifest.write_bytes(whole))
    assert conclude(run.directory, Engine.LOCAL).validity is Validity.INVALID


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_run_that_has_ended_is_judged_at_once(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(recorded, tmp_path / "run")
    (tmp_path / "run" / "verdict.json").unlink(missing_ok=True)
    assert cli._run(["check", str(tmp_path / "run"), "--follow", "--json", "--engine", "local"]) == 1
    (verdict,) = lines(capsys.readouterr().out)
    assert verdict["event"] == "verdict" and verdict["verdict"] == "INVALID"
    assert (tmp_path / "run" / "verdict.json").exists() and (tmp_path / "run" / "report.html").exists()


def test_a_run_whose_harness_was_killed_is_judged_as_far_as_it_went(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    run = Growing(recorded, tmp_path / "run", pid=ended.pid)
    pieces = run.pieces(3 * len(run.rows) // 4)
    next(pieces)
    assert cli._run(["check", str(run.directory), "--follow", "--json", "--engine", "local"]) == 1
    (verdict,) = lines(capsys.readouterr().out)
    assert any("did not come to its end" in why for why in verdict["why"])


def test_only_one_run_is_followed(recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli._run(["check", str(recorded), str(recorded.parent / recorded.name), "--follow"]) in (1, 3)
    shutil.copytree(recorded, tmp_path / "run")
    assert cli._run(["check", str(recorded), str(tmp_path / "run"), "--follow"]) == 3
    assert "--follow is for one run, not for 2" in capsys.readouterr().err


def test_a_wrong_master_is_told_before_anything_is_followed(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli._run(["check", str(recorded), "--follow", "--engine", "local", "--master", "local[2]"]) == 3
    assert "--master and --conf are for Spark" in capsys.readouterr().err


def first_line(popen: subprocess.Popen[str], event: str) -> dict[str, Any]:
    assert popen.stdout is not None
    for line in popen.stdout:
        if json.loads(line)["event"] == event:
            return dict(json.loads(line))
    raise AssertionError(popen.stderr.read() if popen.stderr else "")


def test_ctrl_c_tells_the_last_state_and_a_removed_run_a_sentence(recorded: Path, tmp_path: Path, begin: Begin) -> None:
    run = Growing(recorded, tmp_path / "run", processes=True)
    run.whole()
    popen = begin("check", "run", "--follow", "--json", "--engine", "local")
    violation = first_line(popen, "violation")
    assert violation["law"] == "no-rollback" and violation["rows"]
    first_line(popen, "so_far")
    popen.send_signal(signal.SIGINT)
    out, err = popen.communicate(timeout=30)
    last = lines(out)[-1]
    assert last["event"] == "interrupted" and last["laws"]["no-rollback"] == "violated", (out, err)
    assert popen.returncode == 1 and "Traceback" not in err

    popen = begin("check", "run", "--follow", "--json", "--engine", "local")
    first_line(popen, "so_far")
    shutil.rmtree(run.directory)
    _, err = popen.communicate(timeout=30)
    assert popen.returncode == 3
    assert err.splitlines()[-1] == "error: run: the run is gone; it was removed while it was followed"


def test_a_witness_is_a_row_of_the_harness_or_a_step_of_a_node(recorded: Path, tmp_path: Path) -> None:
    run = Growing(recorded, tmp_path / "run", processes=True)
    confirms = [row for row in run.rows if row["f"] == "confirm" and '"set"' in row["value"]]
    confirms[5]["position"] = 0  # a master takes back what it called confirmed
    run.whole()
    state = next(follow(run.directory))
    shown = {row for law in state.laws for one in law.violations for row in one.rows}
    harness = sum(row["kind"] != "trace" for row in run.rows)
    assert {row for row in shown if row >= harness} == set(state.steps) != set()
    assert shown - set(state.steps), "some are rows of the harness"
    told = next(iter(state.steps.values()))
    traced = (run.directory / "traces" / f"{told['node']}.jsonl").read_text().splitlines()
    assert any(json.loads(line)["step"] == told["step"] and json.loads(line)["f"] == told["f"] for line in traced)


@pytest.mark.full
def test_a_planted_bug_is_told_while_processes_go_on(tmp_path: Path, begin: Begin) -> None:
    words = ["run", str(EXPERIMENT), "--on", "process", "--bug", "dispatch-past-confirm", "--engine", "local"]
    begin(*words)
    while not store.runs(tmp_path / "runs"):
        pass
    popen = begin("check", "latest", "--follow", "--json", "--engine", "local")
    out, err = popen.communicate(timeout=240)
    told = lines(out)
    assert popen.returncode == 1, err
    assert told[-1]["event"] == "verdict" and told[-1]["verdict"] == "INVALID"
    broken = [one["name"] for one in told if one["event"] == "violation"]
    assert broken and set(broken) <= set(told[-1]["anomalies"])
    before = [one for one in told if one["event"] == "so_far"]
    recorded = [one["recorded"] for one in before]  # how often it looks depends on how busy the machine is
    assert len(before) > 2 and recorded == sorted(recorded) and recorded[0] < recorded[-1]
    assert all(one["laws"]["order"] == "no violation so far" for one in before[-3:])
