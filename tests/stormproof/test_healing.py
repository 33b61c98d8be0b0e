"""Healing in odd states: a run that was moved, one that can't be healed beside one that can, what only a run knows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from chaos.deployments import process
from chaos.history import directory as store
from chaos.machines import procfs
from chaos.machines.agent.commands import Agent, boot_id
from chaos.machines.healing import marks
from chaos.machines.local import heal as local
from chaos.machines.local_resources import Pressure
from stormproof.cli import _run
from stormproof.commands import _healing

#: Of a harness that has ended.
GONE = f"{2**30}:1"


def a_run(directory: Path, **told: object) -> Path:
    directory.mkdir(parents=True)
    meta = {"run": directory.name, "seed": 0, "directory": str(directory.resolve()), "deployment": "process", **told}
    store.write_meta(directory, meta)
    return directory


@pytest.fixture
def left() -> Iterator[Callable[[Path], subprocess.Popen[bytes]]]:
    """Starts a process that a killed harness has left of the run in a directory."""
    with ExitStack() as begun:

        def start(run: Path) -> subprocess.Popen[bytes]:
            environment = {procfs.RUN: procfs.mark(run), procfs.HARNESS_PROCESS: GONE, procfs.NODE: "node-0"}
            popen = begun.enter_context(subprocess.Popen(["sleep", "60"], env={**os.environ, **environment}))
            begun.callback(popen.kill)
            procfs.Process.begun(popen.pid)
            return popen

        yield start


def test_a_run_that_was_moved_is_healed_once_somebody_trusts_it(tmp_path, left, capsys):
    run = a_run(tmp_path / "here" / "storm-0", state=store.RUNNING)
    process_id = left(run).pid
    moved = run.rename(tmp_path / "elsewhere")
    assert process.heal(moved) == []
    assert _run(["heal", str(moved)]) == 3
    assert f"`stormproof heal {moved} --trust` first lists" in joined(capsys)
    assert _run(["heal", str(moved), "--trust"]) == 3, "nobody is there to be asked"
    told, said = capsys.readouterr()
    assert told == f"end the node node-0 (process {process_id}) of the run in {run}\n" and "say --yes" in said
    assert _run(["heal", str(moved), "--trust", "--yes"]) == 0
    assert f"run elsewhere: ended the node node-0 (process {process_id})" in capsys.readouterr().out
    assert marks.read(moved) is None, "nothing is left"


def test_the_copy_of_a_run_is_not_taken_for_it(tmp_path, left, capsys):
    run, copy = a_run(tmp_path / "storm-0", state=store.RUNNING), tmp_path / "copy"
    popen = left(run)
    shutil.copytree(run, copy)
    for words in (["heal", str(copy)], ["heal", str(copy), "--trust", "--yes"]):
        assert _run(words) == 0 and "nothing to heal" in capsys.readouterr().out
    assert procfs.Process.of(popen.pid).state()


@pytest.mark.parametrize("state", [store.UP, store.RUNNING])
def test_no_run_of_a_stranger_ends_another_run(tmp_path, left, capsys, state):
    """It says, sealed as if it were true, that it was made where a cluster of the user's runs."""
    lasting, gone = a_run(tmp_path / "mine" / "storm-0"), tmp_path / "gone" / "storm-1"
    a_run(gone)
    processes = [left(lasting), left(gone)]
    (tmp_path / "gone").rename(tmp_path / "moved")
    for number, made in enumerate((lasting, gone, f"{gone}\0", "/" + "x" * 5000, "\x1b[2J")):
        evil = a_run(tmp_path / "runs" / f"evil-{number}", state=state)
        store.write_meta(evil, {**store.read_meta(evil).json, "directory": str(made)})
        if number < 2:
            (tmp_path / "runs" / f"link-{number}").symlink_to(made)
    out = ["--out", str(tmp_path / "runs")]
    for words in (["down"], ["heal"], ["heal", "--all"], *(["heal", f"evil-{number}"] for number in range(5))):
        assert _run([*words, *out]) in (0, 3)
        told, said = capsys.readouterr()
        assert "ended" not in told and "Traceback" not in said and "\x1b" not in told + said
    for number in (2, 3, 4):
        assert _run(["heal", f"evil-{number}", "--trust", *out]) in (0, 3)
        assert "Traceback" not in capsys.readouterr().err
    assert _run(["heal", "evil-1", "--trust", *out]) == 3
    assert f"process {processes[1].pid}) of the run in {gone}" in capsys.readouterr().out, "and so it may be refused"
    assert all(procfs.Process.of(popen.pid).state() for popen in processes)


def test_only_what_belongs_to_a_folder_is_healed_with_it(tmp_path, left, capsys, monkeypatch):
    one, other = a_run(tmp_path / "runs" / "matrix" / "a"), a_run(tmp_path / "others" / "b")
    begun = [left(run) for run in (one, other)]
    ours = {procfs.mark(run) for run in (one, other)}
    monkeypatch.setattr(local, "procfs", OnlyRuns(ours))
    monkeypatch.setattr(_healing, "EVERYWHERE", tmp_path)  # the engine may have runs of others
    assert _run(["heal", "--all", "--out", str(tmp_path / "runs")]) == 0
    assert capsys.readouterr().out == f"run a: ended the node node-0 (process {begun[0].pid})\n"
    assert _run(["heal", "--machine"]) == 3
    line = f"end the node node-0 (process {begun[1].pid}) of the run in {other}\n"
    told, said = capsys.readouterr()
    assert line in told and "nothing was done: nobody can be asked here" in said
    assert procfs.Process.of(begun[1].pid).state()
    assert _run(["heal", "--machine", "--yes"]) == 0
    assert capsys.readouterr().out == f"{line}run b: ended the node node-0 (process {begun[1].pid})\n"
    assert _run(["heal", "--machine"]) == 0 and capsys.readouterr().out == "this machine: nothing to heal\n"


class OnlyRuns:
    """The system's processes, as if only those of some runs were there."""

    def __init__(self, marks: set[str]) -> None:
        self._marks = marks

    def __getattr__(self, name: str) -> Any:
        return getattr(procfs, name)

    def of_runs(self) -> dict[str, list[procfs.Process]]:
        return {run: found for run, found in procfs.of_runs().items() if run in self._marks}


def joined(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said, whatever the width of its lines."""
    return " ".join(capsys.readouterr().err.split())


@pytest.fixture
def stranger() -> Iterator[procfs.Process]:
    """A process that no run has started."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as popen:
        yield procfs.Process.of(popen.pid)
        popen.kill()


def test_no_file_of_a_run_can_make_heal_end_a_stranger(tmp_path, stranger):
    run = a_run(tmp_path / "storm-0")
    (run / "supervisor.json").write_text(json.dumps({"run": run.name, "process": str(stranger), "harness": GONE}))
    (run / "lives").mkdir()
    life = {"process": str(stranger), "incarnation": 1, "boot": boot_id()}
    (run / "lives" / "node-0.json").write_text(json.dumps(life))
    assert process.heal(run) == []
    agent = Agent(run, {procfs.RUN: procfs.mark(run)}, shelters=True)
    agent.do_signal("node-0", "kill")
    agent.do_signal("node-0", "stop")
    assert stranger.state() not in ("", "T")


def test_pressure_that_a_file_blames_on_a_stranger_is_not_ended(tmp_path, stranger):
    kept = tmp_path / "pressure.json"
    kept.write_text(json.dumps({"held": {"cpu": 50}, "spinner": str(stranger), "processor": 0}))
    Pressure(tmp_path / "gate", kept, {procfs.HOST_RUN: "a-run"}).end()
    assert stranger.state() and json.loads(kept.read_text())["held"] == {}


def test_what_another_user_s_run_left_is_not_ours_to_end(tmp_path, monkeypatch):
    run = a_run(tmp_path / "storm-0")
    environment = {**os.environ, procfs.RUN: procfs.mark(run), procfs.HARNESS_PROCESS: GONE}
    with subprocess.Popen(["sleep", "60"], env=environment) as left:
        try:
            with monkeypatch.context() as patched:
                patched.setattr(os, "getuid", lambda: os.geteuid() + 1)
                assert process.heal(run) == [] and procfs.Process.of(left.pid).state()
            assert process.heal(run) == [f"run storm-0: ended the process (process {left.pid})"]
        finally:
            left.kill()


def test_a_torn_run_keeps_no_cluster_from_being_ended(tmp_path, capsys):
    torn = a_run(tmp_path / "runs" / "a")
    (torn / store.META).write_text('{"state": ')
    cluster = a_run(tmp_path / "runs" / "b", state=store.UP)
    assert _run(["down", "--out", str(tmp_path / "runs")]) == 3
    assert "a/run.json is not JSON" in joined(capsys)
    assert store.read_meta(cluster).json["state"] == "finished"


@pytest.mark.parametrize("hosts", ['{"tag', json.dumps({"tag": "a", "cleared": False})])
def test_what_only_its_directory_knows_is_never_removed_with_a_run(tmp_path, hosts):
    run, other = a_run(tmp_path / "a", state="failed"), a_run(tmp_path / "b", state="finished")
    (run / store.HOSTS).write_text(hosts)
    (other / store.HOSTS).write_text(json.dumps({"tag": "b", "cleared": True}))
    assert store.clean(tmp_path, keep_failed=False) == [other]
    assert run.exists()
