"""The kit for authors of deployments: ours pass it, and each way to be wrong has its sentence."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chaos.deployments import docker, netns, process, ssh
from chaos.deployments.process import ProcessDeployment
from chaos.experiment import inventory
from chaos.fault import Undo
from chaos.testing import check_deployment


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Runs in containers are known by their names."""
    return tmp_path / f"{os.getpid()}-{time.monotonic_ns()}"


@pytest.mark.process
def test_processes_pass(directory: Path) -> None:
    left = check_deployment(process.create, directory, heal=process.heal)
    assert left == ("links between nodes that are programs",)


@pytest.mark.full
@pytest.mark.netns
def test_namespaces_pass(directory: Path) -> None:
    assert check_deployment(netns.create, directory, heal=netns.heal) == ()


@pytest.mark.full
@pytest.mark.docker
@pytest.mark.usefixtures("engine")
def test_containers_pass(directory: Path) -> None:
    assert check_deployment(docker.create, directory, heal=docker.heal) == ()


@pytest.mark.full
@pytest.mark.ssh
def test_hosts_pass(directory: Path, tmp_path: Path, hosts: Any) -> None:
    create = partial(ssh.create, inventory=inventory.load(hosts.file(tmp_path)))
    assert check_deployment(create, directory, heal=ssh.heal) == ()


class Forgetful(ProcessDeployment):
    """Undoes nothing."""

    async def undo(self, step: Undo) -> None: ...


class Soft(ProcessDeployment):
    """Only says that it paused a node."""

    async def pause(self, node: str) -> Mapping[str, object]:
        return {"paused": {1}}


class Blind(ProcessDeployment):
    """Its probe says that all is well."""

    async def answers(self, node: str) -> bool:
        return True


class Careless(ProcessDeployment):
    """A wipe leaves the disk as it is."""

    async def wipe(self, node: str) -> Mapping[str, object]:
        return await self.kill(node)


class Speechless(ProcessDeployment):
    """Its logs are gone with the run."""

    def __init__(self, run_id: str, directory: Path, seed: int) -> None:
        super().__init__(run_id, directory, seed)
        self.logs = directory / "logs"

    async def stop(self) -> None:
        await super().stop()
        for log in self.logs.glob("*"):
            log.unlink()


WRONG: list[tuple[type[ProcessDeployment], str]] = [
    (Soft, "keeper-0 serves while it is paused"),
    (Soft, "pause returned {'paused': {1}}, expected a mapping that is JSON"),
    (Blind, "answers(keeper-0) is True while it is paused"),
    (Careless, "keeper-0 still has what was on its disk after wipe"),
    (Speechless, "logs/keeper-0.log lacks what keeper-0 has said"),
]


@pytest.mark.full
@pytest.mark.process
@pytest.mark.parametrize("kind", [Soft, Blind, Careless, Speechless, Forgetful])
def test_what_is_wrong_has_its_sentence(kind: type[ProcessDeployment], directory: Path) -> None:
    made = "keeper-0 does not serve within 20 s after it was resumed" if kind is Forgetful else ""
    said = [made] if made else [text for one, text in WRONG if one is kind]

    def create(*, run_id: str, directory: Path, seed: int) -> ProcessDeployment:
        return kind(run_id, directory.absolute(), seed)

    with pytest.raises(AssertionError) as found:
        check_deployment(create, directory)
    assert all(text in str(found.value) for text in said)
