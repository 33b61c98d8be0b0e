"""Segments that were put under a URI: the run is the same, and what happens to them or to their store is said."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from chaos.errors import BadInput, DamagedHistory, MachineError, Overtaken
from chaos.history import background_sealing, manifest, stored, storing
from chaos.history.background_sealing import sealing_pieces
from chaos.history.directory import altered
from chaos.history.history import History
from chaos.history.made import Made
from chaos.history.manifest import Manifest
from chaos.history.pieces import pieces
from chaos.history.prefix import read_prefix
from chaos.history.seal_traces import seal_traces
from chaos.judging.outcome import judge
from chaos.judging.run import examine_run
from chaos.verdict import Engine, RunVerdict, Validity
from stormproof import cli, stores
from tests.chaos.history.runs import make_large, plain, turn
from tests.stormproof.growing import Growing
from tests.stormproof.small_runs import planted
from tests.stormproof.small_s3 import serving


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(planted(tmp_path_factory.mktemp("planted")).directory)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small segments, of which no byte stays."""
    make_large(monkeypatch, 500, 100)
    monkeypatch.setenv(stored.VARIABLE, "")
    monkeypatch.setenv("STORMPROOF_STATE", "/dev/null/no-folder")

    def punch(path: Path, begin: int, end: int) -> None:
        with path.open("rb+") as file:
            file.seek(begin)
            file.write(bytes(end - begin))

    monkeypatch.setattr(storing, "punch", punch)


@pytest.fixture(params=["folder", "s3"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Path]]:
    """A store that is named: its URI, and the folder in which it keeps what is put there."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "anything")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    folder = tmp_path / "served" / "bucket" / "of runs"
    folder.mkdir(parents=True)
    with serving(tmp_path / "served") as (address, _):
        s3 = f"s3://bucket/of%20runs/?scheme=http&region=nowhere&endpoint_override={address}"
        uri = s3 if request.param == "s3" else folder.as_uri()
        stored.allow(uri)
        yield stored.checked(uri), folder


@pytest.fixture
def run(recorded: Path, tmp_path: Path) -> Path:
    """A run that has ended, whose nodes were processes."""
    growing = Growing(recorded, tmp_path / "run", processes=True)
    for _ in growing.pieces(len(growing.rows) // 4):
        turn(growing.directory, 2_000)
    seal_traces(growing.directory)
    growing.end()
    return growing.directory


def put_all(run: Path, uri: str) -> int:
    """Put all segments there; return how many there were."""
    found = [*storing.waiting(manifest.read(run))]
    with Manifest(run) as sealing:
        for one in found:
            kept = storing.put(run, one, uri)
            storing.note(run, one, kept, uri, sealing)
    return len(found)


def verdict_of(run: Path) -> RunVerdict:
    (verdict,) = judge([examine_run(run)], engine=Engine.LOCAL, write=False)
    return replace(verdict, seconds=0.0)


def test_a_run_whose_segments_are_elsewhere_is_the_same(run: Path, store: tuple[str, Path], tmp_path: Path) -> None:
    uri, folder = store
    wanted, table = verdict_of(run), History.open(run).table
    assert wanted.validity is Validity.INVALID
    shutil.copytree(run, tmp_path / "whole")
    assert put_all(run, folder_uri(uri, run)) > 8
    assert [path.name for path in folder.iterdir()] == ["run"]
    assert altered(run, manifest.read(run), ended=True) == [] and not [*storing.waiting(manifest.read(run))]
    found = pieces(run, manifest.read(run))
    assert len(found) > 8 and all(one.place.startswith(uri.partition(":")[0]) for one in found)
    assert verdict_of(run) == wanted
    assert plain(History.open(run).table).equals(plain(table)), "read in pieces"
    assert plain(History.open(run).recorded()[0]).equals(plain(table)), "read in order"


def folder_uri(uri: str, run: Path) -> str:
    return stored.uris.below(uri, run.name)


@pytest.mark.parametrize("large", [True, False])
@pytest.mark.parametrize("what", ["history", "traces"])
@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(b"x" + path.read_bytes()[1:])])
def test_what_is_not_as_it_was_put_there_leaves_the_run_undecided(
    run: Path, tmp_path: Path, harm: Callable[[Path], Any], what: str, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.allow((tmp_path / "store").as_uri())
    put_all(run, folder_uri((tmp_path / "store").as_uri(), run))
    if not large:
        make_large(monkeypatch, 1 << 20, 100)
    harm(sorted((tmp_path / "store/run").glob(f"{what}*"))[1])
    verdict = verdict_of(run)
    assert verdict.validity is Validity.UNKNOWN and any(f"store/run/{what}" in why for why in verdict.why), verdict.why


def test_a_run_whose_file_is_gone_lacks_it_wherever_its_segments_are(run: Path, tmp_path: Path) -> None:
    stored.allow(tmp_path.as_uri())
    put_all(run, folder_uri(tmp_path.as_uri(), run))
    (run / "traces/broker-0.0000.arrows").unlink()
    assert altered(run, manifest.read(run), ended=True) == ["traces/broker-0.0000.arrows is missing"]


def test_nothing_is_read_in_a_store_that_the_user_has_not_named(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put_all(run, folder_uri((tmp_path / "store").as_uri(), run))
    monkeypatch.setattr(stored, "read", None)
    for other in ("", (tmp_path / "sto").as_uri(), tmp_path.as_uri()):
        monkeypatch.setenv(stored.VARIABLE, other)
        assert cli._run(["check", str(run), "--engine", "local"]) == 3
        assert "name it with STORMPROOF_SEGMENTS='file://" in capsys.readouterr().err


def test_a_store_that_a_run_was_given_is_remembered(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the user's own folder; where others may write there, it isn't believed."""
    monkeypatch.setenv("STORMPROOF_STATE", str(tmp_path / "state"))
    uri = (tmp_path / "store").as_uri()
    stores.remember(uri)
    stores.remember(f"{uri}/")
    assert (tmp_path / "state/stores").read_text() == f"{uri}\n"
    put_all(run, folder_uri(uri, run))
    for mode, code in ((0o700, 1), (0o777, 3)):
        (tmp_path / "state").chmod(mode)
        monkeypatch.setenv(stored.VARIABLE, "")
        assert cli._run(["check", str(run), "--engine", "local"]) == code, capsys.readouterr()


def test_a_store_that_refuses_costs_nothing(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    one = next(storing.waiting(manifest.read(run)))
    with pytest.raises(MachineError, match=r"cannot put file://.*/file/run/history"):
        storing.put(run, one, folder_uri((tmp_path / "file").as_uri(), run))
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_what_arrives_otherwise_than_it_was_sent_stays(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "sum_of", lambda data: manifest.sum_of(data[:-1]))
    with pytest.raises(MachineError, match="is not what was written"):
        storing.put(run, next(storing.waiting(manifest.read(run))), folder_uri(tmp_path.as_uri(), run))


def test_a_segment_that_was_altered_before_it_is_put_there_stays(run: Path, tmp_path: Path) -> None:
    *_, last = storing.waiting(manifest.read(run))
    (run / last.name).write_bytes(b"x" * last.sum.length)
    with pytest.raises(DamagedHistory, match="is not what was written"):
        storing.put(run, last, folder_uri(tmp_path.as_uri(), run))


def test_whenever_it_is_killed_no_row_is_lost(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = (tmp_path / "store").as_uri()
    stored.allow(store)
    table = plain(History.open(run).table)
    shutil.copytree(run, tmp_path / "kept")
    one = next(storing.waiting(manifest.read(run)))
    steps: list[Callable[[Manifest], Any]] = [
        lambda _: storing.put(run, one, folder_uri(store, run)),
        lambda sealing: sealing.stored(one.name, one.offset, folder_uri(store, run)),
        lambda _: storing.punch(run / one.name, one.offset, one.offset + one.sum.length),
    ]
    with Manifest(run) as sealing:
        for step in steps:
            step(sealing)
            assert plain(History.open(run).table).equals(table) and not History.open(run).damage
            assert altered(run, manifest.read(run), ended=True) == []
    assert put_all(run, folder_uri(store, run)) > 8
    assert plain(History.open(run).table).equals(table)


def test_who_follows_reads_again_where_segments_were_put_elsewhere(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where that happened between the manifest and the segment."""
    stored.allow(tmp_path.as_uri())
    growing = Growing(recorded, tmp_path / "run", processes=True)
    growing.whole()
    run = growing.directory
    assert turn(run, 2_000) > 3

    def read(folder: Path) -> tuple[int, Any]:
        folder.mkdir()
        with Made(folder) as held:
            prefix = read_prefix(run, lambda rows: rows["index"].to_numpy() >= 0, held)
            assert prefix is not None and not prefix.damage
            return prefix.recorded, plain(pa.concat_tables(prefix.blocks()))

    rows, table = read(tmp_path / "one")
    before = manifest.read(run)
    assert put_all(run, folder_uri(tmp_path.as_uri(), run)) > 5
    assert read(tmp_path / "two") == (rows, table)
    found, reads = manifest.read, [before]
    monkeypatch.setattr("chaos.history.prefix.manifest.read", lambda it: reads.pop() if reads else found(it))
    with pytest.raises(Overtaken, match="put elsewhere"):
        read(tmp_path / "three")


def test_a_process_puts_segments_there_while_the_run_goes_on(
    recorded: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And says once that a store refuses them."""
    monkeypatch.setattr(background_sealing, "LOOK_S", 0.1)
    uri = (tmp_path / "store").as_uri()
    stored.allow(uri)
    growing, until = Growing(recorded, tmp_path / "run", processes=True), time.monotonic() + 60
    same = Growing(recorded, tmp_path / "same", processes=True)
    growing.whole()
    (tmp_path / "store").write_text("in the way")
    with sealing_pieces(growing.directory, uri, piece_bytes=3_000):
        while "segments stay in" not in (said := capfd.readouterr().err) and time.monotonic() < until:
            time.sleep(0.1)
    assert said.count("segments stay in") == 1 and not manifest.read(growing.directory).stored
    (tmp_path / "store").unlink()
    with sealing_pieces(growing.directory, uri, piece_bytes=3_000):
        while len(manifest.read(growing.directory).stored) < 4 and time.monotonic() < until:
            time.sleep(0.1)
    growing.end()
    same.whole()
    same.end()
    assert len(manifest.read(growing.directory).stored) >= 4
    assert replace(verdict_of(growing.directory), run="") == replace(verdict_of(same.directory), run="")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--on", "sim", "--segments-to", "file:///tmp"], "it does not work with --on sim"),
        (["--segments-to", "no-uri"], "'no-uri' is no URI"),
        (["--segments-to", "s3://KEY:hunter2@bucket/path"], "s3://bucket/path: a run names the store"),
        (["--segments-to", "file:///dev/null/x"], "cannot put file:///dev/null/x/stormproof-"),
    ],
)
def test_a_store_that_can_not_serve_is_said_before_anything_runs(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli._run(["run", "quickstart", "--engine", "local", "--out", str(tmp_path / "runs"), *words]) == 3
    error = capsys.readouterr().err
    assert said in error and "hunter2" not in error and not (tmp_path / "runs").exists()


def test_uris_of_segments_are_different_whatever_nodes_are_called() -> None:
    names = ["traces/a b.0000.arrows", "traces/a=20b.0000.arrows", "traces/a%20b.0000.arrows", "traces/ä.0000.arrows"]
    made = {stored.uri_of("s3://bucket/run?region=x", name, 0) for name in names}
    assert len(made) == 4 and all(uri.startswith("s3://bucket/run/") and uri.endswith("?region=x") for uri in made)
    with pytest.raises(BadInput):
        stored.checked("/folder")
