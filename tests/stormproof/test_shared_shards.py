"""Shards that stand under a URI while they are judged, in a folder and in a server that speaks S3."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.errors import BadInput, MachineError
from chaos.judging import engine
from chaos.judging.engine import RunInput
from chaos.judging.outcome import judge
from chaos.judging.run import Prepared, prepare
from chaos.judging.shared import shared
from chaos.verdict import Engine, RunVerdict, Validity
from stormproof import cli
from tests.stormproof.small_runs import planted
from tests.stormproof.small_s3 import serving


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(Path(planted(tmp_path_factory.mktemp("planted")).directory))


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "anything")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def judged(run: Prepared, uri: str = "") -> RunVerdict:
    (verdict,) = judge([run], engine=Engine.LOCAL, write=False, shards_at=uri)
    return verdict


def found(verdict: RunVerdict) -> list[object]:
    return [(law.law, law.validity, law.anomalies, law.counts) for law in verdict.laws]


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_shards_in_a_folder_are_judged_as_those_of_the_run(run: Prepared, tmp_path: Path) -> None:
    wanted = judged(run)
    assert wanted.validity is Validity.INVALID
    assert found(judged(run, tmp_path.as_uri())) == found(wanted)
    assert list(tmp_path.iterdir()) == [], "the copies are removed"


def test_shards_in_a_store_are_judged_as_those_of_the_run(run: Prepared, keys: None, tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    with serving(tmp_path) as (address, asked):
        uri = f"s3://bucket/of%20jobs?scheme=http&region=nowhere&endpoint_override={address}"
        assert found(judged(run, uri)) == found(judged(run))
    assert any(path.endswith("/0/all-0.parquet") for path in asked)
    assert files(tmp_path) == []


def test_shards_of_several_runs_stand_apart(run: Prepared, tmp_path: Path) -> None:
    with shared([run.shards, run.shards], tmp_path.as_uri()) as placed:
        assert files(tmp_path) == ["all-0.parquet"] * 2
        assert len({uri for shards in placed for uri in shards}) == 2


def test_a_shard_that_is_gone_leaves_the_run_undecided(run: Prepared, tmp_path: Path) -> None:
    gone = RunInput(context=run.context, shards=[(tmp_path / "all-0.parquet").as_uri()])
    (laws,) = engine.judge([gone], engine="local")
    assert Validity.VALID not in {law.validity for law in laws}
    assert any("the shard all-0 can't be read" in law.why for law in laws)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("a/folder", "takes a URI"),
        ("nothing://key:secret@here/folder", "nothing://here/folder can't be used for shards"),
    ],
)
def test_what_is_no_place_for_shards_is_one_sentence(run: Prepared, uri: str, said: str) -> None:
    with pytest.raises(BadInput, match=said) as error:
        judged(run, uri)
    assert "secret" not in str(error.value)


def test_a_folder_that_cant_be_made_is_one_sentence(run: Prepared, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="cannot put the shards under file://"):
        judged(run, (tmp_path / "file").as_uri())


@pytest.mark.parametrize("more", [[], ["--follow", "--master", "local-cluster[1,1,1024]"]])
def test_shards_elsewhere_need_a_master(
    run: Prepared, more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli._run(["check", str(run.directory), "--shards", tmp_path.as_uri(), *more]) == cli.ERROR
    assert "--shards is for a --master" in capsys.readouterr().err
