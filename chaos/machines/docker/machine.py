"""A node's containers as a machine of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaos.deployment import copy_of
from chaos.effects.corruption import AtDisk, at_disk
from chaos.errors import DeploymentError, MachineError
from chaos.machines.docker.engine import THREADS
from chaos.machines.docker.node import NodeContainers, disk_of
from chaos.machines.docker.resources import MachineFaults
from chaos.machines.folder_disk import RealFiles
from chaos.machines.local_resources import Kind
from chaos.machines.machine import Dial, Life, Places, Signal
from chaos.program import Installation
from chaos.shell import clocks, files_below, node_files
from chaos.shell.launch import Launch
from chaos.shell.node_files import NodeFile

LOG_LINES = 30


class ContainerMachine:
    """Implements :class:`chaos.machines.machine.Machine` for one node. The engine signals what a container's first
    process is; when that ends the kernel ends all others, and a pause stops the container's whole control group."""

    proof: Mapping[str, object] = {}
    losses: Sequence[str] = ()

    def __init__(self, containers: NodeContainers, directory: Path) -> None:
        self.name = containers.name
        self.containers = containers
        self._directory = directory
        self._faults = MachineFaults(containers)
        self._incarnation = 0

    def lives(self, nodes: Sequence[str]) -> Mapping[str, Life]:
        incarnation = self._incarnation  # read first: the state may then be a later life's, never an earlier one's
        state = self.containers.state()
        return {
            self.name: Life(
                incarnation=incarnation,
                pid=state.pid,
                started=state.started,
                state="paused" if state.paused else "running" if state.running else "",
                paused=state.paused,
                exit_code=None if state.running else state.exit_code,
                of_a_fault=self._faults.deadly,
                oom_killed=state.oom_killed and not state.running,
            )
        }

    def start(self, launch: Launch) -> None:
        it = self.containers
        files = replace(
            launch,
            membership=it.file_inside(NodeFile.MEMBERSHIP),
            clock=it.file_inside(NodeFile.CLOCK) if launch.clock else "",
            disk_rules=it.file_inside(NodeFile.DISK_RULES),
        )
        it.start(replace(files, disk=it.disk, trace=it.trace, gate=it.gate))
        # Only now: until it has started, the engine says how the life before has ended.
        self._incarnation = launch.incarnation

    def signal(self, node: str, number: Signal) -> None:
        match number:
            case Signal.KILL:
                self.containers.kill()
            case Signal.TERMINATE:
                self.containers.terminate()
            case Signal.STOP:
                self.containers.pause()
            case Signal.CONTINUE:
                self.containers.resume()
                self._faults.resumed()

    def log(self, node: str) -> str:
        return self.containers.log(LOG_LINES)

    def places(self, node: str) -> Places:
        return Places(disk=self.containers.disk, home=self.containers.home_inside)

    def install(self, recipe: Installation) -> str:
        return self.containers.installed

    def runs_program(self, node: str) -> bool:
        return self.containers.state().running

    def says(self, node: str, pattern: str) -> bool:
        return self.containers.says(pattern)

    def listening(self, node: str) -> Sequence[str]:
        return self.containers.listening()

    def files(self, node: str, globs: Sequence[str]) -> Mapping[str, int]:
        disk, home = disk_of(self._directory, node), self.containers.home
        return {**files_below.matching(home, globs), **files_below.matching(disk, globs)}

    def read(self, node: str, path: str, begin: int, length: int) -> bytes:
        for place in (disk_of(self._directory, node), self.containers.home):
            with suppress(OSError):
                return files_below.read(place, path, begin, length)
        return b""

    def put(self, node: str, file: NodeFile, content: bytes) -> None:
        with self._file_errors():
            node_files.put(self.containers.file(file), content)

    def get(self, node: str, file: NodeFile, begin: int) -> bytes:
        with self._file_errors():
            return node_files.get(self.containers.file(file), begin)

    def wipe(self, node: str) -> int:
        return _empty(disk_of(self._directory, node))

    def at_disk(self, node: str, do: AtDisk, arguments: Mapping[str, Any]) -> Any:
        disk, copy = disk_of(self._directory, node), copy_of(self._directory, node)
        return at_disk(RealFiles(disk), RealFiles(copy), do, arguments)

    def press(self, node: str, kind: Kind, amount: int) -> Mapping[str, object]:
        return self._faults.press(kind, amount)

    def release(self, node: str, kind: Kind) -> None:
        self._faults.release(kind)

    def born(self, node: str) -> None:
        self._faults.born()

    def run_as_root(self, command: Sequence[str], given: str) -> tuple[int, str]:
        return self.containers.run(command, given)

    def reach(self, dials: Sequence[Dial], within_s: float) -> list[bool]:
        def reached(dial: Dial) -> bool:
            host, port = dial.target
            dialling = ["bash", "-c", ': <"/dev/tcp/$0/$1"', host, str(port)]
            return self.containers.succeeds(["timeout", str(within_s), *dialling])

        if len(dials) == 1:
            return [reached(dials[0])]
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(reached, dials))

    @contextmanager
    def _file_errors(self) -> Iterator[None]:
        """Turn what the system complains about into :class:`DeploymentError`."""
        try:
            yield
        except OSError as error:
            raise DeploymentError(f"the files of node {self.name}: {error}") from error

    def check_clocks(self) -> None:
        """Raise :class:`MachineError` when clocks can't be set in containers of this image."""
        if not self.containers.succeeds(["python3", "-m", clocks.__name__]):
            raise MachineError(
                "the image of the nodes has no libfaketime, which faults on their clocks need: remove the image that it"
                " is built upon (`docker rmi stormproof-base:debian`) and have it built again (`stormproof image`); or"
                " say `on: [sim]` for these faults, which needs nothing"
            )


def _empty(disk: Path) -> int:
    """Remove all that is on a disk, but not the folder itself, which the container holds; return how many files that
    were."""
    files = 0
    for path in sorted(disk.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
            files += 1
    return files
