"""Takes down what a run has on its hosts: at its end, or after its harness was killed, from its mark alone."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from chaos.deployment import trace_file
from chaos.errors import DeploymentError, MachineError
from chaos.experiment.inventory import Host, Inventory, Kept, public
from chaos.history.directory import HOSTS
from chaos.machines import iptables, netem
from chaos.machines.agent.logs import HEAD_BYTES
from chaos.machines.healing.left import Claim, Left
from chaos.machines.healing.runs import added_to, each
from chaos.machines.iptables import FILTER, MANGLE, Table
from chaos.machines.node_package import node_wheel
from chaos.machines.ssh.host import SshHost

_NAME = re.compile(r"(?!\.)[\w.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostsLeft(Left):
    """What a run has on hosts. ``tag``: the name of its folder there, and what its chains are named after. ``placed``:
    the host, by name, of each node."""

    FILE = HOSTS
    DEPLOYMENT = "ssh"

    tag: str
    hosts: Kept
    placed: Mapping[str, str]

    def public(self, inventory: Inventory = ()) -> Self:
        return replace(self, hosts=public(self.hosts, inventory))

    def lines(self) -> list[str]:
        return [line for host in self.hosts for line in (way_to(host), *self._lines(host))]

    def _lines(self, host: Host) -> list[str]:
        nodes = sorted(node for node, name in self.placed.items() if name == host.name)
        return [
            f"host {host.name}: end all processes of run {self.tag} ({', '.join(nodes) or 'no node'})",
            f"host {host.name}: give back packet filter and traffic control, as root",
            f"host {host.name}: remove the folder {host.directory}/runs/{self.tag}",
        ]

    def check(self) -> None:
        """Raise ``ValueError`` for what can't be a name: these become names of folders and files, here and there."""
        if not all(_NAME.fullmatch(name) for name in (self.tag, *self.placed)):
            raise ValueError("tag and placed hold names of letters, digits, '-', '_' and '.'")


def way_to(host: Host) -> str:
    """Return how healing gets to a host, and what it first runs there."""
    through = f" through {host.jump}" if host.jump else ""
    return f"host {host.name}: log in to {host.where}{through} and run our agent by `{host.python}` in {host.directory}"


def heal(run_directory: Path) -> list[str]:
    """End what a killed harness has left on its hosts, all at the same time; return what was done, in sentences.

    A run whose harness still lives is left alone: it will heal itself. Raises :class:`DeploymentError` for hosts that
    can't be reached, once the others are done.
    """
    directory = run_directory.resolve()
    left = HostsLeft.read(directory)
    if left is None:
        return []
    if driven := left.driven(directory):
        return driven
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
        raise DeploymentError("\n".join([*sorted(done), *sorted(problems), "heal again when that is fixed"]))
    replace(left, cleared=True).write(directory)
    return sorted(done)


def heal_all(runs_root: Path) -> list[str]:
    """Heal every run in this folder and below it, as :func:`heal` does."""
    return each(heal, HostsLeft.runs(runs_root))


def leftovers(runs_root: Path) -> list[str]:
    """Return what :func:`heal_all` would do, in sentences."""
    return [line for _, left in HostsLeft.below(runs_root) for line in left.lines()]


def claimed(run_directory: Path, made: Path, inventory: Inventory) -> Claim:
    """Return what healing this run would do if what it says of itself is true, with the keys of this inventory."""
    return HostsLeft.claim(run_directory.resolve(), inventory)


def take_down(host: SshHost, nodes: Sequence[str], directory: Path) -> list[str]:
    """End a run's nodes on one host, save what they traced and said, and remove its chains and its files there."""
    host.own()
    done: list[str] = list(host.call("clear"))
    while directory.is_dir() and fetch(host, nodes, directory):
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
    """Bring over what nodes have traced and said since the last time; return whether there was anything."""
    paths = {f"traces/{node}.jsonl": trace_file(directory, node) for node in nodes}
    paths.update({f"logs/{node}.log": log_of(directory, node) for node in nodes})
    sizes = {name: path.stat().st_size if path.exists() else 0 for name, path in paths.items()}
    sizes = {name: size for name, size in sizes.items() if size < HEAD_BYTES or not name.endswith(".log")}
    found: Mapping[str, str] = host.call("read", files=sizes)
    for name, text in found.items():
        with added_to(paths[name]) as file:
            file.write(b64decode(text))
    return bool(found)


def _fetch_end(host: SshHost, node: str, log: Path) -> None:
    """Bring over the end of a log that was too long to be brought over whole."""
    if log.exists() and (size := log.stat().st_size) >= HEAD_BYTES:
        end = b64decode(host.call("rest_of_log", node=node, begin=size))
        with added_to(log) as file:
            file.write(end)


def log_of(directory: Path, node: str) -> Path:
    return directory / "logs" / f"{node}.log"


def clear_filter(host: SshHost, table: Table) -> bool:
    """Take down what the run has in a table of the packet filter; return whether there was anything. To ask a flavour
    makes its tables, so the next one is asked only when the first has nothing."""
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
    """Give back the devices whose traffic the run controls, after what sorts their packets; return whether there were
    any."""
    _, shown = host.root(netem.SHOW)
    ours = [device for device, others in netem.taken(shown, netem.major(host.run)) if not others]
    if ours:
        clear_filter(host, MANGLE)
        code, output = host.root(netem.BATCH, "".join(f"{netem.end(device)}\n" for device in ours))
        if code:
            raise DeploymentError(f"host {host.name}: the traffic control refused: {output}")
    return bool(ours)
