"""A sweep, however it is ended and resumed, gives the table of an uninterrupted one, and loses no row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import BadInput, MachineError
from stormproof import cli, launch
from stormproof.campaign import local
from stormproof.campaign.campaign import alone
from stormproof.shrinking import shrink
from stormproof.shrinking.document import text
from stormproof.shrinking.shrink import Best, Case, OnBetter
from stormproof.shrinking.trial import try_out
from stormproof.sweeping import judged
from stormproof.sweeping.plan import create, read, resume, row_path
from stormproof.sweeping.sweep import Sweep
from stormproof.sweeping.task import Task
from tests.stormproof.small_runs import BUG, EXPERIMENT


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(EXPERIMENT)
    return path


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks are done in this process: a worker's start takes longer than a small run."""
    monkeypatch.setattr(local, "cores", lambda: 0)


def begin(tmp_path: Path, file: Path, last: int = 2, mutant: str = BUG) -> Sweep:
    return Sweep(*create(tmp_path / "runs", [(file, "small", EXPERIMENT)], range(last + 1), mutant=mutant))


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = cli._run([str(word) for word in words])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_a_sweep_that_is_ended_and_resumed_gives_the_same_table(tmp_path: Path, file: Path, here: None) -> None:
    whole = begin(tmp_path, file)
    whole.run()
    ended = begin(tmp_path, file)
    ended.run(stop_on=1)
    assert 0 < len(ended.rows) < 3
    torn = ended.directory / "runs" / "0-2" / "half"
    torn.mkdir(parents=True)  # as a task leaves it that is killed
    again = Sweep(ended.directory, resume(ended.directory, [], None, None))
    assert again.rows.keys() == ended.rows.keys()
    again.run()
    assert again.table().digest == whole.table().digest
    assert not torn.exists()
    again.finish()
    page = (again.directory / "index.html").read_text()
    assert "max-offset-regression" in page and BUG in page and "/report.html" in page


def test_histories_of_valid_runs_are_not_kept(tmp_path: Path, file: Path, here: None) -> None:
    sweep = begin(tmp_path, file, last=0, mutant="")
    sweep.run()
    (row,) = sweep.rows.values()
    assert (row.verdict, row.run, row.told["run"], row.failures) == ("VALID", "", "", ())
    assert row.seen.hits and row.seen.states and len(row.digest) >= 32
    assert not (sweep.directory / "runs" / "0-0").exists()


def test_a_full_disk_ends_the_sweep_and_leaves_no_row(
    tmp_path: Path, file: Path, here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> Path:
        raise MachineError("cannot write history.arrows: No space left on device")

    sweep = begin(tmp_path, file)
    with monkeypatch.context() as patch:
        patch.setattr(launch, "start", full)
        sweep.run()
    assert (sweep.rows, len(sweep.errors)) == ({}, 1) and "No space left" in sweep.hopeless
    again = Sweep(sweep.directory, read(sweep.directory))
    again.run(stop_on=1)
    assert again.rows and not again.errors


def test_what_a_task_meets_is_one_sentence(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = begin(tmp_path, file, last=0)
    one = Task(directory=str(sweep.directory), file=0, seed=0)

    def lacks(*_: object) -> object:
        raise ModuleNotFoundError("No module named 'pydantic'")

    monkeypatch.setattr(judged, "_experiment", lacks)
    done = one.do()
    assert done.hopeless and "can't simulate: No module named 'pydantic'" in done.error

    def breaks(*_: object, **__: object) -> object:
        raise ZeroDivisionError("a bug")

    monkeypatch.undo()
    monkeypatch.setattr(launch, "start", breaks)
    assert not one.do().error  # a bug that one seed meets is its row
    assert sweep.rows == {} and row_path(sweep.directory, (0, 0)).exists()
    (row,) = Sweep(sweep.directory, sweep.plan).rows.values()
    assert (row.verdict, row.code) == ("ERROR", 3) and "ZeroDivisionError: a bug" in row.why[0]


def test_a_sweep_goes_on_with_what_it_was_begun_with_only(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = begin(tmp_path, file)
    other = tmp_path / "other.yaml"
    other.write_text(EXPERIMENT.replace("rate_per_s: 20", "rate_per_s: 21"))
    resumed = ("sweep", "--resume", sweep.directory, "--shrink", "none")
    for words, reason in (
        ([other], "other.yaml is another experiment"),
        (["--seeds", "0..9"], "with the seeds 0..2, not 0..9"),
        (["--bug", "append-twice"], f"with the planted bug {BUG}, not append-twice"),
    ):
        code, out, err = call(capsys, *resumed, *words)
        assert (code, out) == (3, "") and reason in err and len(err.splitlines()) == 1
    (sweep.directory / "experiments" / "0" / "small.yaml").write_text("altered")
    assert "is not what the sweep was begun with" in call(capsys, *resumed)[2]
    path = sweep.directory / "sweep.json"
    plan = json.loads(path.read_text())
    path.write_text(json.dumps({**plan, "code": "0"}))
    with pytest.raises(BadInput, match="begun by other code"):
        resume(sweep.directory, [], None, None)
    path.write_text(json.dumps({**plan, "files": [{**plan["files"][0], "copy": "/etc/passwd"}]}))
    assert "is no plan of a sweep" in call(capsys, *resumed)[2]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["sweep"], "give the FILE"),
        (["sweep", "none.yaml"], "which seeds"),
        (["sweep", "none.yaml", "--seeds", "0..1"], "cannot read none.yaml"),
        (["sweep", "none.yaml", "--seeds", "3..1"], "A <= B"),
        (["sweep", "--resume", "nowhere"], "no directory of a sweep"),
        (["sweep", "none.yaml", "--seeds", "0..1", "--stop-on", "0"], "stop-on"),
    ],
)
def test_bad_input_is_one_message(capsys: pytest.CaptureFixture[str], words: list[str], reason: str) -> None:
    code, out, err = call(capsys, *words)
    assert (code, out) == (3, "") and reason in err and "Traceback" not in err


def test_the_command_tells_causes_what_preceded_them_and_where_the_page_is(
    tmp_path: Path, file: Path, here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["sweep", file, "--seeds", "0..1", "--bug", BUG, "--shrink", "none", "--out", tmp_path / "out"]
    code, out, err = call(capsys, *words)
    assert code == 1, err
    shown = ("1 cause in ", "max-offset-regression", "just elected", "abstract states", "at most", "2 of 2 runs")
    for part in (*shown, "index.html"):
        assert part in out
    (directory,) = (tmp_path / "out").iterdir()
    assert call(capsys, "runs", tmp_path / "out")[1].endswith(f"sweep: {directory}/index.html\n")
    code, out, err = call(capsys, "sweep", "--resume", directory, "--shrink", "none", "--json")
    told = json.loads(out)
    assert code == 1 and told["done"] == told["asked"] == 2 and told["errors"] == []
    failed = next(one for one in told["runs"] if one["verdict"] == "INVALID")
    assert told["clusters"][0]["story"] and failed["story"] and failed["chain"] and failed["replay_command"]
    assert told["clusters"][0]["signatures"][0]["law"] and told["saturation"][0]["seeds"] == 2


def test_one_example_of_each_cause_is_shrunk_once(
    tmp_path: Path, file: Path, here: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless nobody wants it; and what was made small stays when the sweep goes on."""
    asked: list[float] = []

    def search(case: Case, scratch: Path, *, within_s: float, on_better: OnBetter, **_: Any) -> Best:
        asked.append(within_s)
        trial = try_out(text(case.documents[0]), case.seed, case.mutant, scratch / "try")
        on_better(case.documents[0], trial)
        return Best(document=case.documents[0], trial=trial)

    monkeypatch.setattr(shrink, "shrink", search)
    words = ["sweep", file, "--seeds", "0..1", "--bug", BUG, "--out", tmp_path / "out"]
    assert call(capsys, *words, "--shrink", "none")[0] == 1 and not asked
    (directory,) = (tmp_path / "out").iterdir()
    code, out, err = call(capsys, "sweep", "--resume", directory, "--json")
    told = json.loads(out)["clusters"]
    assert code == 1 and asked == [30.0] * len(told) and f"shrinking {len(told)} of the failures" in err
    assert all(Path(one["shrunk"]).name == "minimal.yaml" and Path(one["shrunk"]).is_file() for one in told)
    assert "minimal.yaml" in (directory / "index.html").read_text()
    again = json.loads(call(capsys, "sweep", "--resume", directory, "--json")[1])
    assert again["clusters"] == told and len(asked) == len(told)


def test_after_ctrl_c_no_example_is_shrunk_any_more(
    tmp_path: Path, file: Path, here: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> Best:
        raise KeyboardInterrupt

    monkeypatch.setattr(shrink, "shrink", interrupted)
    words = ["sweep", file, "--seeds", "0..0", "--bug", BUG, "--out", tmp_path / "out", "--shrink", "1m", "--json"]
    code, out, _ = call(capsys, *words)
    told = json.loads(out)
    assert code == 1 and told["done"] == 1 and {one["shrunk"] for one in told["clusters"]} == {None}


def test_clean_removes_sweeps_but_none_that_goes_on(
    tmp_path: Path, file: Path, here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    valid, failed = begin(tmp_path, file, last=0, mutant=""), begin(tmp_path, file, last=0)
    for sweep in (valid, failed):
        sweep.run()
    begun, busy = begin(tmp_path, file), begin(tmp_path, file)
    out = tmp_path / "runs"
    (out / "link").symlink_to(failed.directory)
    with alone(busy.directory):
        code, told, _ = call(capsys, "clean", "--keep", "failed", "--out", out)
        assert (code, told) == (0, "0 runs removed, 0 kept\n1 sweeps removed, 4 kept\n")
        assert not valid.directory.exists() and failed.directory.exists() and begun.directory.exists()
        code, told, _ = call(capsys, "clean", "--out", out)
    assert (code, told) == (0, "0 runs removed, 0 kept\n2 sweeps removed, 2 kept\n")
    assert sorted(out.iterdir()) == sorted([busy.directory, out / "link"])
