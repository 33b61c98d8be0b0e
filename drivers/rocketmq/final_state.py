"""What is left in a RocketMQ broker at the end of a run: every message of every queue, as the broker itself serves it.

A broker serves what it holds as confirmed, and what it has entered into its queues, which a slave does late. So the end
of the last message that it served is what its rows call confirmed, and the end of its log; what may stand behind it in
its commit log isn't read, and nothing is said of it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence

from chaos.driver import Network, Record
from chaos.effects.links import HARNESS
from chaos.ops import Failed, QueueRef, Unknown
from chaos.workload import body_hash
from drivers._remoting import records
from drivers._remoting.client import PULL_SUBSCRIBED
from drivers._remoting.requests import ask, number
from drivers._remoting.wire import Command, Request, Response
from drivers.rocketmq.polls import Reply, fetch

COLLECT_S = 5.0
TRIES = 10
RETRY_S = 0.3
#: So many messages are asked for at once; a broker may give fewer.
BATCH = 1000


async def collect_broker(
    network: Network, node: str, queues: Sequence[QueueRef], record: Record, group: str = ""
) -> bool:
    """Record one broker of this group, with the group's queues; return whether it could be read to its end."""
    state = await _insist(network, node, Request.GET_BROKER_EPOCH_CACHE, {})
    runtime = await _insist(network, node, Request.GET_BROKER_RUNTIME_INFO, {})
    if state is None or runtime is None:
        return False
    limits = await _settled_limits(network, node, queues)
    if limits is None:
        return False
    confirm = -1
    for queue in queues:
        end = await _collect_queue(network, node, queue, limits[queue], record)
        if end is None:
            return False
        confirm = max(confirm, end)
    table = runtime.body.get("table")
    text = table.get("commitLogMinOffset", "") if isinstance(table, Mapping) else ""
    first = int(text) if re.fullmatch("[0-9]{1,18}", str(text)) else -1
    value = {
        "first": first,
        "end": max(confirm, first),
        "confirm": confirm,
        "epochs": [[one["epoch"], one["startOffset"]] for one in state.body.get("epochList", ())],
        "minimums": {str(queue.index): minimum for queue, (minimum, _) in limits.items()},
        "maximums": {str(queue.index): maximum for queue, (_, maximum) in limits.items()},
        "role": "master" if state.body.get("brokerId") == 0 else "slave",
        "group": group,
    }
    record("final", f="node", node=node, value=value)
    return True


async def _settled_limits(
    network: Network, node: str, queues: Sequence[QueueRef]
) -> Mapping[QueueRef, tuple[int, int]] | None:
    """Return the limits of all queues at one moment: two rounds of questions have the same answers. A broker enters
    records into its queues in the order of its log, so that none is missing in one queue that another one has passed.
    None when it doesn't answer, or comes to no rest."""
    before: Mapping[QueueRef, tuple[int, int]] = {}
    for _ in range(TRIES):
        now: dict[QueueRef, tuple[int, int]] = {}
        for queue in queues:
            fields = {"topic": queue.topic, "queueId": str(queue.queue_id)}
            lowest = await _insist(network, node, Request.GET_MIN_OFFSET, fields)
            highest = await _insist(network, node, Request.GET_MAX_OFFSET, fields)
            if lowest is None or highest is None:
                return None
            now[queue] = number(lowest.fields, "offset"), number(highest.fields, "offset")
        if now == before:
            return now
        before = now
        await asyncio.sleep(RETRY_S)
    return None


async def _collect_queue(
    network: Network, node: str, queue: QueueRef, limits: tuple[int, int], record: Record
) -> int | None:
    """Record all messages of a queue as ``log`` rows. Returns where the last record ends, -1 without any; None when the
    queue can't be read to its end."""
    offset, maximum = limits
    end = -1
    while offset < maximum:
        found = await _pull(network, node, queue, offset)
        if not found or found[0].offset < offset:
            return None
        for one in found:
            record(
                "final",
                f="log",
                node=node,
                position=one.position,
                queue=queue.index,
                offset=one.offset,
                message=one.message,
                hash=body_hash(one.body),
                value={"size": one.size},
            )
            offset, end = one.offset + 1, max(end, one.end)
    return end


async def _pull(network: Network, node: str, queue: QueueRef, offset: int) -> list[records.Record]:
    """Return some messages from this offset on; none when the broker gives none."""
    fields = {
        "consumerGroup": "storm-collectors",
        "topic": queue.topic,
        "queueId": str(queue.queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(BATCH),
        "sysFlag": str(PULL_SUBSCRIBED),
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subVersion": "0",
        "subscription": "*",
        "expressionType": "TAG",
    }
    for _ in range(TRIES):
        try:
            message = Command(code=Request.PULL_MESSAGE, fields=fields)
            answer = await ask(network.connect(HARNESS, node), message, COLLECT_S)
            if answer.code == Response.SUCCESS and answer.body:
                return records.decode_all(answer.body)
        except (Failed, Unknown, ValueError):
            pass
        await asyncio.sleep(RETRY_S)
    return []


async def _insist(network: Network, node: str, code: int, fields: Mapping[str, str]) -> Reply | None:
    """Ask until the broker has answered, within a bound; None when it has not."""
    for _ in range(TRIES):
        reply = await fetch(network, node, code, fields, timeout_s=COLLECT_S)
        if reply is not None and reply.code == Response.SUCCESS:
            return reply
        await asyncio.sleep(RETRY_S)
    return None
