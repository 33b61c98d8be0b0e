"""``stormproof run --master URL``: a run is judged there; what is wrong about the master is told before it begins."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import Mock

import pytest

from chaos.errors import MachineError
from chaos.judging import class_archive
from chaos.judging.standalone import Cluster
from chaos.machines.netns import trial
from chaos.shell import clocks
from stormproof import cli
from stormproof.commands import _judging
from tests.stormproof.small_runs import EXPERIMENT


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    monkeypatch.chdir(tmp_path)
    return ["run", "small.yaml", "--on", "sim"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--master", "mesos://h:1"], "'mesos://h:1' is no Spark master"),
        (["--conf", "memory=1g"], "'memory=1g' is no setting of Spark"),
        (["--engine", "local", "--master", "local[1]"], "are for Spark"),
        (["--master", "spark://127.0.0.1:1"], "no Spark master can be reached at spark://127.0.0.1:1"),
        (["--seeds", "1..2", "--master", "local[1]"], "`stormproof sweep --master URL` runs many seeds on a master"),
        (["--conf", "spark.authenticate.secret.file=nowhere"], "nowhere can't be read"),
    ],
)
def test_a_wrong_master_costs_no_run(
    more: list[str], said: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli._run([*words, *more]) == cli.ERROR
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("error: ") and said in lines[-1]
    assert not any("Traceback" in line for line in lines)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [(["--engine", "spark"], "Spark needs Java 17 or newer"), (["--on", "docker"], "no Docker engine: ")],
)
def test_what_this_machine_lacks_is_said_before_anything_is_written(
    more: list[str],
    said: str,
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(class_archive, "_version", lambda java: -1)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    assert cli._run([*words, *more]) == cli.ERROR
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1) and err.startswith(f"error: {said}")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("fault", "found", "said"),
    [
        ("kill: {}", MachineError("this system gives no namespaces"), "this system gives no namespaces"),
        ("slow_link: {}", {"netem": "Error: unknown", "tee": ""}, "slow_link: the kernel of this machine has no netem"),
        ("duplication: {}", {"netem": "", "tee": "no TEE"}, "duplication: packets between nodes can't be duplicated"),
        ("clock: {jump_s: 1}", {"netem": "", "tee": ""}, "this machine has no libfaketime"),
    ],
)
def test_what_namespaces_lack_for_the_faults_is_said_before_anything_is_written(
    fault: str,
    found: MachineError | dict[str, str],
    said: str,
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "small.yaml").write_text(f"{EXPERIMENT}  - {fault}\n    at: 1s\n")
    monkeypatch.setattr(trial, "tried", Mock(side_effect=[found]))
    monkeypatch.setattr(clocks, "installed", lambda: False)
    assert cli._run([*words, "--on", "netns"]) == cli.ERROR
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1) and err.startswith(f"error: {said}")
    assert not (tmp_path / "runs").exists()


def test_small_runs_need_no_java(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_archive, "_version", lambda java: -1)
    assert cli._run([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["engine"] == "local"
    monkeypatch.setattr(_judging, "SPARK_BYTES", 1)
    assert cli._run(["check", "latest", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["engine"] == "local" and "in this process: Spark" in err


@pytest.mark.spark
@pytest.mark.full
def test_a_run_is_judged_on_the_master_that_was_named(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster(workers=1) as cluster:
        wrong = tmp_path / "wrong"
        wrong.write_text("not the secret")
        conf = f"spark.authenticate.secret.file={wrong}"
        assert cli._run([*words, "--master", cluster.url, "--conf", conf]) == cli.ERROR
        told = capsys.readouterr().err.splitlines()[-1]
        assert told.startswith("error: ") and "does not take our secret" in told and not (tmp_path / "runs").exists()

        conf = f"spark.authenticate.secret.file={cluster.secret_file}"
        assert cli._run([*words, "--master", cluster.url, "--conf", conf, "--json"]) == 0
        out, err = capsys.readouterr()
        assert f"Spark ({cluster.url}) will judge the run; waiting for it to start" in err
        verdict = json.loads(out)
        assert verdict["verdict"] == "VALID" and verdict["engine"] == "spark"

        assert cli._run(["replay", "--master", cluster.url, "--conf", conf, "--json"]) == 0
        again = json.loads(capsys.readouterr().out)
        assert again["digest"] == verdict["digest"] and again["engine"] == "spark"
