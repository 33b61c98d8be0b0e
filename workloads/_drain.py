"""Reading a queue to its end, and one batch of it: what several workloads do."""

from __future__ import annotations

from typing import Any

from chaos.driver import Client
from chaos.ops import Answer, QueueRef, Unknown
from chaos.workload import Load, Outcome, Worker, note

PULL_LIMIT = 32
IDLE_S = 0.2
#: A drain asks for so long before it believes that an offset is gone which was acknowledged or read before.
PATIENCE_S = 5.0


async def drain(load: Load, queue: QueueRef, name: str, by: str, drain_s: float) -> None:
    """Read one queue from its first offset to its end, as the client ``name`` of the workload ``by``, within
    ``drain_s``."""
    client, prover, reader = load.client(name), Worker(load, name), Worker(load, f"{name}-reader")
    deadline_ns = load.now_ns() + round(drain_s * 1e9)
    try:
        begin = 0
        while load.now_ns() < deadline_ns:
            bounds = await reader.do("bounds", lambda: client.bounds(queue), queue=queue)
            if bounds.ok:
                begin = max(0, bounds.answer.minimum)
                break
            await load.sleep(IDLE_S)
        await prover.do(
            "drain",
            lambda: _read_all(load, client, reader, queue, by, begin, deadline_ns),
            queue=queue,
            offset=begin,
            by=by,
        )
    finally:
        client.close()


async def _read_all(
    load: Load, client: Client, reader: Worker, queue: QueueRef, by: str, begin: int, deadline_ns: int
) -> Answer:
    """Read to max(the system's end, acknowledged + 1, seen + 1). If the system keeps saying that the queue ends
    before that, the rest is gone, and the drain is done as well. Raises :class:`Unknown` at the deadline."""
    following, insisted_since_ns = begin, -1
    while load.now_ns() < deadline_ns:
        known = 1 + max(load.shared[what].get(queue.index, -1) for what in ("acked", "seen"))
        read = await pull(load, client, reader, queue, following, by=by)
        previous, following = following, after(following, read)
        if following > previous:
            insisted_since_ns = -1
            continue
        if read.ok and not read.answer.messages and following >= read.answer.maximum >= 0:
            if following >= known:
                return Answer(offset=following)
            if insisted_since_ns < 0:
                insisted_since_ns = load.now_ns()
            if load.now_ns() - insisted_since_ns >= PATIENCE_S * 1e9:
                return Answer(offset=known, maximum=read.answer.maximum)
        else:
            insisted_since_ns = -1
        await load.sleep(IDLE_S)
    raise Unknown(f"only read up to {following} in time")


async def pull(load: Load, client: Client, worker: Worker, queue: QueueRef, offset: int, **value: Any) -> Outcome:
    """Read one batch and remember how far anybody has read."""
    read = await worker.do(
        "pull",
        lambda: client.pull(queue, offset, limit=PULL_LIMIT),
        queue=queue,
        offset=offset,
        limit=PULL_LIMIT,
        **value,
    )
    if read.answer.messages:
        note(load, "seen", queue, read.answer.messages[-1].offset)
    return read


def after(offset: int, read: Outcome) -> int:
    """Return where to go on after a pull: after what came, or where the system says that the queue begins by now."""
    last = read.answer.messages[-1].offset + 1 if read.answer.messages else offset
    return max(offset, last, read.answer.following)
