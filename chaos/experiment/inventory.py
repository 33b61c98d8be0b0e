"""The hosts of ``--on ssh``: where they are, how one gets there, and which nodes run on them.

An inventory is the list ``hosts`` of an experiment, or of a file of its own that is given with ``--inventory``::

    hosts:
      - {host: 10.0.0.11, user: chaos, key: ~/.ssh/id_ed25519}
      - {host: 10.0.0.12, user: chaos, key: ~/.ssh/id_ed25519, nodes: [broker-1]}
      - {host: 10.1.0.13, user: chaos, port: 2222, jump: chaos@bastion.example:22}
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Strict

from chaos.errors import BadInput
from chaos.experiment import source
from chaos.experiment.forms import Filled, Form, Within, validated
from chaos.node import NodeSpec

KNOWN_HOSTS = "~/.ssh/known_hosts"
SSH_PORT = 22
PORTS = range(1, 65_536)
#: Each node has so many ports of its own: one to listen at, the others to dial from.
PORTS_OF_NODE = 100
FIRST_PORT = 20_000
#: ``USER@HOST:PORT``, of which only the host must be there.
_JUMP = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<host>[^@:\s]+|\[[^\]\s]+\])(?::(?P<port>\d{1,5}))?")


def _text(value: str) -> str:
    """Check a text that becomes a word of a command line."""
    if not value or not value.isprintable() or value.startswith("-"):
        raise ValueError(f"expected a text that does not begin with '-', got {value!r}")
    return value


def _jump(value: str) -> str:
    if not _JUMP.fullmatch(value):
        raise ValueError(f"expected USER@HOST:PORT, got {value!r}")
    return value


Text = Annotated[str, AfterValidator(_text)]
Port = Annotated[int, Strict(), Within(PORTS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Host(Form):
    """One machine. ``name`` is for people; it is ``host`` unless given.

    ``address``: under which the other hosts reach it; "" for the one that its SSH server has. ``tunnel``: clients reach
    its nodes through SSH instead of directly. ``sudo_password_env``: the environment variable of the harness that holds
    the password for sudo, where one is asked for. ``directory``: relative to the home of the user.
    """

    host: Text
    name: Text = ""
    port: Port = SSH_PORT
    user: Text = ""
    key: Text = ""
    known_hosts: Text = KNOWN_HOSTS
    jump: Annotated[Text, AfterValidator(_jump)] = ""
    address: Text = ""
    tunnel: Annotated[bool, Strict()] = False
    nodes: tuple[str, ...] = ()
    first_port: Port = FIRST_PORT
    python: Text = "python3"
    directory: Text = ".stormproof"
    sudo_password_env: Text = ""

    @property
    def where(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"

    def jump_host(self) -> Host | None:
        """Return the host on the way to this one, with the same key and the same known hosts."""
        parts = _JUMP.fullmatch(self.jump)
        if parts is None:
            return None
        host = parts["host"].strip("[]")
        port = int(parts["port"] or SSH_PORT)
        return replace(self, host=host, name=host, port=port, user=parts["user"] or self.user, jump="")


def _complete(hosts: tuple[Host, ...]) -> tuple[Host, ...]:
    """Each host with a name, which no two share, and a user."""
    made = tuple(replace(host, name=host.name or host.host, user=host.user or getpass.getuser()) for host in hosts)
    names = [host.name for host in made]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"two hosts are called {twice[0]}: give each a `name` of its own")
    return made


Inventory = tuple[Host, ...]
#: The list as it is written.
Hosts = Annotated[Filled[Host], AfterValidator(_complete)]


@dataclass(frozen=True, slots=True, kw_only=True)
class File(Form):
    """An inventory in a file of its own."""

    hosts: Hosts


def load(path: Path) -> Inventory:
    """Read an inventory file. Raises :class:`BadInput` that holds every problem found."""
    return validated(File, source.read(path)).hosts


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


def public(hosts: Inventory, own: Inventory = ()) -> Inventory:
    """Return the same hosts without the names of keys, of files of known hosts, and of variables that hold secrets; in
    the place of one that the ``own`` inventory also has, that one. SSH then decides by the user's agent and
    ``~/.ssh``."""
    known = {(host.user, host.host, host.port): host for host in own}
    bare = [replace(host, key="", known_hosts=KNOWN_HOSTS, sudo_password_env="") for host in hosts]
    return tuple(
        replace(known.get((host.user, host.host, host.port), host), name=host.name, directory=host.directory)
        for host in bare
    )


def _given(entries: object) -> object:
    """Drop what was left open: it is kept as "", which nobody may write."""
    if not isinstance(entries, list | tuple):
        return entries
    return tuple(
        {name: value for name, value in entry.items() if value != ""} if isinstance(entry, Mapping) else entry
        for entry in entries
    )


#: Hosts as ``dataclasses.asdict`` writes them.
Kept = Annotated[Inventory, BeforeValidator(_given)]
