"""NATS under test: its examples can be read anywhere, and where it is installed a short run with a crash is judged."""

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
from drivers.nats import RECIPES, Options, create
from stormproof.shipped import experiments

ROOT = Path(__file__).parents[2]
EXAMPLES = [path for name, path in experiments(ROOT).items() if name.startswith("nats/")]
ABSENT = pytest.mark.skipif(not RECIPES[0].installed, reason="NATS is not installed: `stormproof install nats`")
SHORT = """\
name: nats-short
system:
  nats: {servers: 3, replicas: 3}
duration: 12s
bounds: {available_s: 30}
min_acked: 10
workloads:
  - queue: {producers: 2, consumers: 2, rate_per_s: 40}
faults:
  - kill: {target: master}
    at: 5s
    for: 1s
"""


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_examples_can_be_run(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recipe, "problem", "")
    text = file.read_text("utf-8")
    (deployment,) = {word.split()[0] for word in text.split("--on ")[1:]}
    assert load(file, deployment=deployment).system.name == "nats"
    assert f"stormproof run {file.relative_to(ROOT).as_posix()} --on {deployment}" in text


def test_without_nats_it_says_how_to_come_by_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(BadInput, match=r"nats 2\.\S+ is not installed here: `stormproof install nats@2"):
        load(EXAMPLES[0], deployment="process")


@pytest.mark.process
@ABSENT
def test_a_short_run_with_a_crash_of_the_leader_is_valid(tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text(SHORT)
    words = ("run", "short.yaml", "--on", "process", "--engine", "local", "--out", "runs")
    done = subprocess.run(
        [sys.executable, "-m", "stormproof", *words], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    (file,) = tmp_path.glob("runs/*/verdict.json")
    judged = {law["law"]: law for law in json.loads(file.read_text())["laws"]}
    assert {judged[law]["validity"] for law in ("durability", "agreement", "roles")} == {"VALID"}
    acked = judged["durability"]["counts"]["acked"]
    assert acked > 10 and judged["agreement"]["counts"]["log_records"] >= 3 * acked, "the disks of all three are read"


@pytest.mark.full
@pytest.mark.process
@ABSENT
def test_the_driver_keeps_to_its_contract(tmp_path: Path) -> None:
    """Leaders hand over, disks are read, and lost answers are never taken for failures."""
    host = process.create(run_id="check", directory=tmp_path, seed=1)
    assert check_driver(create(Options()), deployment=host, load_s=3.0) == ()
