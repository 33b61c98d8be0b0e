"""Clients of a RocketMQ cluster that use its own libraries, and its own admin tool.

A route names brokers by addresses that only the cluster's own network knows. The programs are given one address for
each broker instead, which leads there as this client, so that link rules apply to it. A proxy names no broker to its
clients, but the addresses by which they call it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from chaos.driver import ClientCommand, Dials
from chaos.errors import BadInput
from chaos.node import Address
from chaos.ops import QueueRef
from chaos.recipe import Recipe
from drivers._java.client_library import check_orders
from drivers._java.client_program import java, library_command, shown
from drivers.rocketmq.cluster import Cluster
from drivers.rocketmq.programs import NAMESERVER, port_of

ADMIN_TOOL = "stormproof.rocketmq.AdminTool"


async def command(
    network: Dials,
    name: str,
    cluster: Cluster,
    installed: Recipe,
    queues: Sequence[QueueRef],
    orders: Mapping[str, int],
) -> ClientCommand:
    """Return how the program is started as the client ``name``. Raises :class:`BadInput` for orders that it doesn't
    know, and :class:`MachineError` when it was not compiled."""
    check_orders(orders)
    if orders.get("pop") and not cluster.proxies:
        raise BadInput("library: pop: such consumers ask a proxy, and there is none; add `proxies: 1` to the system")
    return library_command(
        installed,
        orders,
        name=name,
        nameservers=[await _nameserver(network, name, cluster, one) for one in cluster.nameservers],
        endpoints={port_of(one): await network.endpoint(name, one) for one in cluster.brokers},
        proxies=[await network.endpoint(name, one) for one in cluster.proxies],
        queues=[(queue.topic, cluster.group_with(queue), queue.queue_id) for queue in queues],
    )


async def admin_tool(network: Dials, name: str, cluster: Cluster, installed: Recipe, controller: str) -> ClientCommand:
    """Return how RocketMQ's admin tool is started by the operator ``name`` to have ``controller`` elect a master; the
    group, the cluster and the broker are arguments that follow. Raises as :func:`command` does."""
    reached = {one: shown(await network.endpoint(name, one)) for one in cluster.controllers}
    argv = (*java(installed, ADMIN_TOOL), "electMaster", "-a", reached[controller])
    ports = {str(port_of(one)): endpoint for one, endpoint in reached.items()}
    return ClientCommand(argv=argv, env={"STORMPROOF_ENDPOINTS": json.dumps(ports)})


async def _nameserver(network: Dials, name: str, cluster: Cluster, nameserver: str) -> Address:
    port = NAMESERVER if cluster.embedded else ""
    return await network.endpoint(name, cluster.host_of(nameserver), port)
