"""RocketMQ's own Java client as a client of the reference system, which speaks its protocol.

Where a route names brokers, it names the addresses at which this client reaches them, so it is used as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chaos.driver import ClientCommand, Dials
from chaos.ops import QueueRef
from drivers._java.client_program import library_command
from drivers._java.recipes import RECIPES

#: What its clients can't be here, and why.
LACKS = {"pop": "such consumers ask a proxy, and the reference system has none"}


async def command(
    network: Dials,
    name: str,
    nameservers: Sequence[str],
    group: str,
    queues: Sequence[QueueRef],
    orders: Mapping[str, int],
) -> ClientCommand:
    """Return how the program is started as the client ``name``. Raises :class:`chaos.errors.BadInput` where RocketMQ
    isn't installed, and :class:`chaos.errors.MachineError` where the program was not compiled."""
    reached = [await network.endpoint(name, one) for one in nameservers]
    there = [(queue.topic, group, queue.queue_id) for queue in queues]
    return library_command(RECIPES[0], orders, name=name, nameservers=reached, queues=there)
