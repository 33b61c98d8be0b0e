"""A node that a stranger kills in mid-run is started again, and is an unplanned fault in the history."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.deployments import process
from chaos.driver import Profile
from chaos.experiment.model import Bounds
from chaos.machines import procfs
from chaos.run import runner
from chaos.workload import Load
from drivers.reference.driver import Options, create
from tests.chaos.run.journals import pending
from tests.chaos.run.test_runner import Rows, experiment
from workloads.queue import Queue

pytestmark = pytest.mark.process

NODE = "broker-0"
PATIENT = Bounds(recover_s=20.0)


def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, bounds: Bounds = PATIENT) -> Rows:
    """A run in which somebody sends the broker this signal."""
    original = Queue.run

    async def unlucky(self: Queue, load: Load) -> None:
        async def strike() -> None:
            await load.sleep(1.0)
            (pid,) = (one.pid for one in procfs.marked({procfs.NODE: NODE, procfs.RUN: procfs.mark(tmp_path)}))
            os.kill(pid, number)

        await load.gather(original(self, load), strike())

    monkeypatch.setattr(Queue, "run", unlucky)
    deployment = process.create(run_id="toy", directory=tmp_path, seed=1)
    rows = Rows(deployment.now_ns)
    plan = replace(experiment(duration_s=6.0), bounds=bounds, profile=Profile(min_in_sync=1))
    driver = create(Options(queues=1, brokers=1, controllers=1, tier=False))
    runner.run(plan, deployment=deployment, driver=driver, directory=tmp_path, seed=1, recorder=rows)
    assert pending(tmp_path) == [] and not procfs.of_run(tmp_path)
    return rows


def test_a_sigkill_of_a_stranger_is_a_fault_on_that_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = played(tmp_path, monkeypatch, signal.SIGKILL)
    asked, struck, undone = rows.where(kind="fault", f="accident")
    assert asked["value"]["effects"] == {"takes_down": [NODE], "may_crash": [NODE]} == struck["value"]["proven"]
    assert 0 < asked["value"]["detail"]["since_ns"] <= asked["time_ns"]
    assert f"{NODE}, life 1, ended by SIGKILL" in asked["value"]["detail"]["what"]
    assert struck["value"]["proof"][NODE] == {"incarnation": 1, "exit_code": -9}
    assert undone["value"]["phase"] == "undo" and undone["value"]["effective"]
    (killed,) = rows.where(kind="harness", f="killed")
    assert "nothing shows who did" in killed["value"]["what"] and not rows.where(kind="harness", f="crash")
    assert rows.where(kind="harness", f="recovered"), "it was started again"


def test_a_node_that_ends_itself_is_a_crash_and_no_accident(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = played(tmp_path, monkeypatch, signal.SIGABRT, Bounds(recover_s=2.0, drain_s=3.0))
    assert not rows.where(kind="fault") and not rows.where(kind="harness", f="killed")
    (crash,) = rows.where(kind="harness", f="crash")
    assert crash["value"]["what"].startswith(f"{NODE}, life 1, ended by SIGABRT; ")
    assert rows.where(kind="harness", f="not_recovered"), "nobody starts it again"


def test_a_node_that_the_kernel_killed_is_no_crash_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from chaos.machines.agent.machine import AgentMachine

    lives = AgentMachine.lives

    def starved(self: AgentMachine, nodes: list[str]) -> dict[str, object]:
        return {node: replace(life, oom_killed=not life.alive) for node, life in lives(self, nodes).items()}

    monkeypatch.setattr(AgentMachine, "lives", starved)
    rows = played(tmp_path, monkeypatch, signal.SIGKILL)
    asked, *_ = rows.where(kind="fault", f="accident")
    assert "the kernel killed it for want of memory" in asked["value"]["detail"]["what"]
    assert not rows.where(kind="harness", f="killed") and not rows.where(kind="harness", f="crash")
