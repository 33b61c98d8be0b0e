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
KINDS, SETTINGS = ("sync", "pop", "orderly"), ("answer_checks", "batch_size", "gap_ns", "seed")


async def command(
    network: Dials, name: str, nodes: Sequence[str], queues: Sequence[QueueRef], header: str, orders: Mapping[str, int]
) -> ClientCommand:
    """Return how the program is started as the client ``name``; ``header`` has the number of each message. Raises
    :class:`BadInput` for orders that it doesn't know, and where nats-py is not installed."""
    if unknown := sorted(kind for kind, wanted in orders.items() if wanted and kind not in (*KINDS, *SETTINGS)):
        raise BadInput(f"library: NATS's own client can't do {', '.join(unknown)} here; it can do {', '.join(KINDS)}")
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
