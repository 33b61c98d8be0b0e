"""A system of others, two programs in plain Python, under test by a package from outside of the tree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chaos import plugins
from chaos.errors import BadInput
from chaos.experiment.reader import load
from chaos.history.directory import runs
from chaos.plugins import PluginKind
from chaos.testing import check_driver
from tests.chaos.deployments.storms import effective, said
from tests.stormproof.foreign import ANYWHERE, EXPERIMENT, OUTSIDE, PARTITION, TOY, installed

ROOT = Path(__file__).parents[2]
FAULTS = {"kill", "pause", "hiccup", "partition"}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return installed(tmp_path / "site")


def judged(cwd: Path, site: Path, faults: str, *words: str) -> dict[str, Any]:
    (cwd / "tinyq.yaml").write_text(EXPERIMENT + faults)
    line = [sys.executable, "-P", "-m", "stormproof", "run", "tinyq.yaml", "--engine", "local", "--json", *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(site)))}
    done = subprocess.run(line, cwd=cwd, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode in (0, 1, 2), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def proven(cwd: Path) -> set[str]:
    """The faults whose effect was proven."""
    (run,) = runs(cwd / "runs")
    return {name for name, holds in effective(run).items() if holds}


def laws_of(cwd: Path) -> dict[str, str]:
    (path,) = cwd.glob("runs/*/verdict.json")
    return {law["law"]: law["validity"] for law in json.loads(path.read_text("utf-8"))["laws"]}


@pytest.mark.process
def test_it_is_valid_when_it_is_killed_and_stopped(tmp_path: Path, site: Path) -> None:
    found = judged(tmp_path, site, ANYWHERE, "--on", "process")
    assert found["verdict"] == "VALID", said(found)
    laws = laws_of(tmp_path)
    assert {laws[law] for law in ("durability", "order", "consumers", "availability", "read-back")} == {"VALID"}
    assert laws["agreement"] == "VALID"
    (run,) = tmp_path.glob("runs/*")
    assert {path.name for path in (run / "kept/queue-0").rglob("*") if path.is_file()} == {"log", "tinyq.json"}
    assert "tinyq serves" in (run / "logs/queue-0.log").read_text()


@pytest.mark.full
def test_its_planted_bug_is_found(tmp_path: Path, site: Path) -> None:
    assert judged(tmp_path, site, ANYWHERE, "--on", "process", "--bug", "lazy")["verdict"] == "INVALID"
    laws = laws_of(tmp_path)
    assert laws["durability"] == laws["read-back"] == "INVALID"


@pytest.mark.full
@pytest.mark.process
def test_a_backup_that_holds_something_else_is_found_by_reading_through_it(tmp_path: Path, site: Path) -> None:
    calm = "  - pause: {target: queue-1}\n    at: 1s\n    for: 300ms\n"
    found = judged(tmp_path, site, calm, "--on", "process", "--bug", "garbled")
    assert found["verdict"] == "INVALID"
    laws = laws_of(tmp_path)
    assert {law for law, validity in laws.items() if validity == "INVALID"} == {"agreement"}


@pytest.mark.full
@pytest.mark.netns
@pytest.mark.parametrize(("mutant", "verdict"), [("", "VALID"), ("lazy", "INVALID"), ("garbled", "INVALID")])
def test_in_namespaces_its_links_are_cut_too(tmp_path: Path, site: Path, mutant: str, verdict: str) -> None:
    words = ("--on", "netns", *(("--bug", mutant) if mutant else ()))
    assert judged(tmp_path, site, ANYWHERE + PARTITION, *words)["verdict"] == verdict
    assert proven(tmp_path) == FAULTS


@pytest.mark.full
@pytest.mark.docker
@pytest.mark.parametrize(("mutant", "verdict"), [("", "VALID"), ("lazy", "INVALID"), ("garbled", "INVALID")])
def test_in_containers_its_links_are_cut_too(
    tmp_path: Path, site: Path, engine: Any, mutant: str, verdict: str
) -> None:
    words = ("--on", "docker", *(("--bug", mutant) if mutant else ()))
    assert judged(tmp_path, site, ANYWHERE + PARTITION, *words)["verdict"] == verdict
    assert proven(tmp_path) == FAULTS


@pytest.mark.full
@pytest.mark.ssh
@pytest.mark.parametrize(("mutant", "verdict"), [("", "VALID"), ("lazy", "INVALID"), ("garbled", "INVALID")])
def test_on_hosts_its_links_are_cut_too(tmp_path: Path, site: Path, hosts: Any, mutant: str, verdict: str) -> None:
    inventory = ("--inventory", str(hosts.file(tmp_path)))
    words = ("--on", "ssh", *inventory, *(("--bug", mutant) if mutant else ()))
    assert judged(tmp_path, site, ANYWHERE + PARTITION, *words)["verdict"] == verdict
    assert proven(tmp_path) == FAULTS
    (run,) = tmp_path.glob("runs/*")
    assert "tinyq serves" in (run / "logs/queue-0.log").read_text() and (run / "kept/queue-0/log").stat().st_size


@pytest.mark.parametrize(
    ("deployment", "faults", "said"),
    [
        (
            "sim",
            ANYWHERE,
            "sim runs no programs of others, and node queue-0 is one; what would do: `--on docker`, ",
        ),
        (
            "process",
            PARTITION,
            "node queue-1 is a program, whose links to other nodes process can't rule; what would do: `--on docker`",
        ),
        (
            "process",
            "  - torn_write: {target: master}\n    at: 1s\n",
            "node queue-0 is a program, to which it can't be done: what it has not synced is the kernel's, and outlives"
            " it; what would do: `lose_unsynced`, or `kill`, which ends it",
        ),
        (
            "docker",
            "  - clock: {target: queue-1}\n    at: 1s\n    for: 1s\n",
            "node queue-1 is a program, to which it can't be done: it does not report what its clocks show",
        ),
        (
            "docker",
            "  - memory: {target: queue-0}\n    at: 1s\n    for: 1s\n",
            "node queue-0 is a program, to which it can't be done: an image of others may lack",
        ),
    ],
)
def test_what_cannot_be_done_to_it_is_refused_before_the_start(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch, deployment: str, faults: str, said: str
) -> None:
    monkeypatch.syspath_prepend(site)
    (tmp_path / "tinyq.yaml").write_text(EXPERIMENT + faults)
    with pytest.raises(BadInput) as caught:
        load(tmp_path / "tinyq.yaml", deployment=deployment)
    assert said in str(caught.value)


def test_links_of_its_clients_are_ruled_everywhere(tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(site)
    (tmp_path / "tinyq.yaml").write_text(EXPERIMENT + "  - loss: {target: client}\n    at: 1s\n    for: 1s\n")
    assert load(tmp_path / "tinyq.yaml", deployment="process").faults_on("process", 1)
    (tmp_path / "tinyq.yaml").write_text(EXPERIMENT + PARTITION)
    assert load(tmp_path / "tinyq.yaml", deployment="docker").faults_on("docker", 1)


def test_the_server_knows_nothing_of_us() -> None:
    text = (OUTSIDE / "mystorm/tinyq_server.py").read_text("utf-8")
    assert (
        "import chaos" not in text
        and "from chaos" not in text
        and "stormproof" not in text.lower().replace("nothing of stormproof is in here", "")
    )


@pytest.mark.process
@pytest.mark.parametrize(
    ("deployment", "mutant"),
    [
        ("process", ""),
        pytest.param("process", "garbled", marks=pytest.mark.full),
        pytest.param("netns", "", marks=[pytest.mark.netns, pytest.mark.full]),
    ],
)
def test_its_driver_keeps_to_what_is_asked_of_drivers(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch, deployment: str, mutant: str
) -> None:
    monkeypatch.syspath_prepend(site)
    driver = plugins.load(PluginKind.DRIVER, "tinyq")
    monkeypatch.setattr(f"{TOY}.REQUEST_S", 0.5)
    host = plugins.load(PluginKind.DEPLOYMENT, deployment).create(run_id="check", directory=tmp_path / "run", seed=1)
    try:
        left = check_driver(driver.create(driver.Options()), deployment=host, mutant=mutant, load_s=1.0)
    except AssertionError as error:
        assert mutant and "pull delivers another hash" in str(error)
    else:
        assert not mutant
        assert left == ("collect: it records nothing, and the driver declares nothing that it would record",)
