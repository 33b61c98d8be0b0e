"""A client of RocketMQ's queues: routes name brokers by address, and a group has to be made known to a broker.

A broker answers reads and takes offsets whatever its role is, and doesn't say which it has. So after each such answer
the client asks it: an answer of one that is not the master any more counts for nothing, and the others get the epoch of
its file. What a send learned gets the epoch that was asked for with the route, which is asked for again each second.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from chaos.driver import Network
from chaos.ops import Answer, Failed, QueueRef, Unknown
from drivers._remoting import client
from drivers._remoting.json_text import loads
from drivers._remoting.requests import Asks, ask, number
from drivers._remoting.wire import Command, Request, Response
from drivers.rocketmq.cluster import Cluster
from drivers.rocketmq.tier_levels import TierLevels

#: A master waits 3 s for its slaves before it says that they did not confirm (code 12), which says more than nothing.
REQUEST_S = 5.0
#: How long a route counts.
ROUTE_NS = 1_000_000_000


class QueueClient(client.QueueClient):
    """``only``: the broker group that has all queues of this client; "" for one whose queues name theirs. ``_groups``:
    where it has made which groups of readers known. ``_asked_ns``: when it asked for the route of each topic;
    ``_epochs``: which epoch each master named then."""

    def __init__(
        self, network: Network, name: str, cluster: Cluster, only: str = "", levels: TierLevels | None = None
    ) -> None:
        super().__init__(network, name, cluster.nameservers, timeout_s=REQUEST_S)
        self._cluster = cluster
        self._levels = levels or TierLevels(usual="")
        self._only = only
        self._groups: set[tuple[str, str]] = set()
        self._asked_ns: dict[tuple[str, str], int] = {}
        self._epochs: dict[str, int] = {}

    def _group(self, queue: QueueRef) -> str:
        return self._only or self._cluster.group_with(queue)

    def _server(self, name: str) -> Asks:
        return self._cluster.connect(self._network, self._name, name)

    def _node(self, address: str) -> str:
        node = self._cluster.node_at(address)
        if not node:
            raise Failed(f"the route names {address!r}, which is none of the nodes")
        return node

    async def pull(
        self,
        queue: QueueRef,
        offset: int,
        *,
        limit: int,
        max_bytes: int = 0,
        node: str = "",
        source: str = "",
        wait_s: float = 0.0,
    ) -> Answer:
        """Read messages from this offset on. With a ``source``, the broker is set before the read to take everything
        from there, and afterwards to do as usual. One that is to read from the tier may still read from its log; see
        :meth:`_from_tier`. Where there is a tier, a broker may read from it for everybody, so the log's end is asked
        for before each read: who finds nothing since the tier ends before that was not served."""
        if not source:
            end = (await super().bounds(queue, node)).maximum if self._levels.usual else -1
            answer = await super().pull(queue, offset, limit=limit, max_bytes=max_bytes, node=node, wait_s=wait_s)
            read = _from_tier(answer, end)
            if not read.messages and read is not answer:
                reason = f"{answer.node} reads from its tier, which ends at {answer.maximum}, and its log at {end}"
                raise Failed(reason, _unbelieved(read))
            return read
        asked = node or await self._master(queue)
        async with self._levels.reading_from(source, self._network, self._name, asked):
            before = (await super().bounds(queue, asked)).maximum
            read = await super().pull(queue, offset, limit=limit, max_bytes=max_bytes, node=node, wait_s=wait_s)
        if read.node != asked:
            raise Failed(f"{asked} is not the master any more, so that it is unknown where the messages come from")
        return _from_tier(read, before) if source == "tier" else replace(read, source="local")

    async def _limits(self, queue: QueueRef, node: str, answer: Command) -> tuple[int, int]:
        fields = {"topic": queue.topic, "queueId": str(queue.queue_id)}
        lowest = await self._request(queue, node, Command(code=Request.GET_MIN_OFFSET, fields=fields))
        if lowest.code != Response.SUCCESS:
            raise Failed(f"code {lowest.code}: {lowest.remark}")
        return number(lowest.fields, "offset"), number(answer.fields, "offset")

    async def _ready(self, queue: QueueRef, node: str, group: str) -> None:
        """Send a heartbeat first: a broker refuses offsets of a group (code 26) of which it has never heard. Raises
        :class:`Failed`: no offset was asked for."""
        if (node, group) in self._groups:
            return
        body = json.dumps(_heartbeat(self._name, group)).encode()
        try:
            answer = await ask(
                self._network.connect(self._name, node), Command(code=Request.HEART_BEAT, body=body), REQUEST_S
            )
        except (Failed, Unknown) as error:
            self._forget(queue)
            raise Failed(f"{node} did not hear of the group: {error.reason}") from error
        if answer.code != Response.SUCCESS:
            raise Failed(f"{node} did not hear of the group: code {answer.code}: {answer.remark}")
        self._groups.add((node, group))

    def _sent(self, node: str, result: Answer) -> Answer:
        return replace(result, epoch=self._epochs.get(node, -1))

    async def _by_master(self, queue: QueueRef, node: str, result: Answer) -> Answer:
        try:
            return replace(result, epoch=await self._term(node))
        except Failed as error:
            self._forget(queue)
            raise Failed(error.reason, _unbelieved(result)) from error

    async def _master(self, queue: QueueRef) -> str:
        key, now = self._key(queue), self._network.now_ns()
        if now - self._asked_ns.get(key, now) > ROUTE_NS:
            self._masters.pop(key, None)
        known = key in self._masters
        node = await super()._master(queue)
        if not known:
            try:
                self._epochs[node] = await self._term(node)
            except Failed:
                self._masters.pop(key, None)
                raise
            self._asked_ns[key] = now
        return node

    async def _term(self, node: str) -> int:
        """Return the epoch of a broker that says that it is the master. Raises :class:`Failed` for one that doesn't."""
        try:
            message = Command(code=Request.GET_BROKER_EPOCH_CACHE)
            answer = await ask(self._network.connect(self._name, node), message, self._timeout_s)
            state = loads(answer.body) if answer.code == Response.SUCCESS else {}
            if state.get("brokerId") == 0:
                return int(state["epochList"][-1]["epoch"])
        except (Failed, Unknown) as error:
            raise Failed(f"{node} did not say whether it is the master: {error.reason}") from error
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise Failed(f"{node} did not say whether it is the master: {error}") from error
        raise Failed(f"{node} is not the master")

    def _forget(self, queue: QueueRef) -> None:
        super()._forget(queue)
        self._groups.clear()


def _from_tier(read: Answer, end: int) -> Answer:
    """Return what a broker read that was to read from the tier. It takes from its log what it can't find there, and
    doesn't say so. But the maximum that it names is the tier's end or the log's: one below ``end``, where the log ended
    before, is the tier's, and no end of the queue."""
    return replace(read, source="tier", maximum=-1) if -1 < read.maximum < end else read


def _unbelieved(read: Answer) -> Answer:
    """Return who answered, but nothing of what it said of the queue: a slave may know less than the master, and what a
    failed read says counts as the master's word about an offset that it does not have."""
    return Answer(node=read.node)


def _heartbeat(name: str, group: str) -> Mapping[str, object]:
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_ACTIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "unitMode": False,
        "subscriptionDataSet": [],
    }
    return {"clientID": f"stormproof@{name}", "producerDataSet": [], "consumerDataSet": [consumer]}
