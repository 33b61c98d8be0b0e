"""A sweep of processes that are killed half-way, and resumed, gives the table of an uninterrupted one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from chaos.judging import masters
from chaos.judging.masters import SECRET_FILE
from chaos.judging.spark import Session
from chaos.judging.standalone import Cluster
from stormproof.sweeping.plan import PACKAGES, create, read
from stormproof.sweeping.sweep import Sweep
from stormproof.sweeping.task import Task
from tests.stormproof.small_runs import BUG, EXPERIMENT

ROOT = Path(__file__).parents[3]
SEEDS = range(12)
BEGIN_S = 240.0
EXECUTOR = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(EXPERIMENT)
    return path


@pytest.fixture
def digest(tmp_path: Path, file: Path) -> str:
    """Of the table of an uninterrupted sweep, made here."""
    directory, plan = create(tmp_path / "whole", [(file, "small", EXPERIMENT)], SEEDS, mutant=BUG)
    for seed in SEEDS:
        assert not Task(directory=str(directory.resolve()), file=0, seed=seed, reports=False).do().error
    return Sweep(directory, plan).table().digest


def stormproof(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "stormproof", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.full
@pytest.mark.process
def test_a_sweep_that_is_killed_and_resumed_loses_nothing(tmp_path: Path, file: Path, digest: str) -> None:
    begun = stormproof(tmp_path, "sweep", file.name, "--seeds", f"0..{SEEDS[-1]}", "--bug", BUG, "--shrink", "none")
    deadline_s = time.monotonic() + BEGIN_S
    while len(list(tmp_path.glob("runs/*/rows/*.json"))) < 3:
        assert begun.poll() is None and time.monotonic() < deadline_s
        time.sleep(0.02)
    begun.kill()
    begun.communicate()
    (directory,) = (tmp_path / "runs").iterdir()
    assert 3 <= len(Sweep(directory, read(directory)).rows) < len(SEEDS)
    resumed = stormproof(tmp_path, "sweep", "--resume", str(directory), "--shrink", "none", "--json")
    out, err = resumed.communicate(timeout=BEGIN_S)
    assert out, err
    told = json.loads(out)
    assert (resumed.returncode, told["done"], told["digest"]) == (1, len(SEEDS), digest), err


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def executors(pids: tuple[int, ...]) -> list[int]:
    """Executors whose parent is one of these processes."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if parent(int(entry.name)) in pids and EXECUTOR in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue
    return sorted(found)


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.parametrize("victim", ["executor", "worker"])
def test_a_stand_alone_master_that_loses_one_gives_the_same_table(
    tmp_path: Path, file: Path, digest: str, victim: str
) -> None:
    """A worker takes its executor along, and does not come back."""
    killed: list[int] = []
    sweep = Sweep(*create(tmp_path / "spark", [(file, "small", EXPERIMENT)], SEEDS, mutant=BUG))
    with Cluster(workers=2, cores=1) as cluster:

        def follow(done: int, failed: int) -> None:
            found = executors(cluster.pids)
            if done and not killed and found:
                killed.append(parent(found[0]) if victim == "worker" else found[0])
                os.kill(killed[0], signal.SIGKILL)

        conf: dict[str, Any] = masters.parse_conf([f"{SECRET_FILE}={cluster.secret_file}"])
        with Session(masters.parse(cluster.url), conf=conf, packages=PACKAGES) as session:
            sweep.run(session=session, on_progress=follow)
    assert killed and sweep.errors == {} and sweep.table().digest == digest
