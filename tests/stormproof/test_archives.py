"""Runs in ZIP archives: taken out whole and judged as they were, and nothing unsafe is ever written."""

from __future__ import annotations

import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.errors import BadInput
from chaos.history import directory
from chaos.history.directory import read_meta, runs, write_verdict
from chaos.verdict import Validity
from stormproof import archives, cli
from tests.reports.run_report.test_html import LOST, judged, record_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    place = tmp_path / "ci" / "quick-7-20260101T000000"
    (place / "traces").mkdir(parents=True)
    record_run(place)
    (place / "traces" / "broker-0.jsonl").write_text("")
    directory.write_meta(place, {"run": place.name, "seed": 7, "state": "finished"})
    write_verdict(place, judged(Validity.INVALID, (LOST,)))
    return place


def pack(run: Path, archive: Path, prefix: str) -> Path:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(run.rglob("*")):
            packed.write(path, f"{prefix}{path.relative_to(run)}")
    return archive


@pytest.mark.parametrize(
    ("prefix", "name"),
    [("", "artefact"), ("quick-7-20260101T000000/", "quick-7-20260101T000000"), ("deep/runs/other/", "other")],
)
def test_a_run_is_taken_out_whole(run: Path, tmp_path: Path, prefix: str, name: str) -> None:
    archive = pack(run, tmp_path / "artefact.zip", prefix)
    (found,) = archives.resolve(str(archive), tmp_path / "home")
    assert found == tmp_path / "home" / name
    files = {path.relative_to(run): path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert {path.relative_to(found): path.read_bytes() for path in found.rglob("*") if path.is_file()} == files
    assert runs(tmp_path / "home") == [found] and list((tmp_path / "home").iterdir()) == [found]


def test_report_and_check_take_an_archive(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pages: list[Path] = []
    monkeypatch.setattr("reports.render", lambda found: pages.append(found) or found / "report.html")
    archive = pack(run, tmp_path / "artefact.zip", "here/")
    assert cli._run(["report", str(archive), "--out", str(tmp_path / "home")]) == 0
    assert pages == [tmp_path / "home" / "here"] and capfd.readouterr().out.strip().endswith("here/report.html")
    again = pack(run, tmp_path / "artefact.zip", "there/")
    assert cli._run(["check", str(again), "--engine", "local", "--json", "--out", str(tmp_path / "home")]) == 2
    told = json.loads(capfd.readouterr().out)
    assert told["run"] == str(tmp_path / "home" / "there") and told["verdict"] == "UNKNOWN"


def test_several_runs_keep_their_names_and_a_run_that_is_there_is_never_touched(run: Path, tmp_path: Path) -> None:
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for name in ("b", "a"):
            packed.writestr(f"runs/{name}/run.json", json.dumps({"seed": 1, "name": name}))
        packed.writestr("runs/summary.md", "no run")
    found = archives.resolve(str(archive), tmp_path / "home")
    assert [read_meta(one)["name"] for one in found] == ["a", "b"]
    assert not (tmp_path / "home" / "summary.md").exists()
    (tmp_path / "home" / "a" / "run.json").write_text("mine")
    with pytest.raises(BadInput, match="home/a is there already: name it"):
        archives.resolve(str(archive), tmp_path / "home")
    assert (tmp_path / "home" / "a" / "run.json").read_text() == "mine"


def test_every_command_that_reads_a_run_takes_an_archive_of_one(
    run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    archive = pack(run, tmp_path / "artefact.zip", "")
    for number, words in enumerate((["rows", "{}", "0..1"], ["explain", "{}"], ["diff", "{}", str(run)])):
        home = tmp_path / f"home-{number}"
        words = [word.format(archive) for word in words]
        assert cli._run([*words, "--out", str(home)]) == 0, capfd.readouterr().err
        assert [one.name for one in home.iterdir()] == ["artefact"] and capfd.readouterr().out
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as packed:
        for name in "abcd":
            packed.write(run / "run.json", f"{name}/run.json")
    assert cli._run(["rows", str(tmp_path / "many.zip"), "0", "--out", str(tmp_path / "none")]) == 3
    assert "holds 4 runs (a, b, c, …); this command takes one" in capfd.readouterr().err
    assert not (tmp_path / "none").exists()


def link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


def pipe(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFIFO | 0o666) << 16
    return info


@pytest.mark.parametrize(
    ("member", "problem"),
    [
        ("a/../../evil", "leads out"),
        ("../evil", "leads out"),
        ("a/./b", "leads out"),
        ("/etc/evil", "is no path below"),
        ("a\\..\\evil", "is no path below"),
        ("C:evil", "is no path below"),
        ("a/\x1b[2J", "is no path below"),
        (link("a/link"), "is a link"),
        (pipe("a/pipe"), "is no regular file"),
    ],
    ids=str,
)
def test_what_is_unsafe_is_refused_before_anything_is_written(
    tmp_path: Path, member: str | zipfile.ZipInfo, problem: str
) -> None:
    archive = tmp_path / "evil.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("a/run.json", "{}")
        info = member if isinstance(member, zipfile.ZipInfo) else zipfile.ZipInfo("x")
        if isinstance(member, str):
            info.filename = member  # as it is: the constructor would tidy it up
        packed.writestr(info, "/etc/passwd")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BadInput, match=problem):
        archives.resolve(str(archive), tmp_path / "home")
    assert sorted(tmp_path.rglob("*")) == before


def names_twice(packed: zipfile.ZipFile) -> None:
    packed.writestr("a/run.json", "{}")
    with pytest.warns(UserWarning, match="Duplicate"):
        packed.writestr("a/run.json", "{}")


@pytest.mark.parametrize(
    ("fill", "problem"),
    [
        (lambda packed: packed.writestr("readme.txt", "nothing"), "holds no run"),
        (names_twice, "is in it twice"),
        (lambda packed: [packed.writestr(f"{one}/same/run.json", "{}") for one in "ab"], "several runs of one name"),
        (lambda packed: packed.writestr("-rf/run.json", "{}"), "'-rf' is no name for a run"),
        (lambda packed: packed.writestr(".hidden/run.json", "{}"), "'.hidden' is no name for a run"),
        (lambda packed: [packed.writestr(f"a/{number}", "") for number in range(6)], "holds 6 files; at most 5"),
        (lambda packed: packed.writestr("a/run.json", "0" * 2000), "holds 2,000 bytes; at most 300"),
    ],
)
def test_what_is_no_archive_of_runs_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fill: Callable[[zipfile.ZipFile], object], problem: str
) -> None:
    monkeypatch.setattr(archives, "MOST_FILES", 5)
    archive = tmp_path / "odd.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        fill(packed)
    if "bytes" in problem:
        monkeypatch.setattr(archives, "LARGEST", 300)
    with pytest.raises(BadInput, match=problem):
        archives.resolve(str(archive), tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_a_damaged_archive_leaves_nothing(tmp_path: Path) -> None:
    archive = tmp_path / "damaged.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("a/run.json", "x" * 1000)
    data = bytearray(archive.read_bytes())
    data[100] ^= 1
    archive.write_bytes(data)
    with pytest.raises(BadInput, match="is a damaged archive"):
        archives.resolve(str(archive), tmp_path / "home")
    assert list((tmp_path / "home").iterdir()) == []


def test_other_words_mean_what_they_always_did(tmp_path: Path, run: Path) -> None:
    assert archives.resolve(str(run), tmp_path) == [run]
    assert archives.resolve(run.name, run.parent) == [run]
    assert archives.resolve("latest", run.parent) == [run]
    with pytest.raises(BadInput, match="is no run directory"):
        archives.resolve("nothing.zip", tmp_path)
