"""etcd under test: its examples can be read anywhere, and where it is installed a short run with a crash is judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.deployments import process
from chaos.errors import BadInput
from chaos.experiment.reader import load
from chaos.recipe import Recipe
from chaos.testing.drivers import check_driver
from drivers.etcd import RECIPES, Options, create
from stormproof.shipped import experiments
from tests.chaos.deployments.ssh_hosts import Hosts

ROOT = Path(__file__).parents[2]
EXAMPLES = [path for name, path in experiments(ROOT).items() if name.startswith("etcd/")]
SHORT = """\
name: etcd-short
system:
  etcd: {members: 3}
duration: 4s
workloads:
  - register: {clients: 6, objects: 2, rate_per_s: 40, writes: 0.3}
  - lock: {clients: 2, locks: 1}
faults:
  - kill: {target: master}
    at: 1s
    for: 1s
"""
STORM = """\
name: etcd-storm
system:
  etcd: {members: 3}
duration: 8s
workloads:
  - register: {clients: 4, objects: 2, rate_per_s: 20, writes: 0.3}
faults:
  - kill: {target: master}
    at: 1s
    for: 1s
  - pause: {target: master}
    at: 4s
    for: 1s
  - partition: {shape: isolate, target: etcd-1}
    at: 6s
    for: 1s
"""


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_examples_can_be_run(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recipe, "problem", "")
    text = file.read_text("utf-8")
    (deployment,) = {word.split()[0] for word in text.split("--on ")[1:]}
    experiment = load(file, deployment=deployment)
    shown = file.relative_to(ROOT).as_posix() if "examples" in file.parts else f"etcd/{file.stem}"
    assert f"stormproof run {shown} --on {deployment}" in text
    assert experiment.system.name == "etcd"


def test_without_etcd_it_says_how_to_come_by_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(BadInput, match=r"etcd 3\.\S+ is not installed here: `stormproof install etcd@3"):
        load(EXAMPLES[0], deployment="process")


def test_where_etcd_runs_already_none_need_be_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "attached.yaml").write_text(STORM + "attach: {compose: keys}\n")
    assert load(tmp_path / "attached.yaml", deployment="attach").attach.compose == "keys"


@pytest.mark.process
@pytest.mark.skipif(not RECIPES[0].installed, reason="etcd is not installed: `stormproof install etcd`")
def test_a_short_run_with_a_crash_of_the_leader_is_valid(tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text(SHORT)
    words = ("run", "short.yaml", "--on", "process", "--engine", "local", "--out", "runs")
    done = subprocess.run(
        [sys.executable, "-m", "stormproof", *words], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (file,) = tmp_path.glob("runs/*/verdict.json")
    told = json.loads(file.read_text())
    (law,) = (law for law in told["laws"] if law["law"] == "linearizable")
    assert law["validity"] == "VALID" and law["counts"]["objects"] == 5 and law["counts"]["completed"] > 50


def run(tmp_path: Path, *words: str) -> set[str]:
    """Run :data:`STORM`, which must be VALID; the faults that had an effect."""
    (tmp_path / "storm.yaml").write_text(STORM)
    line = [sys.executable, "-m", "stormproof", "run", "storm.yaml", "--engine", "local", "--out", "runs", *words]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    (file,) = tmp_path.glob("runs/*/run.json")
    return set(json.loads(file.read_text())["summary"]["effective_faults"])


@pytest.mark.full
@pytest.mark.docker
@pytest.mark.usefixtures("engine")
@pytest.mark.skipif(not RECIPES[0].installed, reason="etcd is not installed: `stormproof install etcd`")
def test_in_containers_it_finds_what_was_installed_here(tmp_path: Path) -> None:
    assert run(tmp_path, "--on", "docker") == {"kill", "pause", "partition"}


@pytest.mark.full
@pytest.mark.ssh
@pytest.mark.skipif(not RECIPES[0].installed, reason="etcd is not installed: `stormproof install etcd`")
def test_hosts_are_brought_what_was_installed_here_once(tmp_path: Path, hosts: Hosts) -> None:
    def brought() -> list[str]:
        listed = (hosts.shell(number, "ls", "-i", "/root/.stormproof/systems") for number in range(3))
        return [line for lines in listed for line in lines.splitlines() if "etcd" in line]

    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    words = ("--on", "ssh", "--inventory", str(hosts.file(tmp_path)))
    assert run(tmp_path / "first", *words) == {"kill", "pause", "partition"}
    before = brought()
    assert len(before) == 3 and len({line.split()[1] for line in before}) == 1, "one folder each, of one content"
    assert run(tmp_path / "second", *words) and brought() == before


@pytest.mark.full
@pytest.mark.process
@pytest.mark.skipif(not RECIPES[0].installed, reason="etcd is not installed: `stormproof install etcd`")
def test_the_driver_keeps_to_its_contract(tmp_path: Path) -> None:
    """Leaders hand over, members are removed and join again, and lost answers are never taken for failures."""
    host = process.create(run_id="check", directory=tmp_path, seed=1)
    assert check_driver(create(Options()), deployment=host, load_s=3.0) == ("clients of queues: queues() is empty",)
