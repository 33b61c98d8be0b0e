"""Removes what a run has in Docker's engine, found by labels alone: at its end, or after its harness was killed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos import guarded
from chaos.errors import ChaosError, DeploymentError, MachineError
from chaos.history import directory as store
from chaos.machines import procfs
from chaos.machines.docker.engine import (
    DIRECTORY,
    HARNESS_PROCESS,
    IN_USE,
    NODE,
    PART,
    PROGRAM,
    RUN,
    THREADS,
    connect,
    engine_errors,
    explain,
    labels_of,
    of_run,
)
from chaos.machines.healing.left import Claim
from chaos.machines.healing.runs import belonging_to, each, made_in

if TYPE_CHECKING:
    from docker import DockerClient

#: So often it is looked what is left to remove, and a network is tried to be removed, with a pause between two tries.
MOST_LOOKS, PAUSE_S = 5, 0.5


def heal(run_directory: Path) -> list[str]:
    """Remove what a killed harness has left of its run; return what was done, in sentences.

    A run whose harness still lives is left alone: it will heal itself. Raises :class:`MachineError` without an engine.
    """
    client = connect()
    try:
        return _heal(client, made_in(run_directory), run_directory)
    finally:
        client.close()


def heal_all(runs_root: Path) -> list[str]:
    """Heal every run in this folder and below it that the engine knows, as :func:`heal` does. Raises
    :class:`DeploymentError` where there is no engine, for the runs of which it would have to be asked."""
    try:
        client = connect()
    except MachineError as error:
        unknown = [
            f"run {run.name}: it ran in containers; what it left is unknown: {error}" for run in _open(runs_root)
        ]
        if unknown:
            raise DeploymentError("\n".join(unknown)) from error
        return []
    try:
        runs = sorted(_known(client, runs_root))
        return each(lambda directory: _heal(client, Path(directory), Path(directory)), runs)
    finally:
        client.close()


def leftovers(runs_root: Path) -> list[str]:
    """Return what :func:`heal_all` would do, in sentences; nothing where there is no engine."""
    try:
        client = connect()
    except MachineError:
        return []
    try:
        return [line for run in sorted(_known(client, runs_root)) for line in _lines(client, Path(run))]
    finally:
        client.close()


def claimed(run_directory: Path, made: Path, inventory: object) -> Claim:
    """Return what healing this run would do if it was made in the directory that it says. Raises :class:`MachineError`
    without an engine."""
    client = connect()
    try:
        return Claim(lines=_lines(client, made))
    finally:
        client.close()


def _known(client: DockerClient, root: Path) -> set[str]:
    """Return the directories of the runs in this folder and below it of which the engine has something."""
    containers, networks = of_run(client)
    return set(filter(belonging_to(root), (labels_of(item)[DIRECTORY] for item in (*containers, *networks))))


def _lines(client: DockerClient, made: Path) -> list[str]:
    containers, networks = of_run(client, made)
    if harness := _living_harness((*containers, *networks)):
        return [f"the run in {made} is still driven by process {harness}: it is left alone"]
    found = [("container", item) for item in containers] + [("network", item) for item in networks]
    return [f"remove the {what} {item.name} of the run in {made}" for what, item in found]


def _open(runs_root: Path) -> Iterator[Path]:
    """Yield the runs in containers below this folder that have not come to their end."""
    for run in store.runs(runs_root):
        try:
            meta = store.read_meta(run)
        except ChaosError:
            continue  # torn; where it ran is unknown
        if meta.deployment == "docker" and meta.state not in ("finished", "failed"):
            yield run


def clear(client: DockerClient, directory: Path, home: Path | None = None) -> list[str]:
    """Remove all containers of the run that was made in this directory, then its network; what the nodes said is saved
    first, at ``home`` if the run was moved there. Looks again until nothing is found: an engine that has lost whom it
    answers goes on with what it was asked for."""
    done: list[str] = []
    for _ in range(MOST_LOOKS):
        containers, networks = of_run(client, directory)
        if not containers and not networks:
            break
        with ThreadPoolExecutor(THREADS) as pool:
            done += [
                sentence for sentence in pool.map(partial(_remove, home=home or directory), containers) if sentence
            ]
        done += [sentence for sentence in map(partial(_remove_network, directory.name), networks) if sentence]
    return done


def log_of(directory: Path, node: str) -> Path:
    return directory / "logs" / f"{node}.log"


def _heal(client: DockerClient, directory: Path, home: Path) -> list[str]:
    containers, networks = of_run(client, directory)
    harness = _living_harness((*containers, *networks))
    if harness:
        return [f"run {directory.name} is still driven by process {harness}; stop that first"]
    return clear(client, directory, home)


def _living_harness(items: Iterable[Any]) -> int:
    """Return the id of the process that drives these, 0 if it has ended."""
    return max((procfs.living(labels_of(item).get(HARNESS_PROCESS)) for item in items), default=0)


def _remove_network(run: str, network: Any) -> str:
    """Remove a network whose containers are gone; return what was done, "" if somebody else was first.

    An engine whose containers were removed at the same time may take the network for one in use still. It goes on to do
    so until all that it counts there is disconnected by force."""
    from docker.errors import APIError, NotFound

    with engine_errors():
        for look in range(MOST_LOOKS):
            try:
                network.remove()
            except NotFound:
                return ""
            except APIError as error:
                if look == MOST_LOOKS - 1 or IN_USE not in explain(error):
                    raise
                _disconnect_all(network)
                time.sleep(PAUSE_S)
            else:
                break
    return f"run {run}: removed the network {network.name}"


def _disconnect_all(network: Any) -> None:
    """Disconnect by force all that the engine counts in this network."""
    from docker.errors import NotFound

    with suppress(NotFound):
        network.reload()
        for endpoint in (network.attrs.get("Containers") or {}).values():
            network.disconnect(endpoint["Name"], force=True)


def _remove(container: Any, home: Path) -> str:
    """Remove one container with what it holds; return what was done, but for a node's second container."""
    from docker.errors import NotFound

    labels = labels_of(container)
    with engine_errors():
        try:
            if labels.get(PART) == PROGRAM:
                _save_log(container, home, labels[NODE])
            container.remove(force=True, v=True)
        except NotFound:
            return ""
    if labels.get(PART) != PROGRAM:
        return ""
    paused = ", which was paused" if container.status == "paused" else ""
    return f"run {labels[RUN]}: removed the containers of node {labels[NODE]}{paused}"


def _save_log(container: Any, directory: Path, node: str) -> None:
    """Write what the node said to the run's directory, if that is still there."""
    path = log_of(directory, node)
    try:
        if directory.is_dir() and not path.parent.is_symlink():  # who made the run may have had it lead elsewhere
            path.parent.mkdir(exist_ok=True)
            guarded.replace(path, container.logs())
    except OSError:
        pass  # a full disk must not keep the container alive
