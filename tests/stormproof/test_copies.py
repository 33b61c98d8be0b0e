"""A large run that is judged from copies under a URI, in a folder and in a server that speaks S3."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import BadInput, DamagedHistory, MachineError
from chaos.history import manifest
from chaos.history.pieces import pieces
from chaos.history.seal_traces import seal_traces
from chaos.judging import divided, shared
from chaos.judging.outcome import judge
from chaos.judging.run import ExaminedRun, examine_run, examine_runs
from chaos.judging.shared import copied
from chaos.verdict import Engine, RunVerdict, Validity
from stormproof import cli
from tests.chaos.history.runs import make_large
from tests.chaos.judging.test_many_runs import Workers
from tests.stormproof.small_runs import planted
from tests.stormproof.small_s3 import serving

TRACE = '{"f": "noise", "node": "broker-9", "step": 2}\n'
KEYS = "AKIAKEY:hunter2"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three segments, and one of a trace."""
    with pytest.MonkeyPatch.context() as patched:
        make_large(patched, 500, 300)
        recorded = Path(planted(tmp_path_factory.mktemp("planted")).directory)
    (recorded / "traces").mkdir()
    (recorded / "traces/broker-9.jsonl").write_text(TRACE * 3)
    seal_traces(recorded)
    return recorded


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    make_large(monkeypatch, 500, 300)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A store with a bucket: its server, its URI, and which objects it was asked for."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    (tmp_path / "bucket").mkdir()
    with serving(tmp_path) as (address, asked):
        yield f"s3://{KEYS}@bucket/of%20jobs?scheme=http&region=nowhere&endpoint_override={address}", asked


def verdict_of(prepared: ExaminedRun) -> RunVerdict:
    (verdict,) = judge([prepared], engine=Engine.LOCAL, write=False)
    return replace(verdict, seconds=0.0)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_copies_in_a_folder_are_judged_as_the_run(run: Path, tmp_path: Path) -> None:
    wanted = verdict_of(examine_run(run))
    assert wanted.validity is Validity.INVALID
    assert verdict_of(examine_run(run, copies_at=tmp_path.as_uri())) == wanted
    assert list(tmp_path.iterdir()) == [], "the copies are removed"


def test_copies_in_a_store_are_judged_as_the_run(run: Path, store: Any, tmp_path: Path) -> None:
    uri, asked = store
    assert verdict_of(examine_run(run, copies_at=uri)) == verdict_of(examine_run(run))
    assert {path.rpartition("/")[2] for path in asked} >= {"0", "1"} and files(tmp_path) == []


def test_pieces_of_one_file_have_one_copy(run: Path, tmp_path: Path) -> None:
    found = pieces(run, manifest.read(run))
    with copied(found, tmp_path.as_uri()) as placed:
        assert files(tmp_path) == ["0", "1"] and len(placed) == len(found) > 3
        assert all(one.place.startswith("file://") for one in placed)
        for one, other in zip(placed, found, strict=True):
            assert one.read().equals(other.read()) and one.read(["f"]).equals(other.read(["f"]))
    assert files(tmp_path) == []


def test_nothing_is_put_there_of_small_runs(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no executor is asked about them, since it does not see them."""
    make_large(monkeypatch, 1 << 20, 300)
    monkeypatch.setattr(shared, "_put", None)
    with Workers() as session:
        found = examine_runs([run, run], session=session, copies_at=tmp_path.as_uri())  # type: ignore[arg-type]
        assert [verdict_of(one) for one in found] == [verdict_of(examine_run(run))] * 2 and session.jobs == 0


def lost(path: Path) -> None:
    path.unlink()


def altered(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-60] + b"x" * 60)


@pytest.mark.parametrize("bend", [lost, altered])
@pytest.mark.parametrize("late", [False, True])
def test_what_is_not_as_it_was_put_there_leaves_the_run_undecided(
    run: Path, store: Any, tmp_path: Path, bend: Callable[[Path], None], late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the beginning, or after the pieces were looked at."""

    def bent(work: Callable[..., Any]) -> Callable[..., Any]:
        def then(*given: Any) -> Any:
            found = work(*given)
            for path in (tmp_path / "bucket").rglob("*"):
                if path.is_file():
                    bend(path)
            return found

        return then

    place, name = (divided, "summed") if late else (shared, "_put")
    monkeypatch.setattr(place, name, bent(getattr(place, name)))
    verdict = verdict_of(examine_run(run, copies_at=store[0]))
    assert verdict.validity is Validity.UNKNOWN and "s3://bucket/of%20jobs/stormproof-" in " ".join(verdict.why)
    assert {law.validity for law in verdict.laws} == {Validity.UNKNOWN, Validity.NOT_APPLICABLE}
    assert files(tmp_path) == []
    assert "hunter2" not in str(verdict)


def test_a_store_that_loses_something_once_costs_time_alone(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, times = shared._put, list[int]()

    def losing(*given: Any) -> None:
        put(*given)
        if not times:
            shutil.rmtree(next(tmp_path.iterdir()))
        times.append(1)

    monkeypatch.setattr(shared, "_put", losing)
    assert verdict_of(examine_run(run, copies_at=tmp_path.as_uri())) == verdict_of(examine_run(run)) and len(times) == 2


def test_no_keys_of_a_store_are_printed(run: Path) -> None:
    for piece in pieces(run, manifest.read(run)):
        with pytest.raises(DamagedHistory, match="nothing://here/folder/0") as error:
            replace(piece, place=f"nothing://{KEYS}@here/folder/0?secret=hunter2").read()
        assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("uri", "error", "said"),
    [
        ("a/folder", BadInput, "--copies takes a URI .*, and 'a/folder' is none"),
        ("nothing://key:secret@here/folder", BadInput, "nothing://here/folder can't be used for copies"),
        ("file://{}/file", MachineError, "cannot put copies under file://"),
    ],
)
def test_what_is_no_place_for_copies_is_one_sentence(
    run: Path, uri: str, error: type[Exception], said: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(error, match=said) as raised:
        examine_run(run, copies_at=uri.format(tmp_path))
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("more", [[], ["--follow", "--master", "local-cluster[1,1,1024]"]])
def test_copies_need_a_master(run: Path, more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli._run(["check", str(run), "--copies", tmp_path.as_uri(), *more]) == cli.ERROR
    assert "--copies is for a --master" in capsys.readouterr().err
