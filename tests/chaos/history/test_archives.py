"""Runs in ZIP archives: taken out whole and judged as they were, and nothing unsafe is ever written."""

from __future__ import annotations

import json
import shutil
import stat
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from chaos.errors import BadInput, ChaosError
from chaos.history import archives, directory, opening
from chaos.history.directory import read_meta, runs, write_verdict
from chaos.history.stream import STREAM
from chaos.run.journal import JOURNAL
from chaos.verdict import Validity
from reports.exports import perfetto
from reports.moments import kept as kept_moments
from stormproof import cli
from tests.reports.run_report.test_html import LOST, judged, record_run
from tests.stormproof.forged import bytes_of
from tests.stormproof.hostile import bounded


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
    (found,) = opening.resolve(str(archive), tmp_path / "home")
    assert found == tmp_path / "home" / name
    files = {path.relative_to(run): path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert {path.relative_to(found): path.read_bytes() for path in found.rglob("*") if path.is_file()} == files
    assert runs(tmp_path / "home") == [found] and list((tmp_path / "home").iterdir()) == [found]


def test_report_and_check_take_an_archive(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pages: list[Path] = []
    monkeypatch.setattr("reports.render", lambda found, _=None: pages.append(found) or found / "report.html")
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
    found = opening.resolve(str(archive), tmp_path / "home")
    assert [read_meta(one).json["name"] for one in found] == ["a", "b"]
    assert not (tmp_path / "home" / "summary.md").exists()
    (tmp_path / "home" / "a" / "run.json").write_text("mine")
    with pytest.raises(BadInput, match="home/a is there already: name it"):
        opening.resolve(str(archive), tmp_path / "home")
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


def test_only_what_a_run_has_for_its_readers_is_taken_out(run: Path, tmp_path: Path) -> None:
    """Above all not what a run leaves to be healed, by which the victim's own commands would act on hosts."""
    left = ("attached.json", "attached_hosts.json", "hosts.json", "left.json", "launch/broker-0.json", "x.sh")
    kept = (
        "traces/broker-1.0000.arrows",
        "logs/broker-0.log",
        "shards/all-0.parquet",
        "moments.json",
        "undo.jsonl",
        "report.html",
    )
    odd = ("traces/deep/x.jsonl", "traces/-x.jsonl", "traces/.x.jsonl", "logs/x.sh", "shards/x", "nodes/a/traces/b/c")
    for name in (*left, *kept, *odd):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("{}")
    before = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    (found,) = opening.resolve(str(pack(run, tmp_path / "artefact.zip", "")), tmp_path / "home")
    assert {STREAM, JOURNAL, kept_moments.FILE, perfetto.FILE} <= {*archives.FILES}
    assert {str(path.relative_to(found)) for path in found.rglob("*") if path.is_file()} == before - {*left, *odd}


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
        ("a/" * 2_000 + "run.json", "is more than 32 folders deep"),
    ],
    ids=lambda one: str(one)[:40],
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
        opening.resolve(str(archive), tmp_path / "home")
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
        (lambda packed: packed.writestr("-rf/run.json", "{}"), "'-rf' is not a name for a run"),
        (lambda packed: packed.writestr(".hidden/run.json", "{}"), "'.hidden' is not a name for a run"),
        (lambda packed: [packed.writestr(f"a/{number}", "") for number in range(6)], "holds 6 files; at most 5"),
        (
            lambda packed: packed.writestr("a/run.json", "{}", zipfile.ZIP_LZMA),
            "is packed otherwise than stored or deflated",
        ),
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
        opening.resolve(str(archive), tmp_path / "home")
    assert not (tmp_path / "home").exists()


def bombs(path: Path) -> dict[str, str]:
    """Archives that would become much, by the sentence that refuses them."""
    with zipfile.ZipFile(path / "zeros.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("a/run.json", "{}")
        packed.writestr("a/history.arrows", bytes(80 << 20))
    with zipfile.ZipFile(path / "many.zip", "w") as packed:
        packed.writestr("a/run.json", "{}")
        for number in range(20_000):
            packed.writestr(f"a/traces/{number}.jsonl", "")
    with zipfile.ZipFile(path / "directory.zip", "w") as packed:
        packed.writestr("a/run.json", "{}")
        for number in range(200):
            packed.writestr(f"a/{number}-{'x' * 30_000}", "")
    return {
        "zeros": "bytes; at most",
        "many": "holds 20,001 files; at most 10,000",
        "directory": "has a directory of more",
    }


def test_a_bomb_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    for name, problem in bombs(tmp_path).items():
        assert (tmp_path / f"{name}.zip").stat().st_size < 20 << 20
        with bounded(), pytest.raises(BadInput, match=problem):
            opening.resolve(str(tmp_path / f"{name}.zip"), tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_runs_upon_runs_are_sorted_out_in_time(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "runs.zip", "w") as packed:
        for number in range(500):
            packed.writestr(f"{number}/run.json", "{}")
            packed.writestr(f"{number}/manifest", "")
    with bounded():
        assert len(opening.resolve(str(tmp_path / "runs.zip"), tmp_path / "home")) == 500


def fuzzed(seed: int, archive: Path, home: Path) -> None:
    """An archive with odd names, kinds, sizes and bytes: it is taken out or refused, and nothing is made elsewhere."""
    rng = Random(seed)
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    parts = [
        "a",
        "b",
        "run.json",
        "traces",
        "x.jsonl",
        "x.0000.arrows",
        "..",
        ".",
        "",
        "-rf",
        "hosts.json",
        "é",
        "x" * 300,
        "a\\b",
        "C:",
        "\0",
    ]
    with zipfile.ZipFile(archive, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as packed:
        for _ in range(rng.randint(0, 6)):
            info = zipfile.ZipInfo("x")
            name = "/".join(rng.choice(parts) for _ in range(rng.randint(1, 4)))
            info.filename = rng.choice((name, "a/run.json", "a/traces/x.jsonl", "run.json", "a/history.arrows"))
            info.compress_type = packed.compression
            info.external_attr = (rng.choice((0, stat.S_IFREG, stat.S_IFLNK, stat.S_IFIFO, stat.S_IFDIR)) | 0o777) << 16
            with warnings.catch_warnings(action="ignore"):
                packed.writestr(info, rng.randbytes(rng.randint(0, 200)))
    if rng.random() < 0.7:
        archive.write_bytes(bytes_of(rng, archive.read_bytes()))
    try:
        with bounded():
            found = opening.resolve(str(archive), home / "runs")
    except ChaosError:
        found = []
    assert {path.name for path in home.iterdir()} <= {"runs"}, seed
    runs = home / "runs"
    assert sorted(runs.iterdir() if runs.exists() else []) == sorted(found), seed
    for path in runs.rglob("*"):
        assert path.is_dir() or stat.S_ISREG(path.lstat().st_mode), seed
        inside = str(path.relative_to(runs)).partition("/")[2]
        assert not inside or path.is_dir() or inside in archives.FILES or inside.endswith((".jsonl", ".arrows")), seed


@pytest.mark.parametrize("seeds", [range(300), pytest.param(range(300, 6_000), marks=pytest.mark.full)], ids=str)
def test_any_archive_is_taken_out_or_refused(tmp_path: Path, seeds: range) -> None:
    for seed in seeds:
        fuzzed(seed, tmp_path / "any.zip", tmp_path / "home")


def test_a_damaged_archive_leaves_nothing(tmp_path: Path) -> None:
    archive = tmp_path / "damaged.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("a/run.json", "x" * 1000)
    data = bytearray(archive.read_bytes())
    data[100] ^= 1
    archive.write_bytes(data)
    with pytest.raises(BadInput, match="is a damaged archive"):
        opening.resolve(str(archive), tmp_path / "home")
    assert list((tmp_path / "home").iterdir()) == []


def test_other_words_mean_what_they_always_did(tmp_path: Path, run: Path) -> None:
    assert opening.resolve(str(run), tmp_path) == [run]
    assert opening.resolve(run.name, run.parent) == [run]
    assert opening.resolve("latest", run.parent) == [run]
    with pytest.raises(BadInput, match=r"there is no run nothing\.zip"):
        opening.resolve("nothing.zip", tmp_path)
