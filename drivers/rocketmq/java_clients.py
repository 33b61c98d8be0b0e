"""Clients of a RocketMQ cluster that use its own libraries, and its own admin tool.

They are given the addresses of name servers, controllers or proxies, which lead there as this client, so that link
rules apply to it; where answers name brokers, they name such addresses, too (:mod:`drivers._remoting.frames`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chaos.driver import ClientCommand, Dials
from chaos.node import Address
from chaos.ops import QueueRef
from chaos.recipe import Recipe
from drivers._java.client_program import java, library_command, shown
from drivers.rocketmq.cluster import Cluster
from drivers.rocketmq.programs import NAMESERVER

#: What clients can't be where there is no proxy.
LACKS_WITHOUT_PROXY = {"pop": "such consumers ask a proxy, and there is none; add `proxies: 1` to the system"}
ADMIN_TOOL = "stormproof.rocketmq.AdminTool"


async def command(
    network: Dials,
    name: str,
    cluster: Cluster,
    installed: Recipe,
    queues: Sequence[QueueRef],
    orders: Mapping[str, int],
) -> ClientCommand:
    """Return how the program is started as the client ``name``. Raises :class:`chaos.errors.MachineError` when it
    was not compiled."""
    return library_command(
        installed,
        orders,
        name=name,
        nameservers=[await _nameserver(network, name, cluster, one) for one in cluster.nameservers],
        proxies=[await network.endpoint(name, one) for one in cluster.proxies],
        queues=[(queue.topic, cluster.group_with(queue), queue.queue_id) for queue in queues],
    )


async def admin_tool(network: Dials, name: str, cluster: Cluster, installed: Recipe, controller: str) -> ClientCommand:
    """Return how RocketMQ's admin tool is started by the operator ``name`` to have ``controller`` elect a master; the
    group, the cluster and the broker are arguments that follow. Raises as :func:`command` does."""
    reached = shown(await network.endpoint(name, controller))
    return ClientCommand(argv=(*java(installed, ADMIN_TOOL), "electMaster", "-a", reached))


async def _nameserver(network: Dials, name: str, cluster: Cluster, nameserver: str) -> Address:
    port = NAMESERVER if cluster.embedded else ""
    return await network.endpoint(name, cluster.host_of(nameserver), port)
