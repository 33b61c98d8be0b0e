"""Runs under URIs: what was recorded is copied and judged, from a folder and from a server that speaks S3."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from chaos.errors import BadInput, MachineError
from chaos.history.remote_runs import fetch
from stormproof import cli
from tests.stormproof.small_runs import planted
from tests.stormproof.small_s3 import serving
from tests.stormproof.strangers import recorded_again


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(planted(tmp_path_factory.mktemp("planted")).directory)


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "anything")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def judged(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, object]]:
    code = cli._run(["check", *words, "--engine", "local", "--json"])
    found = json.loads(capsys.readouterr().out)
    return code, {name: found[name] for name in ("verdict", "anomalies", "digest", "why")}


def test_a_run_under_a_uri_is_judged_as_in_its_folder(
    recorded: Path, tmp_path: Path, keys: None, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = judged([str(recorded)], capsys)
    assert wanted[0] == 1
    assert judged([f"file://{recorded}", "--out", str(tmp_path / "one")], capsys) == wanted
    bucket = tmp_path / "served" / "bucket" / "of runs"
    shutil.copytree(recorded, bucket / "run-1")
    with serving(tmp_path / "served") as (address, asked):
        uri = f"s3://bucket/of%20runs/run-1?scheme=http&region=nowhere&endpoint_override={address}"
        assert judged([uri, "--out", str(tmp_path / "two")], capsys) == wanted
    assert asked and not [path for path in asked if "shards" in path or "verdict" in path or "report" in path]
    assert (tmp_path / "two" / "run-1" / "report.html").exists()


def test_shards_are_copied_where_they_are_all_that_is_left(recorded: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(recorded, whole)
    recorded_again(whole)
    copy = fetch(f"file://{whole}", tmp_path / "runs")
    assert [path.name for path in (copy / "shards").iterdir()] == ["all-0.parquet"]
    assert not list((tmp_path / "runs").glob(".fetching-*"))


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("nothing://key:secret@here/run", "nothing://here/run can't be read"),
        ("file:///nowhere/run", "is not a run directory"),
        ("file:///tmp/..", "is not a name for a run"),
    ],
)
def test_what_is_no_run_is_one_sentence(
    uri: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli._run(["check", uri, "--out", str(tmp_path / "runs")]) == cli.ERROR
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: ") and said in last and "secret" not in last
    assert not (tmp_path / "runs").exists()


def test_a_run_of_that_name_is_not_overwritten(recorded: Path) -> None:
    with pytest.raises(BadInput, match="is there already"):
        fetch(f"file://{recorded}", recorded.parent)


def test_a_copy_does_not_grow(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli._run(["check", f"file://{recorded}", "--follow"]) == cli.ERROR
    assert "--follow needs the directory of the run itself" in capsys.readouterr().err


@pytest.mark.full
def test_a_server_that_does_not_answer_is_one_sentence(tmp_path: Path, keys: None) -> None:
    with pytest.raises(MachineError, match="cannot copy s3://bucket/run to") as error:
        fetch("s3://bucket/run?scheme=http&region=nowhere&endpoint_override=127.0.0.1:1", tmp_path / "runs")
    assert "\n" not in str(error.value)
