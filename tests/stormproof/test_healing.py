"""Healing in odd states: a run that was moved, one that can't be healed beside one that can, what only a run knows."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from chaos.deployments import process, ssh
from chaos.errors import DeploymentError
from chaos.history import directory as store
from chaos.machines import procfs
from chaos.machines.healing import made_in
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
