"""One seed is one history, whatever the process that makes it: hash seeds, memory addresses and time don't matter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TIMEOUT_S = 600

#: Every part of the quickstart, in a fifth of its time.
SHORT = """\
name: short
system:
  reference: {controllers: 3, nameservers: 1, brokers: 3, queues: 2}
duration: 9s
workloads:
  - queue: {producers: 3, consumers: 2, rate_per_s: 60}
  - tier_read: {readers: 2, rate_per_s: 10}
  - register: {clients: 4, objects: 2, rate_per_s: 20}
  - lock: {clients: 3, locks: 2}
faults:
  - kill: {target: one}
    at: 1s
    for: 1s
  - partition: {shape: isolate, target: slave}
    at: 3s
    for: 1s
  - switch: {}
    at: 5s
  - add-broker: {}
    at: [1500ms, 5500ms]
  - pause: {target: one}
    at: 6s
    for: 2s
  - loss: {target: one, mode: reset, per_mille: 30}
    random: {mean: 3s}
    for: 1s
  - clock: {target: one}
    at: 2s
    for: 5s
    on: [sim]
"""


def digest(file: Path, out: Path, seed: int, hash_seed: int) -> str:
    words = ["run", str(file), "--on", "sim", "--seed", str(seed), "--engine", "local", "--json", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "stormproof", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: str = json.loads(done.stdout)["digest"]
    return told


def test_one_seed_is_one_history_in_fresh_processes(tmp_path: Path) -> None:
    file = tmp_path / "short.yaml"
    file.write_text(SHORT, "utf-8")
    asked = [(6, 0), (6, 4_294_967_295), (8, 0)]
    with ThreadPoolExecutor(2) as two:
        same, again, another = two.map(lambda one: digest(file, tmp_path / "runs", *one), asked)
    assert again == same
    assert another != same  # a digest of nothing would agree as well


@pytest.mark.full
def test_the_quickstart_is_one_history_in_eight_fresh_processes(tmp_path: Path) -> None:
    file = ROOT / "examples" / "start" / "quickstart.yaml"
    found = {hash_seed: digest(file, tmp_path / "runs", 7, hash_seed) for hash_seed in range(8)}
    assert len(set(found.values())) == 1, found
