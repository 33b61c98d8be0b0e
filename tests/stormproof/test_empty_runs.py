"""A run that lacks what most have (sends, some kind of rows, all rows, all that is readable): each command and each
page says so, and none of them breaks or calls it VALID."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from chaos.history import directory, manifest
from chaos.history.columns import INTEGERS, REPEATED, WORDS, Kind
from chaos.history.history import History
from chaos.history.manifest import Batch, Manifest, sum_of
from chaos.history.recorder import STREAM, Recorder
from stormproof import cli
from tests.stormproof import small_runs
from tests.stormproof.test_bent import broken, calm

Keep = Callable[[Mapping[str, Any]], bool]
COMMANDS = (
    ("check", "RUN", "--engine", "local"),
    ("report", "RUN"),
    ("rows", "RUN", "0..5"),
    ("rows", "RUN", "--json", "0"),
    ("explain", "RUN"),
    ("finding", "RUN"),
    ("finding", "RUN", "--markdown"),
    ("diff", "RUN", "OTHER"),
    ("diff", "RUN", "RUN", "--json"),
    ("summary", "RUN"),
    ("export", "RUN", "--to", "perfetto"),
    ("check", "RUN", "--follow", "--engine", "local"),
)


FEW = [words for words in COMMANDS if not {"--json", "--markdown", "--follow"} & {*words}]


def with_rows(run: Path, place: Path, keep: Keep) -> Path:
    """The run with these rows only."""
    place.mkdir(parents=True)
    recorder = Recorder(place, lambda: 0)
    for row in History.open(run).table.to_pylist():
        if keep(row):
            numbers = {name: row[name] for name in INTEGERS if name not in ("index", *REPEATED)}
            value = json.loads(row["value"]) if row["value"] else None
            recorder.record(**{name: row[name] for name in WORDS}, **numbers, value=value)
    rows = len(recorder)
    recorder.close()
    (place / directory.EXPERIMENT).write_bytes((run / directory.EXPERIMENT).read_bytes())
    directory.write_meta(place, {**directory.read_meta(run).json, "rows": rows})
    directory.seal(place)
    return place


def with_stream(run: Path, place: Path, data: bytes) -> Path:
    """The run with these bytes in the place of all its rows, sealed as they are."""
    with_rows(run, place, lambda row: False)
    (place / manifest.FILE).unlink()
    (place / STREAM).write_bytes(data)
    with Manifest(place) as sealing:
        sealing.batch(Batch(0, sum_of(data), 1))
    directory.seal(place)
    return place


def only(*kinds: str) -> Keep:
    return lambda row: row["kind"] in kinds


def without(*names: str) -> Keep:
    return lambda row: row["kind"] not in names and row["f"] not in names and row["type"] not in names


KEPT: dict[str, Keep] = {
    "no row": lambda row: False,
    "one row": lambda row: row["index"] == 0,
    "no send": without("send"),
    "no acknowledged send": lambda row: not (row["f"] == "send" and row["type"] == "ok"),
    "sends alone": lambda row: row["f"] == "send",
    "no final read": without("drain"),
    "no harness": without(Kind.HARNESS),
    **{f"only {kind}": only(kind) for kind in Kind},
}
MORE = {
    **{f"no {kind}": without(kind) for kind in Kind},
    **{f"no {kind} but harness": only(kind, Kind.HARNESS) for kind in Kind},
    **{
        f"no {f}": without(f)
        for f in ("phase", "role", "append", "confirm", "poll", "read", "partition", "end", "invoke")
    },
    **{f"without {kind}": without(kind) for kind in ("invoke", "ok", "fail", "info")},
}
STREAMS = {"empty": b"", "zeros": bytes(4096), "no stream": b"this is no Arrow stream" * 40}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A VALID run, one in which a planted bug is found, and one that is INVALID by a few rows."""
    folders = [tmp_path_factory.mktemp(name) for name in ("calm", "planted", "broken")]
    few = broken(folders[2] / "run")
    (few / directory.EXPERIMENT).write_text("")
    return {"calm": calm(folders[0]), "planted": small_runs.planted(folders[1]).directory, "broken": few}


def assert_told(
    capfd: pytest.CaptureFixture[str], run: Path, what: str, commands: Sequence[Sequence[str]] = COMMANDS
) -> None:
    other = run.parent / "other"
    for words in commands:
        code = cli._run([str({"RUN": run, "OTHER": other}.get(word, word)) for word in words])
        out, err = capfd.readouterr()
        assert code in (0, 1, 2, 3, 4) and "Traceback" not in err and "bug of" not in err, (what, words, err)
        assert code != 3 or err.strip(), (what, words)
        if words[0] == "check":
            assert code != 0 and "crashed" not in out, (what, out)
        if words[:1] == ("report",) and code == 0:
            assert (run / "report.html").is_file() and (run / "junit.xml").is_file()
    for words in (("runs", run.parent), ("runs", run.parent, "--html")):
        assert cli._run([*map(str, words)]) == 0, what
        capfd.readouterr()


def test_a_run_that_lacks_what_most_have_is_told_by_every_command(
    made: dict[str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("no row", "no send", "only op"):
        shutil.copytree(made["planted"], tmp_path / name / "other")
        assert_told(capfd, with_rows(made["planted"], tmp_path / name / "run", KEPT[name]), name, FEW)
    shutil.copytree(made["calm"], tmp_path / "no stream" / "other")
    data = STREAMS["no stream"]
    assert_told(capfd, with_stream(made["calm"], tmp_path / "no stream" / "run", data), "no stream", FEW)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["calm", "planted", "broken"])
def test_whatever_a_run_lacks_it_is_told_by_every_command(
    made: dict[str, Path], kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = History.open(made[kind]).table.to_pylist()
    for name, keep in {**KEPT, **MORE}.items():
        if all(map(keep, rows)):  # the run has no such rows: nothing is lacking
            continue
        shutil.copytree(made[kind], tmp_path / name / "other")
        assert_told(capfd, with_rows(made[kind], tmp_path / name / "run", keep), f"{kind}: {name}")
    for name, data in STREAMS.items():
        shutil.copytree(made[kind], tmp_path / name / "other")
        assert_told(capfd, with_stream(made[kind], tmp_path / name / "run", data), f"{kind}: {name}")
