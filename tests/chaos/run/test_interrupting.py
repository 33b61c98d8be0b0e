"""Ctrl-C ends a run within a bound, whatever clients make of it: faults are undone, and nothing is recorded after."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.deployments import process
from chaos.driver import Profile
from chaos.experiment.model import Schedule
from chaos.machines import procfs, real_time
from chaos.run import runner
from chaos.workload import Load
from drivers.reference.driver import Options, create
from tests.chaos.run.journals import pending
from tests.chaos.run.test_runner import Rows, experiment, fault
from workloads.queue import Queue

pytestmark = pytest.mark.process

BOUND_S = 1.0
#: The undo of the fault, and the end of the cluster.
BESIDES_S = 30.0
came_s: list[float] = []


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(runner, "INTERRUPT_S", BOUND_S)
    monkeypatch.setattr(real_time, "LEFT", [])
    came_s.clear()
    yield


async def _interrupt(load: Load) -> None:
    await load.sleep(1.5)  # the fault strikes before
    came_s.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)


async def swallows(self: Queue, load: Load) -> None:
    """A client library that takes a cancellation for one more trouble of its connection."""
    await _interrupt(load)
    while not load.stopping:
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            continue


async def records(self: Queue, load: Load) -> None:
    """The same, whose answers a workload would record."""
    await _interrupt(load)
    while True:
        load.record("op", type="invoke", f="send", process="p.0", queue=0)
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            continue


async def blocks(self: Queue, load: Load) -> None:
    """A client library whose calls block."""
    await _interrupt(load)
    await asyncio.to_thread(ENDS.wait, 60)


async def obeys(self: Queue, load: Load) -> None:
    await _interrupt(load)
    await asyncio.sleep(60)


ENDS = threading.Event()


@pytest.mark.parametrize(("client", "left"), [(swallows, True), (records, False), (blocks, True), (obeys, False)])
def test_no_client_holds_up_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client, left) -> None:  # type: ignore[no-untyped-def]
    ENDS.clear()
    monkeypatch.setattr(Queue, "run", client)
    plan = experiment(fault("pause", Schedule(at_s=(0.5,)), for_s=0.0, target="one"), duration_s=60.0)
    plan = replace(plan, profile=Profile(min_in_sync=1))
    deployment = process.create(run_id="toy", directory=tmp_path, seed=1)
    rows, told = Rows(deployment.now_ns), list[tuple[float, str]]()
    summary = runner.run(
        plan,
        deployment=deployment,
        driver=create(Options(queues=1, brokers=1, controllers=1, tier=False)),
        directory=tmp_path,
        seed=1,
        recorder=rows,
        on_progress=lambda phase, seconds: told.append((time.monotonic(), phase)),
    )
    ended_s, recorded = time.monotonic(), len(rows.rows)
    time.sleep(0.3)
    assert summary.interrupted and summary.phases[-1] == "stop" and ended_s - came_s[0] < BOUND_S + BESIDES_S
    assert next(at_s for at_s, phase in told if phase == runner.STOPPING) - came_s[0] < BOUND_S, "it is said at once"
    assert bool(real_time.LEFT) == left and len(rows.rows) == recorded
    assert rows.rows[-1]["f"] == "end" and rows.rows[-1]["value"] == {"interrupted": True}
    assert rows.where(kind="fault", f="pause", type="ok") and pending(tmp_path) == []
    assert not procfs.of_run(tmp_path)
    ENDS.set()
