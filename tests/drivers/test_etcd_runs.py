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

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "etcd").glob("*.yaml"))
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


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_examples_can_be_run(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recipe, "program", lambda self, path: Path("/bin/etcd"))
    text = file.read_text("utf-8")
    (deployment,) = {word.split()[0] for word in text.split("--on ")[1:]}
    experiment = load(file, deployment=deployment)
    assert f"stormproof run {file.relative_to(ROOT)} --on {deployment}" in text
    assert experiment.system.name == "etcd"


def test_without_etcd_it_says_how_to_come_by_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(BadInput, match=r"etcd 3\.\S+ is not installed here: `stormproof install etcd@3"):
        load(EXAMPLES[0], deployment="process")


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


@pytest.mark.full
@pytest.mark.process
@pytest.mark.skipif(not RECIPES[0].installed, reason="etcd is not installed: `stormproof install etcd`")
def test_the_driver_keeps_to_its_contract(tmp_path: Path) -> None:
    """Leaders hand over, members are removed and join again, and lost answers are never taken for failures."""
    host = process.create(run_id="check", directory=tmp_path, seed=1)
    assert check_driver(create(Options()), deployment=host, load_s=3.0) == ("clients of queues: queues() is empty",)
