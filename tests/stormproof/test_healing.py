"""Healing in odd states: a run that was moved, one that can't be healed beside one that can, what only a run knows."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.deployments import process, ssh
from chaos.errors import DeploymentError
from chaos.history import directory as store
from chaos.history import manifest
from chaos.machines import procfs
from chaos.machines.agent.commands import Agent, boot_id
from chaos.machines.healing import made_in
from chaos.machines.local_resources import Pressure
from chaos.machines.ssh.heal import Left
from tests.stormproof.test_up import stormproof

#: Of a harness that has ended.
GONE = f"{2**30}:1"


def a_run(directory: Path, **told: object) -> Path:
    directory.mkdir(parents=True)
    meta = {"run": directory.name, "seed": 0, "directory": str(directory.resolve()), "deployment": "process", **told}
    store.write_meta(directory, meta)
    return directory


def test_a_run_that_was_moved_is_healed_from_where_it_is_now(tmp_path):
    run = a_run(tmp_path / "here" / "storm-0")
    environment = {**os.environ, procfs.RUN: procfs.mark(run), procfs.HARNESS_PROCESS: GONE, procfs.NODE: "node-0"}
    with subprocess.Popen(["sleep", "60"], env=environment) as left:
        try:
            moved = run.rename(tmp_path / "elsewhere")
            assert process.heal(moved) == [f"run elsewhere: ended the node node-0 (process {left.pid})"]
        finally:
            left.kill()


def test_the_copy_of_a_run_is_not_taken_for_it(tmp_path):
    run, copy = a_run(tmp_path / "storm-0"), tmp_path / "copy"
    copy.mkdir()
    (copy / store.META).write_text((run / store.META).read_text())
    assert made_in(copy) == copy.resolve() and made_in(run) == run.resolve()


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


def test_an_altered_run_json_leads_to_no_other_run(tmp_path):
    run, gone = a_run(tmp_path / "storm-0"), a_run(tmp_path / "storm-1").rename(tmp_path / "moved")
    text = (run / store.META).read_text()
    (run / store.META).write_text(text.replace(str(run), str(tmp_path / "storm-1")))
    assert made_in(run) == run.resolve() and made_in(gone) == tmp_path / "storm-1"


@pytest.mark.parametrize(
    "changes",
    [{"tag": "../../etc"}, {"tag": "b"}, {"placed": {"../../x": "h"}}, {"hosts": [{"host": "-oProxyCommand=x"}]}],
    ids=["tag", "other", "node", "host"],
)
@pytest.mark.parametrize("sealed", [True, False])
def test_altered_hosts_are_neither_asked_nor_cleared(tmp_path, changes, sealed):
    run = a_run(tmp_path / "a")
    Left(tag="a", harness=GONE, hosts=(), placed={}).write(run)
    told = {**json.loads((run / store.HOSTS).read_text()), **changes}
    (run / store.HOSTS).write_text(json.dumps(told))
    if not sealed:  # then only what it means is looked at
        (run / manifest.FILE).unlink()
    if sealed or changes != {"tag": "b"}:
        with pytest.raises(DeploymentError, match=r"hosts.json can't be read, so nobody knows the run's hosts"):
            ssh.heal(run)
    assert not json.loads((run / store.HOSTS).read_text())["cleared"]


def test_a_run_that_cannot_be_healed_keeps_no_other_one_from_it(tmp_path):
    torn, whole = a_run(tmp_path / "a"), a_run(tmp_path / "b")
    (torn / store.HOSTS).write_text('{"tag')
    Left(tag="b", harness=GONE, hosts=(), placed={}).write(whole)
    with pytest.raises(DeploymentError, match=r"a/hosts.json can't be read, so nobody knows the run's hosts"):
        ssh.heal_all(tmp_path)
    assert json.loads((whole / store.HOSTS).read_text())["cleared"]


def test_a_torn_run_keeps_no_cluster_from_being_ended(tmp_path):
    torn = a_run(tmp_path / "runs" / "a")
    (torn / store.META).write_text('{"state": ')
    cluster = a_run(tmp_path / "runs" / "b", state=store.UP)
    done = stormproof(tmp_path, "down")
    assert done.returncode == 3 and "a/run.json is no JSON" in done.stderr
    assert store.read_meta(cluster)["state"] == "finished"


@pytest.mark.parametrize("hosts", ['{"tag', json.dumps({"tag": "a", "cleared": False})])
def test_what_only_its_directory_knows_is_never_removed_with_a_run(tmp_path, hosts):
    run, other = a_run(tmp_path / "a", state="failed"), a_run(tmp_path / "b", state="finished")
    (run / store.HOSTS).write_text(hosts)
    (other / store.HOSTS).write_text(json.dumps({"tag": "b", "cleared": True}))
    assert store.clean(tmp_path, keep_failed=False) == [other]
    assert run.exists()
