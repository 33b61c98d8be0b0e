"""Whatever stands in the place of a file of a run, a command reads and writes that run alone, and comes to an end."""

from __future__ import annotations

import shutil
from itertools import product
from pathlib import Path

import pytest

from chaos.history import directory
from chaos.history.history import History
from stormproof.serve import file_of
from tests.chaos.history.runs import write_shard
from tests.stormproof import hostile

#: The files that commands read of a run, those that they write, and the folders between.
FILES = (
    *("run.json", "manifest", "experiment.yaml", "history.arrows", "verdict.json", "undo.jsonl", "moments.json"),
    *("junit.xml", "report.html", "perfetto.json", "shards/all-0.parquet", hostile.TRACE, hostile.LOG),
    *("shards", "traces", "logs"),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = hostile.recorded(tmp_path_factory.mktemp("made"))
    write_shard(run, "all-0", History.open(run).table)
    return run


def walk(made: Path, tmp_path: Path, name: str, kind: str, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One command on a run in which something of a kind stands in the place of a file."""
    shutil.rmtree(tmp_path / "home", ignore_errors=True)
    run, outside = tmp_path / "home" / "runs" / "run", tmp_path / "home" / "outside"
    shutil.copytree(made, run)
    hostile.put(run, name, kind, outside)
    before = hostile.fingerprint(outside)
    words = {
        **hostile.commands(run, made, tmp_path / "home" / "new"),
        **{slow: make(run, tmp_path / "home" / "new") for slow, make in hostile.SLOW.items()},
    }[what]
    code, printed = hostile.call(capsys, words)
    where = (name, kind, words, code, printed)
    assert hostile.fingerprint(outside) == before, where
    assert hostile.SECRET not in printed, where
    assert {path.name for path in (tmp_path / "home").iterdir()} <= {"runs", "outside", "new"}, where
    for path in run.rglob("*") if run.exists() else ():
        if path.suffix in (".html", ".xml", ".json") and not path.is_symlink() and path.is_file():
            assert hostile.SECRET not in path.read_text(), where
    if what in ("check", "follow"):
        assert code in (1, 2, 3), where  # never VALID
        assert code != 1 or kind == "hard link" or not is_recorded(name), where
    elif code and (what, code) != ("replay", 1):  # it breaks its promise once more
        assert code == 3 and "error:" in printed, where
    for part in (name, name.split("/")[0]):
        found = file_of(run.parent.resolve(), f"/run/{part}") if run.exists() else None
        if found is not None:
            with found:
                assert hostile.SECRET.encode() not in found.read(), where


def is_recorded(name: str) -> bool:
    """Whether a verdict comes from it; the rest is derived, or for people."""
    return name in ("run.json", "manifest", "experiment.yaml", "history.arrows", "traces", hostile.TRACE)


#: (command, file, kind): one of each kind, and each that was ever wrong.
SAMPLE = (
    ("report", "experiment.yaml", "link to a secret"),
    ("finding", "experiment.yaml", "pipe"),
    ("report", "experiment.yaml", "pipe"),
    ("check", "shards", "pipe"),
    ("rows", "shards", "link"),
    ("check", "shards/all-0.parquet", "pipe"),
    ("check", "manifest", "hard link"),
    ("report", "manifest", "hard link"),
    ("explain", "history.arrows", "link to nothing"),
    ("check", "traces", "link"),
    ("runs", "run.json", "link to nothing"),
    ("latest", "run.json", "link to itself"),
    ("clean", "verdict.json", "link"),
    ("replay", "experiment.yaml", "link"),
    ("diff", "history.arrows", "device"),
    ("summary", "verdict.json", "socket"),
    ("export perfetto", "perfetto.json", "link to a secret"),
    ("finding", "logs", "link"),
)


def test_odd_files_lead_nowhere(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for what, name, kind in SAMPLE:
        walk(made, tmp_path, name, kind, what, capsys)


@pytest.mark.full
@pytest.mark.parametrize("what", [*hostile.commands(Path(), Path(), Path()), *hostile.SLOW])
def test_no_odd_file_leads_anywhere(made: Path, tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every third pair of file and kind, every twelfth where a run is done again: which ones differs by command."""
    every = 12 if what in hostile.SLOW else 3
    for name, kind in [*product(FILES, hostile.KINDS)][len(what) % every :: every]:
        walk(made, tmp_path, name, kind, what, capsys)


@pytest.mark.parametrize("what", [*hostile.SLOW])
def test_a_name_of_a_run_that_is_done_again_leads_nowhere(
    made: Path, tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "runs" / "run"
    shutil.copytree(made, run)
    directory.update_meta(run, name="../../outside/x")
    before = sorted(tmp_path.rglob("*"))
    code, printed = hostile.call(capsys, hostile.SLOW[what](run, tmp_path / "new"))
    assert code == 3 and "which is not a name of a run" in printed
    assert sorted(tmp_path.rglob("*")) == before


def test_the_walk_knows_all_files_of_a_run(made: Path) -> None:
    there = {str(path.relative_to(made)) for path in made.rglob("*")}
    assert there <= {*FILES}, there - {*FILES}
    assert directory.read_verdict(made).validity == "INVALID"
