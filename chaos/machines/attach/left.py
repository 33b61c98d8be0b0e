"""What a run holds of a cluster that it did not start, on disk before it is done, and the healing of it.

Nothing is ever ended or removed here but our own helpers: what was paused goes on, what was killed is started again,
and the run's chains of the packet filter are taken down.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.errors import DeploymentError
from chaos.history.directory import ATTACHED
from chaos.machines import iptables, procfs
from chaos.machines.attach.helper import Helper
from chaos.machines.attach.ledger import Held
from chaos.machines.attach.project import PROJECT
from chaos.machines.docker.engine import DIRECTORY, HARNESS_PROCESS, RUN, USER, connect, engine_errors
from chaos.machines.docker.heal import clear
from chaos.machines.healing.runs import each, made_in

if TYPE_CHECKING:
    from docker import DockerClient

_ID = re.compile(r"[0-9a-f]{12,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectLeft(Held):
    """``project``: the Compose project. ``containers``: of each node."""

    FILE = ATTACHED
    DEPLOYMENT = "attach"

    project: str
    containers: Mapping[str, str]

    def lines(self) -> list[str]:
        found = []
        for node, container in self.containers.items():
            who = f"node {node}: container {container[:12]} of Compose project {self.project}"
            found += [f"{who}: start it, or let it go on"] if node in self.held else []
            found += [f"{who}: take the run's chains of the packet filter down, as root"] if self.cuts else []
        return found

    def check(self) -> None:
        """Raise ``ValueError`` for what can't have been written."""
        if not all(_ID.fullmatch(one) for one in self.containers.values()):
            raise ValueError("containers holds ids")


def stem(directory: Path) -> str:
    """Return what a run's chains are named after: another folder may hold a run of the same name."""
    return iptables.run_chain(str(directory))


def labels(run_id: str, directory: Path) -> dict[str, str]:
    """Return the labels of all helpers of a run."""
    return {RUN: run_id, DIRECTORY: str(directory), HARNESS_PROCESS: procfs.harness(), USER: str(os.getuid())}


def heal(run_directory: Path) -> list[str]:
    """Have the cluster be as it was before a killed harness hurt it; return what was done, in sentences. A run whose
    harness still lives is left alone. Raises :class:`DeploymentError` after the last node, for those that can't be
    healed."""
    left = ProjectLeft.read(run_directory)
    if left is None:
        return []
    if driven := left.driven(run_directory):
        return driven
    client = connect()
    try:
        directory = made_in(run_directory)
        nodes = list(left.containers.items())
        done = each(lambda one: _restore(client, left, run_directory.name, directory, *one), nodes)
        clear(client, directory)
    finally:
        client.close()
    replace(left, cleared=True).write(run_directory)
    return done


def heal_all(runs_root: Path) -> list[str]:
    """Heal every run in this folder and below it, as :func:`heal` does."""
    return each(heal, ProjectLeft.runs(runs_root))


def _restore(
    client: DockerClient, left: ProjectLeft, run: str, directory: Path, node: str, container: str
) -> list[str]:
    from docker.errors import NotFound

    who = f"run {run}: node {node}"
    done = []
    with engine_errors():
        try:
            state = client.api.inspect_container(container)
        except NotFound:
            return [f"{who}: its container is gone, nothing is left to undo"]
        if state["Config"]["Labels"].get(PROJECT) != left.project:
            raise DeploymentError(f"{who}: container {container[:12]} is none of project {left.project}; left as it is")
        running, paused = bool(state["State"]["Running"]), bool(state["State"]["Paused"])
        if node in left.held and paused:
            client.api.unpause(container)
            done.append(f"{who}: let it go on")
        if node in left.held and not running:
            client.api.start(container)
            done.append(f"{who}: started it again")
    if left.cuts and running:
        helper = Helper(client, container, node, labels(run, directory))
        try:
            if helper.clear(stem(directory)):
                done.append(f"{who}: removed the run's chains of the packet filter")
        finally:
            helper.close()
    return done
