"""Trouble with containers while a run is set up: one sentence that says what to do, and nothing is left behind."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toy_nodes import FORWARD

from chaos.deployments import docker
from chaos.driver import ClusterSpec
from chaos.effects.links import Drop, LinkRule, Reset, Stall, Throttle
from chaos.errors import DeploymentError, MachineError
from chaos.fault import Undo, Verb
from chaos.history import directory as store
from chaos.machines import iptables
from chaos.machines.docker import engine as dockerengine
from chaos.machines.docker.heal import clear
from chaos.machines.docker.node import NodeContainers
from chaos.machines.healing import marks
from chaos.node import NodeSpec
from chaos.plain import PlainCodec, PlainMessage
from tests.chaos.deployments.storms import COMMAND_S, command, stormproof

#: What a shell would run if it ever saw it.
EVIL = "$(touch pwned);`touch pwned`"
SMALL = """\
name: small
system: {reference: {controllers: 1, brokers: 2, queues: 1, topic: "TOPIC"}}
duration: 4s
workloads:
  - queue: {producers: 1, consumers: 1, rate_per_s: 40}
faults:
  - partition: {shape: isolate, target: slave}
    at: 1500ms
    for: 1s
"""


def left_of(engine: Any, directory: Path) -> list[str]:
    containers, networks = dockerengine.of_run(engine, directory)
    return [item.name for item in (*containers, *networks)]


def run(directory: Path, script: Callable[[docker.DockerDeployment], Coroutine[Any, Any, None]]) -> None:
    """Play this on two toys."""
    specs = [NodeSpec(name=f"toy-{number}", role="toy", package="toy_nodes") for number in range(2)]
    deployment = docker.create(run_id=directory.name, directory=directory, seed=1)

    async def main() -> int:
        try:
            await deployment.start(ClusterSpec(nodes=specs, codec=PlainCodec()), lambda row: None)
            await script(deployment)
        finally:
            await deployment.stop()
        return 0

    deployment.execute(main())


def set_up(directory: Path) -> str:
    """Why a cluster of toys can't be set up; all that was started is taken down."""

    async def never(it: docker.DockerDeployment) -> None:
        raise AssertionError("it never gets here")

    with pytest.raises((DeploymentError, MachineError)) as caught:
        run(directory, never)
    return str(caught.value)


@pytest.mark.docker
@pytest.mark.parametrize("part", ["_program", pytest.param("_machine", marks=pytest.mark.full)])
def test_a_container_that_dies_during_set_up_is_named(
    engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    create = NodeContainers.create

    def create_and_lose(self: NodeContainers) -> None:
        create(self)
        if self.name == "toy-1":
            getattr(self, part).remove(force=True)

    monkeypatch.setattr(NodeContainers, "create", create_and_lose)
    told = set_up(tmp_path / "run")
    assert "toy-1" in told and len(told.splitlines()) == 1, told
    assert left_of(engine, tmp_path / "run") == []


def test_an_engine_without_addresses_for_one_more_network_says_how_to_get_some() -> None:
    from docker.errors import APIError

    refusal = "could not find an available, non-overlapping IPv4 address pool among the defaults to assign"
    with pytest.raises(DeploymentError, match=f"refused: {refusal}.*; `stormproof heal --machine` removes"):
        with dockerengine.engine_errors():
            raise APIError("500", explanation=refusal)


@pytest.mark.docker
@pytest.mark.parametrize(
    "flavour", [iptables.FLAVOURS[0], *(pytest.param(one, marks=pytest.mark.full) for one in iptables.FLAVOURS[1:])]
)
def test_rules_act_together_in_either_flavour_of_the_packet_filter(
    engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flavour: str
) -> None:
    monkeypatch.setattr(iptables, "FLAVOURS", (flavour,))

    async def fate(it: docker.DockerDeployment) -> str:
        """What becomes of a request that toy-0 passes on to toy-1."""
        message = PlainMessage(kind=FORWARD, fields={"to": "toy-1"})
        try:
            return "broken" if (await it.connect("client", "toy-0").request(message, 1.0)).error else "answered"
        except TimeoutError:
            return "silent"

    async def script(it: docker.DockerDeployment) -> None:
        assert await fate(it) == "answered"
        for name, action in (("reset", Reset()), ("cut", Drop()), ("loss", Stall(999, 1)), ("limit", Throttle(999))):
            await it.set_rule(name, LinkRule(frozenset({"toy-0"}), frozenset({"toy-1"}), action))
        assert await fate(it) == "silent"
        assert await it.rule_hits("reset") == 0 and await it.rule_hits("loss") > 0, "no reset comes through a cut"
        await it.undo(Undo(verb=Verb.CLEAR_RULE, subject="loss"))
        while not await it.rule_hits("cut"):
            assert await fate(it) == "silent"
        for name in ("cut", "limit"):
            await it.undo(Undo(verb=Verb.CLEAR_RULE, subject=name))
        while await fate(it) == "silent":  # TCP sends again what the cut has held back, in its own time
            continue
        assert await fate(it) == "broken" and await it.rule_hits("reset") > 0
        await it.undo(Undo(verb=Verb.CLEAR_RULE, subject="reset"))
        assert await fate(it) == "answered"

    run(tmp_path / "run", script)
    assert left_of(engine, tmp_path / "run") == []


class Lossy:
    """A socket that leads to the engine, until it is told to end."""

    def __init__(self, path: Path) -> None:
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen(64)
        self._open: list[socket.socket] = []
        self.asked = 0
        self.asks_left = -1
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(dockerengine.DEFAULT_SOCKET)
                self._open += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(source, sink, source is near), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, counts: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if counts and data.startswith((b"POST", b"GET", b"DELETE", b"HEAD")):
                    self.asked += 1
                    if self.asked == self.asks_left:
                        self.end()
                        return
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def end(self) -> None:
        for one in (self._server, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@pytest.fixture
def lossy(engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lossy]:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/s")
    found = Lossy(tmp_path / "s")
    yield found
    found.end()


@pytest.mark.docker
@pytest.mark.parametrize("asks", [25, pytest.param(8, marks=pytest.mark.full)])
def test_an_engine_that_ends_during_set_up_is_one_sentence_and_heal_removes_what_is_left(
    engine: Any, lossy: Lossy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asks: int
) -> None:
    lossy.asks_left = asks
    told = set_up(tmp_path / "run")
    assert told.startswith("Docker's engine ") and "`stormproof heal" in told and len(told.splitlines()) == 1, told
    monkeypatch.delenv("DOCKER_HOST")
    deadline = time.monotonic() + 10
    while True:
        clear(engine, tmp_path / "run")  # which heal does once this harness is gone
        left = left_of(engine, tmp_path / "run")
        if not left or time.monotonic() > deadline:  # what it was asked for last the engine may still be making
            break
    assert left == []


@pytest.mark.docker
def test_what_an_experiment_and_a_path_say_is_never_a_word_of_a_shell(engine: Any, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL.replace("TOPIC", EVIL))
    parent = f"out {EVIL};:=,x".replace("/", "-")
    done = stormproof(tmp_path, "run", "small.yaml", "--on", "docker", "--engine", "local", "--json", "--out", parent)
    assert done.returncode == 0 and json.loads(done.stdout)["verdict"] == "VALID", done.stderr
    (made,) = store.runs(tmp_path / parent)
    assert left_of(engine, made.resolve()) == []
    assert list(tmp_path.rglob("pwned")) == []


@pytest.mark.docker
def test_a_run_that_was_moved_is_healed_once_its_mark_says_where_it_was_made(engine: Any, tmp_path: Path) -> None:
    run = tmp_path / f"run-{os.getpid()}-{time.monotonic_ns()}"
    run.mkdir()
    store.write_meta(run, {"run": run.name, "directory": str(run.resolve()), "deployment": "docker"})
    labels = {dockerengine.RUN: run.name, dockerengine.DIRECTORY: str(run.resolve())}
    network = engine.networks.create(run.name, driver="bridge", internal=True, labels=labels)
    try:
        moved = run.rename(tmp_path / "moved")
        assert docker.heal(moved) == [] and docker.heal_all(tmp_path / "moved") == []
        (line,) = docker.claimed(moved, run, ()).lines
        assert line == f"remove the network {run.name} of the run in {run}"
        replace(marks.Mark.fresh(moved, "docker"), made=run.resolve()).write()
        done = docker.heal(moved)
        assert done == [f"run {run.name}: removed the network {run.name}"] and left_of(engine, run.resolve()) == []
    finally:
        for left in engine.networks.list(names=[network.name]):
            left.remove()


def test_heal_without_an_engine_does_not_say_that_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    for name, deployment, state in (("a", "docker", "finished"), ("b", "process", "running"), ("c", "docker", "")):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").write_text(
            json.dumps({"run": name, "seed": 0, "deployment": deployment, "state": state or "finished"})
        )
    assert docker.heal_all(tmp_path / "runs") == []
    store.update_meta(tmp_path / "runs" / "c", state="running")
    with pytest.raises(DeploymentError, match=r"c: it ran in containers; what it left is unknown: no Docker engine"):
        docker.heal_all(tmp_path / "runs")


@pytest.mark.docker
def test_an_image_that_is_missing_ends_the_run_before_anything_is_started(engine: Any, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    line, environment = command("run", "small.yaml", "--on", "docker", "--engine", "local")
    other = "import sys, chaos.machines.docker.engine as it; it.IMAGE = 'stormproof-node:none'; import stormproof.cli"
    line = [line[0], "-P", "-c", f"{other}; sys.argv = {line[3:]!r}; stormproof.cli.main()"]
    done = subprocess.run(
        line, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=COMMAND_S, check=False
    )
    assert done.returncode == 3 and "`stormproof image` builds it" in done.stderr and "Traceback" not in done.stderr
    assert not store.runs(tmp_path / "runs")
