"""What a container's state says belongs to the life that it was asked about."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from chaos.machines.docker.machine import ContainerMachine
from chaos.machines.docker.node import NodeContainers, State
from chaos.machines.lifecycle.crashes import Crashes
from chaos.node import NodeSpec
from chaos.shell.launch import Launch


class Containers:
    """Those of one node. ``meanwhile``: what happens while the engine starts the program."""

    name = GATE = disk = trace = gate = ""

    def __init__(self, directory: Path) -> None:
        self.machine = directory
        self.running, self.exit_code = False, 0
        self.meanwhile: Any = lambda: None

    def file_inside(self, file: object) -> str:
        return ""

    def state(self) -> State:
        return State(running=self.running, paused=False, pid=1, started="", exit_code=self.exit_code)

    def start(self, launch: Launch) -> None:
        self.meanwhile()
        self.running = True


def launch(incarnation: int) -> Launch:
    return Launch(
        spec=NodeSpec(name="n", role="r", package="reference"),
        nodes=("n",),
        incarnation=incarnation,
        seed=0,
        disk="",
        trace="",
    )


def test_while_a_killed_node_is_started_again_its_end_is_not_taken_for_one_of_the_next_life(tmp_path: Path) -> None:
    containers, crashes = Containers(tmp_path), Crashes(lambda node, incarnation: False)
    machine = ContainerMachine(cast(NodeContainers, containers), tmp_path)
    machine.start(launch(1))
    crashes.expect("", 1)
    containers.running, containers.exit_code = False, 137
    containers.meanwhile = lambda: crashes.note(machine, [""])
    machine.start(launch(2))
    assert crashes.noted == () and machine.lives([""])[""].incarnation == 2


def test_a_life_that_ends_of_itself_is_a_crash(tmp_path: Path, monkeypatch: Any) -> None:
    containers, crashes = Containers(tmp_path), Crashes(lambda node, incarnation: False)
    machine = ContainerMachine(cast(NodeContainers, containers), tmp_path)
    monkeypatch.setattr(ContainerMachine, "log", lambda self, node: "the end")
    machine.start(launch(1))
    containers.running, containers.exit_code = False, 1
    crashes.note(machine, [""])
    (crash,) = crashes.noted
    assert (crash.incarnation, crash.exit_code) == (1, 1)
