"""A test that fails, or is ended in the middle, leaves no nodes: they end with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaos.machines import procfs
from tests.left_behind import end_processes

ROOT = Path(__file__).parent.parent
#: Starts what a run would, and says where; then it fails, or waits to be ended.
BROKEN = """
import os, subprocess, sys, time
def test_it(tmp_path):
    run = str(tmp_path / "runs" / "one")
    subprocess.Popen(["sleep", "600"], env={**os.environ, "STORMPROOF_RUN": run}, start_new_session=True)
    open(os.environ["SAID"], "w").write(run)
    time.sleep(float(os.environ["WAITS_S"]))
    assert False
"""


@pytest.mark.process
@pytest.mark.parametrize("ended", [False, True], ids=["fails", "ended"])
def test_what_a_test_has_started_ends_with_it(ended: bool, tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text(BROKEN)
    said = tmp_path / "said"
    words = ["-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "test_broken.py"]
    environment = {"PYTHONPATH": str(ROOT), "SAID": str(said), "WAITS_S": "600" if ended else "0"}
    line = [sys.executable, *words, "--basetemp", str(tmp_path / "base")]
    with subprocess.Popen(
        line, cwd=tmp_path, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True
    ) as tests:
        while ended and not (said.exists() and said.read_text()):
            assert tests.poll() is None
            time.sleep(0.02)
        if ended:
            tests.send_signal(signal.SIGTERM)
        out, _ = tests.communicate(timeout=60)
        assert tests.returncode == (pytest.ExitCode.INTERRUPTED if ended else pytest.ExitCode.TESTS_FAILED), out
    assert procfs.of_run(Path(said.read_text())) == []


@pytest.mark.process
def test_nothing_ends_that_belongs_to_another_folder(tmp_path: Path) -> None:
    environment = {**os.environ, procfs.RUN: procfs.mark(tmp_path / "one")}
    with subprocess.Popen(["sleep", "600"], env=environment) as other:
        assert end_processes(tmp_path / "on") == [] and other.poll() is None
        assert [process.pid for process in end_processes(tmp_path)] == [other.pid]
        assert other.wait(10) == -signal.SIGKILL
