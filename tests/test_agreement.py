"""One experiment file comes to the same verdict in the simulator, on processes and in containers: for the correct
system, and for planted bugs that the experiment forces to show."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).parent.parent
#: A planted bug is found within this many runs.
TRIES = 5
TIMEOUT_S = 240

HEAD = """\
name: agreement
system:
  reference: {queues: 2, tier_segment_bytes: 8192}
duration: 9s
workloads:
  - queue: {producers: 6, consumers: 2, rate_per_s: 120}
faults:
"""
#: The master goes on without its replicas, and clients still reach it.
STALE_MASTER = """\
  - partition: {shape: halves, target: master}
    at: 3s
    for: 3s
"""
#: Every broker loses what it has not synced.
POWER_CUT = """\
  - kill: {target: all}
    at: [4s, 7s]
    for: 500ms
"""
#: The tier gets new uploaders that must go on where the last one stopped.
SWITCHES = """\
  - switch: {}
    at: [3s, 5s, 7s]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An experiment's faults, the planted bug that they force to show, and the anomalies of which one must tell it."""

    faults: str
    mutant: str
    shows: tuple[str, ...]


CASES = {
    "stale_master": Case(faults=STALE_MASTER, mutant="ack-before-replication", shows=("lost",)),
    # A group whose replicas all find that their disks lack what was confirmed has no candidate for a master any more:
    # then nobody can drain it and count the lost messages, but the logs tell that confirmed records are gone.
    "power_cut": Case(faults=POWER_CUT, mutant="ack-before-fsync", shows=("lost", "confirm-rollback")),
    "switches": Case(faults=SWITCHES, mutant="resume-from-zero", shows=("tier-overlap",)),
}
#: One of them stands for all in the short suite.
PARAMETERS = [pytest.param(name, marks=() if name == "switches" else pytest.mark.full) for name in CASES]


@pytest.fixture(params=["sim", "process", pytest.param("docker", marks=pytest.mark.docker)])
def deployment(request: pytest.FixtureRequest) -> str:
    if request.param == "docker":
        request.getfixturevalue("engine")
    return str(request.param)


def run(tmp_path: Path, case: Case, deployment: str, seed: int, mutant: str = "") -> dict[str, Any]:
    """The run's object as the command line prints it."""
    file = tmp_path / "agreement.yaml"
    file.write_text(HEAD + case.faults, "utf-8")
    words = ["run", str(file), "--on", deployment, "--seed", str(seed), "--engine", "local", "--json"]
    words += ["--out", str(tmp_path / "runs"), *(["--mutant", mutant] if mutant else [])]
    done = subprocess.run(
        [sys.executable, "-m", "chaos.cli", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_correct_system_is_valid_everywhere(name: str, deployment: str, tmp_path: Path) -> None:
    found = run(tmp_path, CASES[name], deployment, seed=1)
    assert found["verdict"] == "VALID", found


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_planted_bug_is_found_everywhere(name: str, deployment: str, tmp_path: Path) -> None:
    case, seen = CASES[name], []
    for seed in range(1, TRIES + 1):
        seen.append(run(tmp_path, case, deployment, seed, case.mutant))
        if seen[-1]["verdict"] == "INVALID" and set(case.shows) & set(seen[-1]["anomalies"]):
            return
    pytest.fail(f"{case.mutant} was not found in {TRIES} runs on {deployment}: {seen}")
