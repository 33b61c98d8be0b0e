"""What a run holds of programs that it did not start, on hosts that run already: on disk before it is done, and its
healing. Nothing is ever ended or removed: what was stopped goes on, what was killed is started again, and the run's
chains of the packet filter are taken down."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from chaos.errors import DeploymentError, MachineError
from chaos.experiment.attached import Running
from chaos.experiment.inventory import Inventory, Kept, public
from chaos.history.directory import ATTACHED_HOSTS
from chaos.machines.attach.ledger import Held
from chaos.machines.healing.runs import each
from chaos.machines.iptables import FILTER
from chaos.machines.node_package import node_wheel
from chaos.machines.ssh.heal import clear_filter, way_to
from chaos.machines.ssh.host import SshHost

#: So long a program may take until its owner's command names its process, and a pause between two looks.
BORN_S, LOOK_S = 5.0, 0.05
_NAME = re.compile(r"(?!\.)[\w.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramsLeft(Held):
    """``tag``: what the run's chains are named after. ``placed``: the host, by name, of each node; ``programs``: how
    each is found and started; ``names``: what the kernel calls each."""

    FILE = ATTACHED_HOSTS
    DEPLOYMENT = "attach"

    tag: str
    hosts: Kept
    placed: Mapping[str, str]
    programs: Mapping[str, Running]
    names: Mapping[str, str]

    def public(self, inventory: Inventory = ()) -> Self:
        return replace(self, hosts=public(self.hosts, inventory))

    def lines(self) -> list[str]:
        found = [way_to(host) for host in self.hosts]
        for node, host in self.placed.items():
            if self.cuts:
                found.append(f"host {host}: take the run's chains of the packet filter down, as root")
            if node in self.held:
                find, start = (shlex.join(command) for command in (self.programs[node].pid, self.programs[node].start))
                found.append(f"host {host}: let node {node} go on, or start it, by these commands as root:")
                found += [f"host {host}:     {find}", f"host {host}:     {start}"]
        return found

    def check(self) -> None:
        """Raise ``ValueError`` for what can't have been written."""
        if not _NAME.fullmatch(self.tag):
            raise ValueError("tag is a name")
        hosts = {host.name for host in self.hosts}
        if not set(self.placed.values()) <= hosts or not set(self.held) <= set(self.placed):
            raise ValueError("placed holds names of hosts, held those of nodes")
        if set(self.programs) != set(self.placed) or set(self.names) != set(self.placed):
            raise ValueError("programs and names hold what placed holds")


def start(host: SshHost, program: Running, name: str) -> bool:
    """Have the program started by its owner's command; return whether it is there soon. Raises
    :class:`DeploymentError` when that command fails."""
    host.as_root("start_program", start=list(program.start))
    deadline_s = time.monotonic() + BORN_S
    while not (there := host.as_root("program", pid=list(program.pid), known="").get("name") == name):
        if time.monotonic() >= deadline_s:
            break
        time.sleep(LOOK_S)
    return there


def heal(run_directory: Path) -> list[str]:
    """Have the programs be as they were before a killed harness hurt them; return what was done, in sentences. A run
    whose harness still lives is left alone. Raises :class:`DeploymentError` after the last node, for those that can't
    be healed."""
    directory = run_directory.resolve()
    left = ProgramsLeft.read(directory)
    if left is None:
        return []
    if driven := left.driven(directory):
        return driven
    done = each(lambda node: _restore(left, directory.name, node), sorted(left.placed))
    replace(left, cleared=True).write(directory)
    return done


def heal_all(runs_root: Path) -> list[str]:
    """Heal every run in this folder and below it, as :func:`heal` does."""
    return each(heal, ProgramsLeft.runs(runs_root))


def _restore(left: ProgramsLeft, run: str, node: str) -> list[str]:
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
