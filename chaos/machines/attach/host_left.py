"""What a run holds of programs that it did not start, on hosts that run already: on disk before it is done, and its
healing. Nothing is ever ended or removed: what was stopped goes on, what was killed is started again, and the run's
chains of the packet filter are taken down."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from chaos import guarded
from chaos.errors import ChaosError, DeploymentError, MachineError
from chaos.experiment import inventory
from chaos.experiment.attached import Running
from chaos.experiment.inventory import Inventory
from chaos.history import manifest
from chaos.history.directory import ATTACHED_HOSTS, write_json
from chaos.machines.healing import each
from chaos.machines.iptables import FILTER
from chaos.machines.node_package import node_wheel
from chaos.machines.procfs import Process
from chaos.machines.ssh.heal import clear_filter
from chaos.machines.ssh.host import SshHost

#: So long a program may take until its owner's command tells its process, and a pause between two looks.
BORN_S, LOOK_S = 5.0, 0.05
_NAME = re.compile(r"(?!\.)[\w.-]+")
_PROGRAMS = TypeAdapter(dict[str, Running])


@dataclass(frozen=True, slots=True, kw_only=True)
class HostsLeft:
    """``tag``: what the run's chains are named after. ``harness``: the process that drives the run, ``PID:START``.
    ``placed``: the host, by name, of each node; ``programs``: how each is found and started; ``names``: what the kernel
    calls each. ``held``: the nodes that the run has killed or stopped. ``cuts``: links are cut. ``cleared``: nothing is
    left there any more."""

    tag: str
    harness: str
    hosts: Inventory
    placed: Mapping[str, str]
    programs: Mapping[str, Running]
    names: Mapping[str, str]
    held: tuple[str, ...] = ()
    cuts: bool = False
    cleared: bool = False

    def write(self, directory: Path) -> None:
        write_json(directory / ATTACHED_HOSTS, {**asdict(self), "hosts": json.loads(inventory.to_json(self.hosts))})

    @staticmethod
    def read(directory: Path) -> HostsLeft | None:
        """None when nothing is left. Raises :class:`DeploymentError` when the file is not what was written: what it
        holds is run as root."""
        path = directory / ATTACHED_HOSTS
        try:
            sealed, told = manifest.read(directory), guarded.read_json(path)
            if ATTACHED_HOSTS in sealed.files and (
                problem := manifest.altered(directory, sealed, ATTACHED_HOSTS, newest=2)
            ):
                raise ValueError(problem)
            hosts, programs = inventory.from_json(told["hosts"]), _PROGRAMS.validate_python(told["programs"])
            left = HostsLeft(**{**told, "hosts": hosts, "programs": programs, "held": tuple(told["held"])})
            left.check()
        except FileNotFoundError:
            return None
        except (ChaosError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DeploymentError(f"{path} can't be read, so nobody knows what the run holds: {error}") from error
        return None if left.cleared else left

    def check(self) -> None:
        """Raises ``ValueError`` for what can't have been written."""
        if not _NAME.fullmatch(self.tag) or self.cleared not in (True, False):
            raise ValueError("tag is a name, cleared is true or false")
        hosts = {host.name for host in self.hosts}
        if not set(self.placed.values()) <= hosts or not set(self.held) <= set(self.placed):
            raise ValueError("placed holds names of hosts, held those of nodes")
        if set(self.programs) != set(self.placed) or set(self.names) != set(self.placed):
            raise ValueError("programs and names hold what placed holds")


def start(host: SshHost, program: Running, name: str) -> bool:
    """Have the program started by its owner's command; whether it is there soon. Raises :class:`DeploymentError` when
    that command fails."""
    host.as_root("start_program", start=list(program.start))
    deadline_s = time.monotonic() + BORN_S
    while not (there := host.as_root("program", pid=list(program.pid), known="").get("name") == name):
        if time.monotonic() >= deadline_s:
            break
        time.sleep(LOOK_S)
    return there


def heal(run_directory: Path) -> list[str]:
    """Have the programs be as they were before a killed harness hurt them; what was done, in sentences. A run whose
    harness still lives is left alone. Raises :class:`DeploymentError` after the last node, for those that can't be
    healed."""
    directory = run_directory.resolve()
    left = HostsLeft.read(directory)
    if left is None:
        return []
    try:
        living = Process.parse(left.harness)
    except ValueError:
        living = None
    if living is not None and living.state():
        return [f"run {directory.name} is still driven by process {living.pid}; stop that first"]
    done = each(lambda node: _restore(left, directory.name, node), sorted(left.placed))
    replace(left, cleared=True).write(directory)
    return done


def heal_all(runs_root: Path) -> list[str]:
    """The same for every run below this folder."""
    return each(heal, [file.parent for file in sorted(runs_root.glob(f"*/{ATTACHED_HOSTS}"))])


def _restore(left: HostsLeft, run: str, node: str) -> list[str]:
    who, program = f"run {run}: node {node}", left.programs[node]
    (place,) = (host for host in left.hosts if host.name == left.placed[node])
    host = SshHost(place, left.tag, node_wheel())
    done = []
    try:
        host.connect()
        host.become_root()
        if left.cuts and clear_filter(host, FILTER):
            done.append(f"{who}: removed the run's chains of the packet filter")
        if node in left.held:
            found = host.as_root("program", pid=list(program.pid), known="")
            if found.get("name") == left.names[node]:
                host.as_root("signal_program", process=found["process"], name="SIGCONT")
                done += [f"{who}: let it go on"] if found["paused"] else []
            elif start(host, program, left.names[node]):
                done.append(f"{who}: started it again")
            else:
                raise DeploymentError(
                    f"{who}: its command has started it, and it is not there: see its log on {place.name}"
                )
    except MachineError as error:
        raise DeploymentError(f"{who}: {error}") from error
    finally:
        host.close()
    return done
