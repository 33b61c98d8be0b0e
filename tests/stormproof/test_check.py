"""``stormproof check``: which runs a pattern means, and where they are judged when nobody says where."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from chaos.errors import BadInput
from chaos.history.directory import trim, update_meta
from chaos.judging import spark
from chaos.judging.masters import Master
from stormproof import cli
from stormproof.commands import _judging
from tests.reports.comparison.test_pair import recorded


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a-1", "a-2", "b-1", "a-3"):
        recorded(tmp_path / name)
    trim(tmp_path / "a-3")
    (tmp_path / "a-folder").mkdir()
    (tmp_path / "a-file").write_text("")
    (tmp_path / "a-link").symlink_to(tmp_path / "a-1")
    return tmp_path


def test_a_pattern_means_the_runs_that_can_be_judged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = _judging.expand([f"{folder}/a-*", f"{folder}/b-1", f"{folder}/a-1", "latest"])
    assert found == [*(str(folder / name) for name in ("a-1", "a-2", "b-1")), "latest"]
    assert f"left out: 1 run in {folder}/a-* of which only the verdict was kept" in capsys.readouterr().err


def test_a_pattern_that_no_run_fits_is_refused(folder: Path) -> None:
    for pattern in (f"{folder}/c-*", f"{folder}/a-f*", f"{folder}/a-3*"):
        with pytest.raises(BadInput, match="no run that can be judged fits this pattern"):
            _judging.expand([pattern])


def test_a_name_that_looks_like_a_pattern_is_a_name(tmp_path: Path) -> None:
    run = recorded(tmp_path / "a[1]")
    assert _judging.expand([str(run)]) == [str(run)]


def test_several_runs_are_judged_in_one_go_where_it_is_quickest(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    update_meta(folder / "b-1", replay="stormproof run x")
    cli._run(["check", f"{folder}/*-1", "--json"])
    told = capsys.readouterr()
    assert [Path(run["run"]).name for run in json.loads(told.out)] == ["a-1", "b-1"]
    assert {run["engine"] for run in json.loads(told.out)} == {"local"}
    assert "judging" not in told.err, "that small runs are judged here needs no word"


class NoSpark:
    """Stands where a session would be."""

    def __init__(self, master: Master, *, conf: dict[str, str]) -> None:
        self.asked = (master.url, conf)

    def close(self) -> None: ...


def test_large_runs_and_those_with_a_master_are_judged_on_spark(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark, "Session", NoSpark)
    small, large = folder / "a-1", folder / "a-2"
    (large / "traces").mkdir()
    with (large / "traces" / "broker-0.jsonl").open("wb") as file:
        os.truncate(file.fileno(), _judging.SPARK_BYTES)
    for words, where in (
        (([small], _judging.AUTO), "local"),
        (([small, large], _judging.AUTO), "spark"),
        (([small], _judging.AUTO, "local[3]", ["spark.x=1"]), "spark"),
    ):
        with _judging.engine_for(*words) as (chosen, session):
            assert (chosen, session is None) == (where, where == "local")
    assert isinstance(session, NoSpark) and session.asked == ("local[3,4]", {"spark.x": "1"})
    assert capsys.readouterr().err == "judging 2 runs (300 MB of rows) on Spark, with all cores\n"
    for engine in (_judging.LOCAL, _judging.SPARK):
        with _judging.engine_for([large], engine) as (chosen, _):
            assert chosen == engine
    assert capsys.readouterr().err == "", "who says where needs not be told"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--master", "mesos://h:1"], "'mesos://h:1' is no Spark master"),
        (["--conf", "memory=1g"], "'memory=1g' is no setting of Spark"),
        (["--engine", "local", "--master", "local[1]"], "are for Spark"),
        (["--master", "spark://127.0.0.1:1"], "no Spark master can be reached at spark://127.0.0.1:1"),
    ],
)
def test_wrong_masters_are_one_sentence(
    words: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli._run(["check", str(folder / "a-1"), *words]) == cli.ERROR
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("error: ") and said in lines[-1]
    assert not any("Traceback" in line for line in lines)
