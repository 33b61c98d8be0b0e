"""Takes down what a run has on its hosts: at its end, or after its harness was killed, from its directory alone."""

from __future__ import annotations

import json
import os
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from chaos import guarded
from chaos.deployment import trace_file
from chaos.errors import ChaosError, DeploymentError, MachineError
from chaos.experiment import inventory
from chaos.experiment.inventory import Host, Inventory
from chaos.history import manifest
from chaos.history.directory import HOSTS, write_json
from chaos.machines import iptables, netem
from chaos.machines.agent.logs import HEAD_BYTES
from chaos.machines.healing import each
from chaos.machines.iptables import FILTER, MANGLE, Table
from chaos.machines.node_package import node_wheel
from chaos.machines.procfs import Process
from chaos.machines.ssh.host import SshHost

#: In a run's directory: where its nodes are, and under which name. Gone, or ``cleared``, when nothing is left there.
FILE = HOSTS
_NAME = re.compile(r"(?!\.)[\w.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a run has on hosts. ``tag``: the name of its folder there, and what its chains are named after. ``placed``:
    the host, by name, of each node. ``harness``: the process that drives it, ``PID:START`` on this machine."""

    tag: str
    harness: str
    hosts: Inventory
    placed: Mapping[str, str]
    cleared: bool = False

    def write(self, directory: Path) -> None:
        hosts = json.loads(inventory.to_json(self.hosts))
        told = {"tag": self.tag, "harness": self.harness, "hosts": hosts, "placed": dict(self.placed)}
        write_json(directory / FILE, {**told, "cleared": self.cleared})

    def done(self) -> Left:
        """The same, when nothing is left there any more."""
        return replace(self, cleared=True)

    @staticmethod
    def read(directory: Path) -> Left | None:
        """None when the run has nothing on any host. Raises :class:`DeploymentError` when the file is damaged: what it
        names is ended and removed, so it must be what was written."""
        path = directory / FILE
        sealed = manifest.read(directory)
        try:
            told = guarded.read_json(path)
            if FILE in sealed.files and (problem := manifest.altered(directory, sealed, FILE, newest=2)):
                raise ValueError(problem)
            left = Left(**{**told, "hosts": inventory.from_json(told["hosts"])})
            left.check()
        except FileNotFoundError:
            return None
        except (ChaosError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DeploymentError(f"{path} can't be read, so nobody knows the run's hosts: {error}") from error
        return None if left.cleared else left

    def check(self) -> None:
        """Raises ``ValueError``: these become names of folders and files, here and there."""
        names = [self.tag, *self.placed]
        if not all(isinstance(name, str) and _NAME.fullmatch(name) for name in names):
            raise ValueError("tag and placed hold names of letters, digits, '-', '_' and '.'")
        if not isinstance(self.harness, str) or self.cleared not in (True, False):
            raise ValueError("harness is a text, cleared is true or false")


def heal(run_directory: Path) -> list[str]:
    """End what a killed harness has left on its hosts, all of them at the same time; tell what was done, in sentences.

    A run whose harness still lives is left alone: it will heal itself. Raises :class:`DeploymentError` for hosts that
    can't be reached, once the others are done.
    """
    directory = run_directory.resolve()
    left = Left.read(directory)
    if left is None:
        return []
    harness = _living(left.harness)
    if harness:
        return [f"run {directory.name} is still driven by process {harness}; stop that first"]
    done: list[str] = []
    problems: list[str] = []

    def clear(host: Host) -> None:
        one = SshHost(host, left.tag, node_wheel())
        nodes = [node for node, name in left.placed.items() if name == host.name]
        try:
            one.connect()
            one.become_root()
            done.extend(f"run {directory.name}: host {host.name}: {what}" for what in take_down(one, nodes, directory))
        except (DeploymentError, MachineError) as error:
            problems.append(str(error))
        finally:
            one.close()

    with ThreadPoolExecutor(max(1, len(left.hosts))) as pool:
        list(pool.map(clear, left.hosts))
    if problems:
        raise DeploymentError("\n".join([*sorted(done), *sorted(problems), "heal again when that is mended"]))
    left.done().write(directory)
    return sorted(done)


def heal_all(runs_root: Path) -> list[str]:
    """The same for every run below this folder."""
    return each(heal, [file.parent for file in sorted(runs_root.glob(f"*/{FILE}"))])


def take_down(host: SshHost, nodes: Sequence[str], directory: Path) -> list[str]:
    """End a run's nodes on one host, save what they traced and said, and remove its chains and its files there."""
    host.own()
    done: list[str] = list(host.call("clear"))
    while fetch(host, nodes, directory):
        pass
    for node in nodes:
        _fetch_end(host, node, log_of(directory, node))
    if host.root_by and _clear_shaping(host):
        done.append("gave back the traffic control of its devices")
    if host.root_by and clear_filter(host, FILTER):
        done.append("removed its chains of the packet filter")
    if host.call("remove"):
        done.append(f"removed {host.folder}")
    return done


def fetch(host: SshHost, nodes: Sequence[str], directory: Path) -> bool:
    """Bring over what nodes have traced and said since the last time; whether there was anything."""
    paths = {f"traces/{node}.jsonl": trace_file(directory, node) for node in nodes}
    paths.update({f"logs/{node}.log": log_of(directory, node) for node in nodes})
    sizes = {name: path.stat().st_size if path.exists() else 0 for name, path in paths.items()}
    sizes = {name: size for name, size in sizes.items() if size < HEAD_BYTES or not name.endswith(".log")}
    found: Mapping[str, str] = host.call("read", files=sizes)
    for name, text in found.items():
        path = paths[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(b64decode(text))
    return bool(found)


def _fetch_end(host: SshHost, node: str, log: Path) -> None:
    """Bring over the end of a log that was too long to be brought over whole."""
    if log.exists() and (size := log.stat().st_size) >= HEAD_BYTES:
        end = b64decode(host.call("rest_of_log", node=node, begin=size))
        with log.open("ab") as file:
            file.write(end)


def log_of(directory: Path, node: str) -> Path:
    return directory / "logs" / f"{node}.log"


def harness() -> str:
    return str(Process.of(os.getpid()))


def clear_filter(host: SshHost, table: Table) -> bool:
    """Take down what the run has in a table of the packet filter; whether there was anything. To ask a flavour makes
    its tables, so the next one is asked only when the first has nothing."""
    for flavour in iptables.FLAVOURS:
        code, saved = host.root(iptables.saving(flavour, table))
        batch = iptables.left_of(iptables.run_chain(host.run), saved, table) if code == 0 else ""
        if batch:
            code, output = host.root(iptables.restore(flavour), batch)
            if code:
                raise DeploymentError(f"host {host.name}: the packet filter refused: {output}")
            return True
    return False


def _clear_shaping(host: SshHost) -> bool:
    """Give back the devices whose traffic the run controls, after what sorts their packets; whether there were any."""
    _, shown = host.root(netem.SHOW)
    ours = [device for device, others in netem.taken(shown, netem.major(host.run)) if not others]
    if ours:
        clear_filter(host, MANGLE)
        code, output = host.root(netem.BATCH, "".join(f"{netem.end(device)}\n" for device in ours))
        if code:
            raise DeploymentError(f"host {host.name}: the traffic control refused: {output}")
    return bool(ours)


def _living(harness: str) -> int:
    """The id of this process, 0 if it has ended."""
    try:
        process = Process.parse(harness)
    except ValueError:
        return 0
    return process.pid if process.state() else 0
