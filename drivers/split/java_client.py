"""RocketMQ's own Java client as a client of a split cluster: it finds slices where it expects groups of brokers.

Where a route names brokers, it names the addresses at which this client reaches them, so it is used as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chaos.driver import ClientCommand, Dials
from chaos.ops import QueueRef
from drivers._java.client_program import library_command
from drivers._java.recipes import RECIPES
from drivers.split.cluster import Cluster
from drivers.split.places import Places

#: What clients of a split cluster can't be, and why.
LACKS = {
    "batch": "a split cluster stores no batches",
    "delay": "a split cluster delays no message",
    "transaction": "a split cluster has no transactions",
    "orderly": "a split cluster locks no queues for consumers that read in order",
    "pop": "such consumers ask a proxy, and a split cluster has none",
}


async def command(
    network: Dials, name: str, nodes: Cluster, places: Places, queues: Sequence[QueueRef], orders: Mapping[str, int]
) -> ClientCommand:
    """Return how the program is started as the client ``name``. Raises :class:`chaos.errors.BadInput` where
    RocketMQ isn't installed, and :class:`chaos.errors.MachineError` where the program was
    not compiled."""
    nameservers = [await network.endpoint(name, one) for one in nodes.nameservers]
    there = [(queue.topic, places.broker(queue), places.rank(queue)) for queue in queues]
    return library_command(RECIPES[0], orders, name=name, nameservers=nameservers, queues=there)
