"""Kafka under test: its examples can be read anywhere, and where it is installed a short run with a crash is judged."""

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
from drivers.kafka import RECIPES, Options, create
from stormproof.shipped import experiments

pytest.importorskip("kio", reason="not there: pip install 'stormproof[kafka]'")

ROOT = Path(__file__).parents[2]
EXAMPLES = [path for name, path in experiments(ROOT).items() if name.startswith("kafka/")]
SHORT = """\
name: kafka-short
system:
  kafka: {}
duration: 8s
bounds: {available_s: 60, recover_s: 90, drain_s: 60}
workloads:
  - queue: {producers: 2, consumers: 1, rate_per_s: 40}
faults:
  - kill: {target: master}
    at: 1s
    for: 1s
"""
needs_kafka = pytest.mark.skipif(not RECIPES[0].installed, reason="Kafka is not installed: `stormproof install kafka`")


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_examples_can_be_run(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recipe, "problem", "")
    text = file.read_text("utf-8")
    (deployment,) = {word.split()[0] for word in text.split("--on ")[1:]}
    assert load(file, deployment=deployment).system.name == "kafka"
    assert f"stormproof run {file.relative_to(ROOT).as_posix()} --on {deployment}" in text


def test_without_kafka_it_says_how_to_come_by_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(BadInput, match=r"kafka 3\.9\.1 is not installed here: `stormproof install kafka@3\.9\.1`"):
        load(ROOT / "examples/systems/kafka/quickstart.yaml", deployment="process")


@pytest.mark.process
@needs_kafka
def test_a_short_run_with_a_crash_of_a_leader_is_valid(tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text(SHORT)
    words = ("run", "short.yaml", "--on", "process", "--engine", "local", "--out", "runs")
    done = subprocess.run(
        [sys.executable, "-m", "stormproof", *words], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    (file,) = tmp_path.glob("runs/*/verdict.json")
    counts = {law["law"]: law["counts"] for law in json.loads(file.read_text())["laws"]}
    assert counts["durability"]["acked"] > 50 and counts["agreement"]["records_compared"] > 50


@pytest.mark.full
@pytest.mark.process
@needs_kafka
@pytest.mark.parametrize("version", [recipe.version for recipe in RECIPES if recipe.installed])
def test_the_driver_keeps_to_its_contract(version: str, tmp_path: Path) -> None:
    """Leaders hand over, replicas are read one by one, and lost answers are never taken for failures."""
    host = process.create(run_id="check", directory=tmp_path, seed=1)
    check_driver(create(Options(version=version)), deployment=host, load_s=5.0, ready_s=120.0)
