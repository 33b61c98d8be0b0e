"""NATS's own Python client (nats-py) as the workload ``library`` wants it: what it can do, and how it is started."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from chaos.driver import ClientCommand, Dials
from chaos.errors import BadInput
from chaos.ops import QueueRef
from drivers.nats.client import stream_of, subject_of

PROGRAM = "drivers.nats.nats_py_program"
#: What the program doesn't do with NATS's own client.
LACKS = dict.fromkeys(
    ("asynchronous", "ordered", "batch", "delay", "transaction", "push", "pull"),
    "NATS's own client is `sync`, `pop` and `orderly` here; say 0",
)


async def command(
    network: Dials, name: str, nodes: Sequence[str], queues: Sequence[QueueRef], header: str, orders: Mapping[str, int]
) -> ClientCommand:
    """Return how the program is started as the client ``name``; ``header`` has the number of each message. Raises
    :class:`BadInput` where nats-py is not installed."""
    if find_spec("nats") is None:
        raise BadInput("library: NATS's own client is not installed here: pip install 'stormproof[nats]'")
    ends = [await network.endpoint(name, node) for node in nodes]
    given = {
        **orders,
        "servers": [f"nats://{host}:{port}" for host, port in ends],
        "streams": [(stream_of(queue), subject_of(stream_of(queue))) for queue in queues],
        "header": header,
    }
    return ClientCommand(argv=(sys.executable, "-m", PROGRAM), env={"STORMPROOF_ORDERS": json.dumps(given)})
