"""What a run holds of a cluster that it did not start, on disk before it is done, and the healing of it.

Nothing is ever ended or removed here but our own helpers: what was paused goes on, what was killed is started again,
and the run's chains of the packet filter are taken down.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from chaos import guarded
from chaos.errors import ChaosError, DeploymentError
from chaos.history import manifest
from chaos.history.directory import ATTACHED, write_json
from chaos.machines import iptables
from chaos.machines.attach.helper import Helper
from chaos.machines.attach.project import PROJECT
from chaos.machines.docker.engine import DIRECTORY, HARNESS_PROCESS, RUN, USER, connect, told
from chaos.machines.docker.heal import clear
from chaos.machines.healing import each, made_in
from chaos.machines.procfs import Process

if TYPE_CHECKING:
    from docker import DockerClient

_ID = re.compile(r"[0-9a-f]{12,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """``harness``: the process that drives the run, ``PID:START``. ``project``: the Compose project. ``containers``: of
    each node. ``held``: the nodes that the run has killed or paused. ``cuts``: links are cut. ``cleared``: nothing is
    left there any more."""

    harness: str
    project: str
    containers: Mapping[str, str]
    held: tuple[str, ...] = ()
    cuts: bool = False
    cleared: bool = False

    def write(self, directory: Path) -> None:
        write_json(directory / ATTACHED, asdict(self))

    @staticmethod
    def read(directory: Path) -> Left | None:
        """None when nothing is left. Raises :class:`DeploymentError` when the file is not what was written."""
        path = directory / ATTACHED
        try:
            sealed, found = manifest.read(directory), guarded.read_json(path)
            if ATTACHED in sealed.files and (problem := manifest.altered(directory, sealed, ATTACHED, newest=2)):
                raise ValueError(problem)
            left = Left(**{**found, "held": tuple(found["held"])})
            if not all(_ID.fullmatch(one) for one in left.containers.values()) or left.cleared not in (True, False):
                raise ValueError("containers holds ids, cleared is true or false")
        except FileNotFoundError:
            return None
        except (ChaosError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DeploymentError(f"{path} can't be read, so nobody knows what the run holds: {error}") from error
        return None if left.cleared else left


def harness() -> str:
    return str(Process.of(os.getpid()))


def stem(directory: Path) -> str:
    """What a run's chains are named after: another folder may hold a run of the same name."""
    return iptables.run_chain(str(directory))


def labels(run_id: str, directory: Path) -> dict[str, str]:
    """Of all helpers of a run."""
    return {RUN: run_id, DIRECTORY: str(directory), HARNESS_PROCESS: harness(), USER: str(os.getuid())}


def heal(run_directory: Path) -> list[str]:
    """Have the cluster be as it was before a killed harness hurt it; what was done, in sentences. A run whose harness
    still lives is left alone. Raises :class:`DeploymentError` after the last node, for those that can't be healed."""
    left = Left.read(run_directory)
    if left is None:
        return []
    try:
        living = Process.parse(left.harness)
    except ValueError:
        living = None
    if living is not None and living.state():
        return [f"run {run_directory.name} is still driven by process {living.pid}; stop that first"]
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
    """The same for every run below this folder."""
    return each(heal, [file.parent for file in sorted(runs_root.glob(f"*/{ATTACHED}"))])


def _restore(client: DockerClient, left: Left, run: str, directory: Path, node: str, container: str) -> list[str]:
    from docker.errors import NotFound

    who = f"run {run}: node {node}"
    done = []
    with told():
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
