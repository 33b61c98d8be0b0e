"""The hosts of ``--on ssh``: where they are, how one gets there, and which nodes run on them.

An inventory is the list ``hosts`` of an experiment, or of a file of its own that is given with ``--inventory``::

    hosts:
      - {host: 10.0.0.11, user: chaos, key: ~/.ssh/id_ed25519}
      - {host: 10.0.0.12, user: chaos, key: ~/.ssh/id_ed25519, nodes: [broker-1]}
      - {host: 10.1.0.13, user: chaos, port: 2222, jump: chaos@bastion.example:22}
"""

from __future__ import annotations

import dataclasses
import getpass
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import BadInput
from chaos.experiment.source import Located, Problems, read_yaml
from chaos.node import NodeSpec

HOSTS = "hosts"
KNOWN_HOSTS = "~/.ssh/known_hosts"
SSH_PORT = 22
PORTS = range(1, 65_536)
#: Each node has so many ports of its own: one to listen at, the others to dial from.
PORTS_OF_NODE = 100
FIRST_PORT = 20_000
#: ``USER@HOST:PORT``, of which only the host must be there.
_JUMP = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<host>[^@:\s]+|\[[^\]\s]+\])(?::(?P<port>\d{1,5}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One machine. ``name`` is for people; it is ``host`` unless given.

    ``address``: under which the other hosts reach it; "" for the one that its SSH server has. ``tunnel``: clients reach
    its nodes through SSH instead of directly. ``sudo_password_env``: the environment variable of the harness that holds
    the password for sudo, where one is asked for. ``directory``: relative to the home of the user.
    """

    host: str
    name: str = ""
    port: int = SSH_PORT
    user: str = ""
    key: str = ""
    known_hosts: str = KNOWN_HOSTS
    jump: str = ""
    address: str = ""
    tunnel: bool = False
    nodes: tuple[str, ...] = ()
    first_port: int = FIRST_PORT
    python: str = "python3"
    directory: str = ".stormproof"
    sudo_password_env: str = ""

    @property
    def where(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"

    def jump_host(self) -> Host | None:
        """The host on the way to this one, with the same key and the same known hosts."""
        parts = _JUMP.fullmatch(self.jump)
        if parts is None:
            return None
        host = parts["host"].strip("[]")
        port = int(parts["port"] or SSH_PORT)
        return dataclasses.replace(self, host=host, name=host, port=port, user=parts["user"] or self.user, jump="")


Inventory = tuple[Host, ...]


def load(path: Path) -> Inventory:
    """Read an inventory file. Raises :class:`BadInput` that holds every problem found."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"cannot read {path}: it is no UTF-8 text (byte {error.start})") from error
    problems = Problems(str(path))
    root = read_yaml(path, text, problems)
    given = problems.mapping(root, "the inventory")
    problems.unknown_keys(given, (HOSTS,), "the inventory")
    if HOSTS not in given:
        problems.add(root.line, f"{HOSTS!r} is missing")
    found = read(given[HOSTS], problems) if HOSTS in given else ()
    problems.raise_if_any()
    return found


def read(node: Located, problems: Problems) -> Inventory:
    """Read the list of hosts; what is wrong goes to ``problems``."""
    entries = problems.sequence(node, HOSTS)
    if not entries:
        problems.add(node.line, f"{HOSTS}: expected a list with at least one host")
    found = [_host(entry, problems) for entry in entries]
    names = [host.name for host in found]
    for name in sorted({name for name in names if name and names.count(name) > 1}):
        problems.add(node.line, f"{HOSTS}: two hosts are called {name}: give each a `name` of its own")
    return tuple(found)


def _host(entry: Located, problems: Problems) -> Host:
    given = problems.mapping(entry, HOSTS)
    types = {field.name: str(field.type) for field in dataclasses.fields(Host)}
    problems.unknown_keys(given, types, HOSTS)
    values: dict[str, object] = {}
    for name, child in given.items():
        if name in types:
            problem = _problem(name, types[name], child.plain)
            if problem:
                problems.add(child.line, f"{HOSTS}: {name}: {problem}, got {child.plain!r}")
            else:
                values[name] = tuple(child.plain) if isinstance(child.plain, list) else child.plain
    if "host" not in given:
        problems.add(entry.line, f"{HOSTS}: 'host' is missing")
    host = Host(**{"host": "", **values})  # type: ignore[arg-type]  # checked above
    return dataclasses.replace(host, name=host.name or host.host, user=host.user or getpass.getuser())


def _problem(name: str, type_: str, value: object) -> str:
    """What is wrong with this value of this field; "" if nothing."""
    if type_ == "bool":
        return "" if isinstance(value, bool) else "expected true or false"
    if type_ == "int":
        whole = isinstance(value, int) and not isinstance(value, bool)
        return "" if whole and value in PORTS else f"expected a port, {PORTS[0]} to {PORTS[-1]}"
    if type_.startswith("tuple"):
        good = isinstance(value, list) and all(isinstance(entry, str) for entry in value)
        return "" if good else "expected a list of names"
    if not isinstance(value, str) or not value or not value.isprintable() or value.startswith("-"):
        return "expected a text that does not begin with '-'"
    if name == "jump" and not _JUMP.fullmatch(value):
        return "expected USER@HOST:PORT"
    return ""


def place(nodes: Sequence[NodeSpec], hosts: Inventory) -> dict[str, Host]:
    """Which node runs on which host: as the hosts' ``nodes`` say; all others one after another, role by role, so that
    each role is spread as far as it can be. Raises :class:`BadInput` for a name that is no node's, or given twice, and
    where there is no host."""
    if not hosts:
        raise BadInput("--on ssh needs hosts: list them as `hosts` in the experiment, or give --inventory FILE")
    names = [node.name for node in nodes]
    placed: dict[str, Host] = {}
    for host in hosts:
        for name in host.nodes:
            if name not in names:
                raise BadInput(f"host {host.name}: there is no node {name!r}; the nodes are {', '.join(names)}")
            if name in placed:
                raise BadInput(f"node {name!r} is given to two hosts: {placed[name].name} and {host.name}")
            placed[name] = host
    turns: dict[str, int] = {}
    for node in nodes:
        if node.name not in placed:
            turn = turns.setdefault(node.role, len(turns))
            placed[node.name] = hosts[turn % len(hosts)]
            turns[node.role] = turn + 1
    return {name: placed[name] for name in names}


def to_json(hosts: Inventory) -> str:
    """The inventory as it is kept in a run's directory; it holds no secret."""
    return json.dumps([dataclasses.asdict(host) for host in hosts], indent=1)


def from_json(told: Sequence[Mapping[str, object]]) -> Inventory:
    """Read what :func:`to_json` wrote."""
    return tuple(Host(**{**entry, "nodes": tuple(entry.get("nodes") or ())}) for entry in told)  # type: ignore[arg-type]
