"""What the tests of deployments share that have the command line run a storm, and look at what it left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaos.history.directory import runs
from chaos.history.history import History
from chaos.run.journal import JOURNAL
from tests.chaos.run.journals import pending

ROOT = Path(__file__).parents[3]
STORM = """\
name: short
system: {reference: {controllers: 3, brokers: 3, queues: 2}}
duration: 12s
workloads:
  - queue: {producers: 2, consumers: 1, rate_per_s: 60}
faults:
  - kill: {target: master}
    at: 1s
    for: 2s
  - partition: {shape: isolate, target: slave}
    at: 4s
    for: 2s
  - pause: {target: one}
    at: 7s
    for: 1500ms
  - switch: {}
    at: 9500ms
"""
#: All that is in it, and in the quickstart, was effective.
EFFECTIVE = dict.fromkeys(("kill", "partition", "pause", "switch"), True)
#: Within this time a command has ended, and a storm has begun.
COMMAND_S = 240
BEGIN_S = 90


def command(*words: str, **environment: str) -> tuple[list[str], dict[str, str]]:
    """The words and the environment of a command of Stormproof's, as this checkout has it."""
    line = [sys.executable, "-P", "-m", "stormproof", *words]
    return line, {**os.environ, "PYTHONPATH": str(ROOT), **environment}


def stormproof(cwd: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    line, whole = command(*words, **environment)
    return subprocess.run(line, cwd=cwd, capture_output=True, text=True, timeout=COMMAND_S, env=whole, check=False)


def judged(cwd: Path, scenario: str, *words: str) -> dict[str, Any]:
    """Run a scenario; the run's object as the command line prints it."""
    (cwd / "scenario.yaml").write_text(scenario)
    done = stormproof(cwd, "run", "scenario.yaml", "--engine", "local", "--json", *words)
    assert done.returncode in (0, 1, 2), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def said(found: Mapping[str, Any]) -> str:
    """What a run's object says of its verdict, whole: pytest cuts a message that is no text."""
    return json.dumps({key: found.get(key) for key in ("run", "title", "anomalies", "why")}, indent=1)


def effective(run: Path) -> dict[str, bool]:
    """The faults of a run, and whether each attempt but the refused was effective in the end."""

    rows = [row for row in History.open(run).table.to_pylist() if row["kind"] == "fault" and row["type"] == "ok"]
    ends = [(row["f"], json.loads(row["value"])) for row in rows]
    return {name: value["effective"] for name, value in ends if value["phase"] == "undo"}


def wait_for_fault(cwd: Path, popen: subprocess.Popen[Any]) -> Path:
    """The directory of the run, once something is to be undone in it."""
    deadline_s = time.monotonic() + BEGIN_S
    while not (found := [run for run in runs(cwd / "runs") if (run / JOURNAL).exists() and pending(run)]):
        assert time.monotonic() < deadline_s and popen.poll() is None, "no fault was injected"
        time.sleep(0.02)
    return found[0].resolve()
