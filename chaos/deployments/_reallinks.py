"""Links of nodes that stand on their own network: the packet filter between nodes, a proxy in front of clients.

One set of rules holds for both. Clients stand behind a proxy in the harness, which knows them apart, so that a rule can
hold for some of them, and can do more to them than a packet filter can.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from chaos.deployments import _iptables
from chaos.deployments._client import ProcessConnection
from chaos.deployments._filter import PacketFilter
from chaos.deployments._iptables import Endpoint
from chaos.deployments._proxy import Proxy, reaches
from chaos.driver import Codec
from chaos.errors import DeploymentError
from chaos.links import ACTIONS, LinkRule

#: What rules can do to links between nodes, and to those with clients.
LINK_ACTIONS = _iptables.ACTIONS
CLIENT_LINK_ACTIONS = frozenset(ACTIONS.values())


class RealLinks:
    """The links of one run. ``run_as_root(machine, command, input)`` runs a command where packets are filtered."""

    def __init__(
        self, tag: str, seed: int, run_as_root: Callable[[str, Sequence[str], str], Awaitable[tuple[int, str]]]
    ) -> None:
        self._proxy = Proxy(seed, lambda hello, transport: transport.abort())
        self._port = 0
        self._filter = PacketFilter(tag, run_as_root)
        self._codec: Codec | None = None
        self._connections: dict[tuple[str, str], ProcessConnection] = {}

    async def begin(
        self, codec: Codec, addresses: Mapping[str, tuple[str, int]], endpoints: Mapping[str, Endpoint]
    ) -> None:
        """``addresses``: where the harness reaches each node; ``endpoints``: where nodes stand for one another."""
        self._codec = codec
        self._proxy.addresses = dict(addresses)
        self._port = await self._proxy.listen()
        await self._filter.begin(endpoints)

    @property
    def addresses(self) -> Mapping[str, tuple[str, int]]:
        return self._proxy.addresses

    async def put_up(self, rule_id: str, rule: LinkRule) -> None:
        await self._filter.put_up(rule_id, rule)
        self._proxy.set_rule(rule_id, rule)

    async def clear(self, rule_id: str) -> None:
        self._proxy.clear_rule(rule_id)
        await self._filter.clear(rule_id)

    async def hits(self, rule_id: str) -> int:
        return self._proxy.hits.get(rule_id, 0) + await self._filter.hits(rule_id)

    async def client_reaches(self, client: str, node: str, within_s: float) -> bool:
        return await reaches(self._port, client, node, within_s)

    def connect(self, client: str, node: str) -> ProcessConnection:
        """The connection of this client with this node; raises :class:`DeploymentError` for a client named like one."""
        if client in self._proxy.addresses:
            raise DeploymentError(f"client {client!r} has the name of a node")
        known = self._connections.get((client, node))
        if known is None:
            assert self._codec is not None
            known = ProcessConnection(client, node, self._port, self._codec)
            self._connections[client, node] = known
        return known

    def close(self) -> None:
        """End the clients' connections. What stands in the packet filter goes with its machine, or is taken down."""
        for connection in self._connections.values():
            connection.close()
        self._proxy.close()


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """The names of nodes. Raises :class:`DeploymentError` when two are one."""
    if len(set(names)) < len(names):
        raise DeploymentError(f"two nodes have one name; every node needs a name of its own: {', '.join(names)}")
    return tuple(names)
