"""Who stops a sweep gets it stopped: at once when asked twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BEGIN_S = 60
END_S = 30


@pytest.mark.parametrize("pause_s", [0.5, pytest.param(0.0, marks=pytest.mark.full)])
def test_a_sweep_that_is_told_twice_to_stop_ends_with_all_its_workers(tmp_path: Path, pause_s: float) -> None:
    words = [
        "run",
        "quickstart",
        "--on",
        "sim",
        "--seeds",
        "0..29",
        "--out",
        "runs",
    ]
    popen = subprocess.Popen(
        [sys.executable, "-m", "stormproof", *words, "--engine", "local"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline_s = time.monotonic() + BEGIN_S
        while not list(tmp_path.glob("runs/*/history.arrows")):
            assert popen.poll() is None and time.monotonic() < deadline_s
            time.sleep(0.05)
        popen.send_signal(signal.SIGTERM)
        time.sleep(pause_s)
        popen.send_signal(signal.SIGTERM)
        popen.wait(END_S)
        deadline_s = time.monotonic() + END_S
        while _lives(popen.pid):
            assert time.monotonic() < deadline_s, "workers are left"
            time.sleep(0.05)
    finally:
        if _lives(popen.pid):
            os.killpg(popen.pid, signal.SIGKILL)
        popen.wait()


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
