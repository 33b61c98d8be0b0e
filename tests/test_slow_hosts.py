"""A slow host changes no simulated history: nothing that the simulator reaches looks at a clock of this machine."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chaos.deployments._sim.node import SimNode
from chaos.experiment.reader import load
from chaos.history.digests import digest
from chaos.history.history import History
from stormproof.launch import SIM, Launch, start
from stormproof.shipped import experiments
from tests.test_determinism import SHORT

EXAMPLES = ("restarted_views", "last_record_from_tier", "slow_disks_power_cut", "too_few_in_sync")
#: Clocks that jump ahead, by up to so many seconds each time they are read.
CLOCKS = {"time": 5000.0, "monotonic": 50.0, "perf_counter": 50.0, "process_time": 50.0}


@contextmanager
def slow_host(seed: int) -> Iterator[Callable[..., None]]:
    """Another thread takes the processor at any moment, all clocks jump, garbage is collected often; and whoever calls
    what this yields loses some milliseconds now and then."""
    rng, ended = Random(seed), threading.Event()

    def hog() -> None:
        mine = Random(seed + 1)
        while not ended.wait(mine.uniform(0.002, 0.03)):
            until = real["perf_counter"]() + mine.uniform(0, 0.004)
            while real["perf_counter"]() < until:
                pass

    def jumping(name: str) -> Callable[[], float]:
        ahead = 0.0

        def read() -> float:
            nonlocal ahead
            ahead += rng.random() * CLOCKS[name]
            return float(real[name]() + ahead)

        return read

    def stall(*_: object) -> None:
        if rng.random() < 0.005:
            time.sleep(rng.uniform(0.001, 0.008))

    real = {name: getattr(time, name) for name in CLOCKS}
    jumps = {name: jumping(name) for name in CLOCKS}
    patched = jumps | {f"{name}_ns": lambda name=name: int(1e9 * jumps[name]()) for name in CLOCKS}
    switches, collections = sys.getswitchinterval(), gc.get_threshold()
    thread = threading.Thread(target=hog, daemon=True)
    with pytest.MonkeyPatch.context() as patch:
        for name, clock in patched.items():
            patch.setattr(time, name, clock)
        sys.setswitchinterval(1e-5)
        gc.set_threshold(300, 2, 2)
        thread.start()
        try:
            yield stall
        finally:
            ended.set()
            thread.join()
            sys.setswitchinterval(switches)
            gc.set_threshold(*collections)


def history(file: Path, out: Path, seed: int, on_row: Callable[..., None] | None = None) -> str:
    launch = Launch(experiment=load(file, deployment=SIM), file=file, deployment=SIM, seed=seed, mutant="", out=out)
    table, damage = History.open(start(launch, on_row=on_row)).recorded()
    assert not damage and table.num_rows > 300
    return digest(table)


def slow_history(file: Path, out: Path, seed: int) -> str:
    with slow_host(seed) as stall:
        return history(file, out, seed, stall)


def short(tmp_path: Path) -> Path:
    file = tmp_path / "short.yaml"
    file.write_text(SHORT, "utf-8")
    return file


@pytest.mark.full
@pytest.mark.parametrize("name", ["short", *EXAMPLES])
def test_a_seed_has_the_same_history_on_a_slow_host(name: str, tmp_path: Path) -> None:
    file = short(tmp_path) if name == "short" else experiments()[name]
    changed = [
        seed
        for seed in range(8)
        if slow_history(file, tmp_path / "slow", seed) != history(file, tmp_path / "fast", seed)
    ]
    assert not changed, f"what {name} does with these seeds depends on how fast the host is: {changed}"


def _too_late(start_timer: Callable[[SimNode, str, int], int], read: Callable[[], float]) -> Callable[..., int]:
    """A bug: a node that was not asked for long, by a clock of the host, hurries."""
    last = read()

    def bad(self: SimNode, name: str, delay_ns: int) -> int:
        nonlocal last
        idle, last = read() - last, read()
        return start_timer(self, name, delay_ns if idle < 1 else delay_ns // 2)

    return bad


def test_a_node_that_looks_at_a_clock_of_the_host_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = experiments()["last_record_from_tier"]
    kept: Any = SimNode.start_timer
    found = []
    for run in (history, slow_history):
        monkeypatch.setattr(SimNode, "start_timer", _too_late(kept, lambda: time.perf_counter()))
        found.append(run(file, tmp_path / run.__name__, 1))
    assert found[0] != found[1]
