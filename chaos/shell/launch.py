"""What a node's process is given at its start. Imports only the standard library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from chaos.node import NodeSpec
from chaos.program import Rendered

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """All that a node's process is given. ``nodes``: the names that can be dialled; others are clients.

    Behind a proxy: ``proxy_port`` leads to everybody, and ``parent`` is the supervisor's process id; the node dies
    with it. On a machine or in a container of its own: ``addresses`` (node → ``HOST:PORT``) lead to the peers, the
    node listens at its own port of them, on all interfaces unless its own address is of the loopback one, and
    ``exposed`` is how clients outside reach the nodes, where that differs. ``dial_ports``: the first and the last of
    the ports that it dials from, where nodes share a machine and the packet filter must know them apart; nothing for
    any port. ``incarnation`` 0: nobody counts the lives; the time of the start orders them. ``disk_rules``: a file of
    :mod:`chaos.shell.disk_rules`. ``gate``: while there is a file of that name, no sync of the disk ends.
    ``membership``: the file of :mod:`chaos.shell.membership`; nothing where no node is ever added. ``token``: a
    secret of the cluster, which every first line that names a peer must hold; nothing where only this machine reaches
    the node. ``foreign``: the addresses (``HOST:PORT``) of nodes that are programs of others. They know each other by
    these alone, so to other nodes too they are names: who sends to one dials it, without a first line. ``clock``: the
    file of :mod:`chaos.shell.clocks`; nothing where clocks are left alone. ``program``: the
    node is a program of others (:mod:`chaos.shell.exec_program`), started in the folder ``home``; what is said above
    of proxies, peers and secrets it is not given.
    """

    spec: NodeSpec
    nodes: tuple[str, ...]
    incarnation: int
    seed: int
    disk: str
    trace: str
    disk_rules: str = ""
    proxy_port: int = 0
    parent: int = 0
    addresses: Mapping[str, str] = field(default_factory=dict)
    exposed: Mapping[str, str] = field(default_factory=dict)
    dial_ports: tuple[int, ...] = ()
    gate: str = ""
    membership: str = ""
    clock: str = ""
    token: str = ""
    foreign: tuple[str, ...] = ()
    home: str = ""
    program: Rendered | None = None

    def joined_by(self, addresses: Mapping[str, str]) -> Launch:
        """Return the same with more nodes, each with its address."""
        nodes = tuple(dict.fromkeys((*self.nodes, *addresses)))
        return replace(self, nodes=nodes, addresses={**self.addresses, **addresses} if self.addresses else {})

    def address_of(self, node: str) -> tuple[str, int]:
        """Return where to dial for this node."""
        return address(self.addresses.get(node, node)) if self.addresses else (HOST, self.proxy_port)

    @property
    def listens(self) -> tuple[str, int]:
        """Where this node listens; port 0 is any."""
        if not self.addresses:
            return HOST, 0
        host, port = address(self.addresses[self.spec.name])
        return (host if host.startswith("127.") else "0.0.0.0"), port

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Launch:
        content = json.loads(text)
        content["spec"] = NodeSpec(**content["spec"])
        content["nodes"] = tuple(content["nodes"])
        content["foreign"] = tuple(content.get("foreign", ()))
        if content.get("program"):
            content["program"] = Rendered(**content["program"])
        return Launch(**content)


def address(text: str) -> tuple[str, int]:
    """Read ``HOST:PORT``."""
    host, _, port = text.rpartition(":")
    return host, int(port)
