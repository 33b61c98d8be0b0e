"""Kafka and NATS in containers, on hosts, and in a Compose project that runs already: quickstart and kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from chaos.experiment.reader import load
from stormproof.install import recipes
from stormproof.shipped import experiments
from tests.chaos.deployments.ssh_hosts import Hosts
from tests.stormproof.compose_project import ComposeProject, services_of

pytest.importorskip("kio", reason="not there: pip install 'stormproof[kafka]'")

ROOT = Path(__file__).parents[2]
EXAMPLES = experiments(ROOT)
#: The numbers of their ports where somebody else has started them.
PORTS: Mapping[str, Mapping[str, int]] = {
    "kafka": {"kafka": 9092, "votes": 9093},
    "nats": {"client": 4222, "cluster": 6222},
}
CASES = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            not recipes(name.split("/")[0])[0].installed, reason=f"not there: `stormproof install {name.split('/')[0]}`"
        ),
    )
    for system in PORTS
    for name in (f"{system}/quickstart", f"{system}/kill")
]
pytestmark = [pytest.mark.full, pytest.mark.parametrize("name", CASES)]


def check(tmp_path: Path, file: Path, *words: str) -> None:
    """Run an experiment, which must be VALID, with all of its faults."""
    line = [sys.executable, "-P", "-m", "stormproof", "run", str(file), "--engine", "local", "--out", "runs", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    (run,) = tmp_path.glob("runs/*/run.json")
    meta = json.loads(run.read_text("utf-8"))
    assert set(meta["summary"]["effective_faults"]) == set(meta["faults"])


@pytest.mark.docker
@pytest.mark.usefixtures("engine")
def test_in_containers(tmp_path: Path, name: str) -> None:
    check(tmp_path, EXAMPLES[name], "--on", "docker")


@pytest.mark.ssh
def test_on_hosts(tmp_path: Path, name: str, hosts: Hosts) -> None:
    check(tmp_path, EXAMPLES[name], "--on", "ssh", "--inventory", str(hosts.file(tmp_path)))


@pytest.fixture
def project(engine: Any, tmp_path: Path, name: str) -> Iterator[ComposeProject]:
    system = load(EXAMPLES[name], deployment="process").system
    made = ComposeProject(engine, tmp_path / "services", services_of(system.build(), PORTS[system.name]))
    try:
        made.wait([next(iter(PORTS[system.name].values()))])
        yield made
    finally:
        made.remove()


@pytest.mark.docker
def test_where_it_runs_already(tmp_path: Path, name: str, project: ComposeProject) -> None:
    numbers = ", ".join(f"{port}: {number}" for port, number in PORTS[name.split("/")[0]].items())
    (tmp_path / "attached.yaml").write_text(
        EXAMPLES[name].read_text("utf-8") + f"attach:\n  compose: {project.name}\n  ports: {{{numbers}}}\n"
    )
    check(tmp_path, tmp_path / "attached.yaml", "--on", "attach")
    assert {state for state, _ in project.states().values()} == {"running"}
