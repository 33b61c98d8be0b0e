"""``stormproof replay``: a run from its own directory, and whether it repeats its history."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from chaos.errors import BadInput, ChaosError
from chaos.experiment.reader import load
from chaos.history import directory, manifest
from chaos.history.manifest import Manifest
from chaos.history.recorder import Recorder
from chaos.history.run_meta import RunMeta
from stormproof import cli, replay
from stormproof.launch import Launch, start

STORM = """\
system:
  reference: {controllers: 1, brokers: 2, queues: 1}
duration: 1s
workloads: [{queue: {producers: 1, consumers: 1, rate_per_s: 5}}]
"""


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = cli._run([str(word) for word in words])
    told = capsys.readouterr()
    return code, told.out, told.err


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated run of a file that has no name of its own, and that is gone by now."""
    folder = tmp_path_factory.mktemp("replay")
    (folder / "storm.yaml").write_text(STORM)
    file, out = folder / "storm.yaml", folder / "runs"
    made = start(
        Launch(experiment=load(file, deployment="sim"), file=file, deployment="sim", seed=4, mutant="", out=out)
    )
    file.unlink()
    return made


def test_a_simulated_run_repeats_its_history(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "replay", run, "--engine", "local", "--out", tmp_path, "--json")
    told = json.loads(out)
    assert code == 0, err
    assert told["replay"]["identical"] is True and "first_difference" not in told["replay"]
    again = directory.read_meta(Path(told["run"])).json
    assert (again["name"], again["seed"], again["replay"]) == ("storm", 4, f"stormproof replay {run}")


def histories(tmp_path: Path, *values: list[int]) -> list[Path]:
    runs = []
    for number, offsets in enumerate(values):
        runs.append(tmp_path / f"run-{number}")
        runs[-1].mkdir()
        recorder = Recorder(runs[-1], lambda: 0)
        for offset in offsets:
            recorder.record("op", f="send", type="invoke", offset=offset, process=f"producer-{offset}.0")
        recorder.close()
    return runs


@pytest.mark.parametrize(
    ("then", "now", "state", "versions", "row", "identical", "broken"),
    [
        ([1, 2, 3], [1, 2, 3], "finished", (), -1, True, False),
        ([1, 2, 3], [1, 7, 3], "finished", (), 1, False, True),
        ([1, 2, 3], [1, 7, 3], "finished", ("recorded with python 3.1, this is 3.2",), 1, False, False),
        ([1, 2], [1, 2, 3], "running", (), 2, None, False),
        ([1, 2], [1, 2, 3], "finished", (), 2, False, True),
        ([1, 2, 3], [1], "finished", (), 1, False, True),  # it came to its end, and lacks what was recorded then
        ([1, 2, 3], [], "finished", (), 0, None, False),  # Ctrl-C
    ],
)
def test_the_first_row_that_differs_is_named(
    tmp_path: Path,
    then: list[int],
    now: list[int],
    state: str,
    versions: tuple[str, ...],
    row: int,
    identical: bool | None,
    broken: bool,
) -> None:
    was, is_ = histories(tmp_path, then, now)
    meta = {"deployment": "sim", "state": state, "summary": {"interrupted": False}}
    directory.write_meta(is_, meta | {"summary": {"interrupted": row == 0}})
    found = replay.compared(replay.Recorded(directory=was, meta=RunMeta.of(meta), notes=versions), is_, "sim")
    assert (found.row, found.identical, found.broken) == (row, identical, broken)


def test_only_simulated_runs_are_compared(tmp_path: Path) -> None:
    was = replay.Recorded(directory=tmp_path, meta=RunMeta(deployment="sim"))
    assert replay.compared(was, tmp_path, "process").identical is None


def test_another_deployment_is_part_of_the_replay_command(run: Path, tmp_path: Path) -> None:
    recorded = replay.recorded(run)
    launch = replay.launch(recorded, deployment="process", out=tmp_path, inventory=(), inventory_file=None)
    assert launch.replay == f"stormproof replay {run} --on process"


def rewritten(run: Path, place: Path, **changes: object) -> Path:
    """A copy of the run that says other things, and that its manifest vouches for."""
    shutil.copytree(run, place)
    directory.update_meta(place, **changes)
    return place


def test_a_name_in_a_run_leads_nowhere(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "outside").mkdir()
    for number, name in enumerate(["../../outside/x", "/tmp/x", "..", "a/b", "x\0y"]):
        evil = rewritten(run, tmp_path / "runs" / str(number), name=name)
        before = sorted(tmp_path.rglob("*"))
        code, _, err = call(capsys, "replay", evil, "--engine", "local", "--out", tmp_path / "home" / "new")
        assert code == 3 and "which is not a name of a run" in err and "Traceback" not in err
        assert sorted(tmp_path.rglob("*")) == before
        with pytest.raises(BadInput, match="is not a name for a run"):
            directory.new_run(tmp_path / "home", name, 1)


HOSTS = STORM + "hosts: [{host: victim.example, user: root, sudo_password_env: AWS_SECRET, key: ~/.ssh/id_rsa}]\n"


@pytest.mark.parametrize(
    ("deployment", "words", "said"),
    [
        ("process", [], "a run may come from elsewhere"),
        ("ssh", [], "a run may come from elsewhere"),
        ("attach", [], "a run may come from elsewhere"),
        ("../sim", [], "a run may come from elsewhere"),
        ("ssh", ["--on", "ssh"], "--inventory FILE"),
        ("process", ["--on", "attach"], "may be anybody's"),
    ],
)
def test_a_run_says_nowhere_by_itself_where_programs_are_started(
    run: Path, tmp_path: Path, deployment: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A colleague's run is no word of the user that something may be started, on whatever hosts it names, with keys and
    passwords of the user."""
    monkeypatch.setattr("stormproof.launch.start", None)
    evil = rewritten(run, tmp_path / "evil", deployment=deployment)
    (evil / "experiment.yaml").write_text(HOSTS)
    with Manifest(evil) as sealing:
        sealing.seal_files(["experiment.yaml"])
    code, _, err = call(capsys, "replay", evil, "--engine", "local", "--out", tmp_path / "new", *words)
    assert code == 3 and said in err and "Traceback" not in err
    assert not (tmp_path / "new").exists()


def test_what_is_not_sealed_is_not_replayed(run: Path, tmp_path: Path) -> None:
    for name in ("experiment.yaml", "run.json"):
        shutil.copytree(run, tmp_path / name)
        lines = (tmp_path / name / "manifest").read_bytes().splitlines(keepends=True)
        kept = [line.split(b" ", 2)[2] for line in lines if not line.endswith(f" {name}\n".encode())]
        (tmp_path / name / "manifest").write_bytes(
            b"".join(manifest._line(number, line.decode().strip()) for number, line in enumerate(kept))
        )
        assert not manifest.read(tmp_path / name).damage
        with pytest.raises(ChaosError, match=f"{name} is not in the manifest"):
            replay.recorded(tmp_path / name)


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (lambda run: (run / "experiment.yaml").write_text(STORM + "# more\n"), "checksum is wrong"),
        (lambda run: (run / "experiment.yaml").unlink(), "has no experiment.yaml"),
        (lambda run: (run / "manifest").unlink(), "there is no manifest"),
        (lambda run: directory.update_meta(run, versions=[]), "must be a JSON object"),
        (lambda run: directory.trim(run), "--seed 4"),
    ],
)
def test_a_run_that_is_not_what_was_written_is_not_replayed(tmp_path: Path, run: Path, harm, why: str) -> None:
    shutil.copytree(run, tmp_path / "copy")
    harm(tmp_path / "copy")
    with pytest.raises(ChaosError, match=why):
        replay.recorded(tmp_path / "copy")
