"""A client of a broker's queues, in RocketMQ's requests; and what each answer says of what happened.

Systems that speak this protocol differ in a few points. Each is a method of :class:`QueueClient`, to be overridden.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from chaos.driver import Network
from chaos.ops import Answer, Delivered, Failed, QueueRef, Unknown
from chaos.workload import body_hash
from drivers._remoting import records
from drivers._remoting.json_text import loads
from drivers._remoting.requests import Asks, ask, number
from drivers._remoting.wire import Request, Response
from reference.wire.command import Command

REQUEST_S = 2.0
PULL_MAY_WAIT, PULL_SUBSCRIBED = 2, 4

#: A send with one of these answers was surely not stored. One with FLUSH_DISK_TIMEOUT, SLAVE_NOT_AVAILABLE or
#: FLUSH_SLAVE_TIMEOUT was stored at the master, and may be lost or kept.
NOT_STORED = frozenset(
    {
        Response.SYSTEM_BUSY,
        Response.REQUEST_CODE_NOT_SUPPORTED,
        Response.MESSAGE_ILLEGAL,
        Response.SERVICE_NOT_AVAILABLE,
        Response.NO_PERMISSION,
        Response.TOPIC_NOT_EXIST,
        Response.SUBSCRIPTION_GROUP_NOT_EXIST,
        Response.INVALID_PARAMETER,
    }
)
TOO_FEW_REPLICAS = "in-sync replicas not enough"


class QueueClient:
    """A client of the queues: finds the master through a name server, and asks again after each failure. One call is
    one attempt."""

    def __init__(
        self, network: Network, name: str, nameservers: Sequence[str], *, timeout_s: float = REQUEST_S
    ) -> None:
        self._network = network
        self._name = name
        self._nameservers = nameservers
        self._timeout_s = timeout_s
        self._turn = 0
        self._masters: dict[tuple[str, str], str] = {}

    # What systems do each in their own way

    def _node(self, address: str) -> str:
        """Return the node that a route names by this address."""
        return address

    def _group(self, queue: QueueRef) -> str:
        """Return which of the broker groups in its topic's route has a queue; "" where there is only one."""
        return ""

    def _place(self, queue: QueueRef) -> tuple[str, int]:
        """Return what requests call a queue: the name of its broker, "" where requests name none, and its id there."""
        return "", queue.queue_id

    def _server(self, name: str) -> Asks:
        """Return the connection with a name server."""
        return self._network.connect(self._name, name)

    def _extra(self, node: str, source: str) -> Mapping[str, str]:
        """Return more fields of a read that asks this replica (``""``: the master), and demands where data comes from.
        Raises :class:`Failed` for what the system can't be asked for."""
        return {}

    def _delivered(self, body: bytes) -> Sequence[Delivered]:
        """Return the messages of a pull. Raises ``ValueError`` for bytes that are none."""
        return [
            Delivered(offset=one.offset, message=one.message, hash=body_hash(one.body))
            for one in records.decode_all(body)
        ]

    async def _limits(self, queue: QueueRef, node: str, answer: Command) -> tuple[int, int]:
        """Return the queue's minimum and maximum, after the node has answered for the maximum."""
        return number(answer.fields, "minOffset"), number(answer.fields, "offset")

    async def _ready(self, queue: QueueRef, node: str, group: str) -> None:
        """Do what has to be done before the node takes offsets of this group."""

    def _sent(self, node: str, result: Answer) -> Answer:
        """Return what a send learned, with what the master's answer did not say."""
        return result

    async def _by_master(self, queue: QueueRef, node: str, result: Answer) -> Answer:
        """Return what another request learned of the master. Raises :class:`Failed` when the node may have answered
        without being the master: then its answer counts for nothing."""
        return result

    # The requests

    async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
        broker, number_there = self._place(queue)
        fields = {
            "a": "storm-producers",
            "b": queue.topic,
            "c": "TBW102",
            "d": "4",
            "e": str(number_there),
            "f": "0",
            "g": "0",
            "h": "0",
            "i": f"UNIQ_KEY\x01{key}\x02WAIT\x01true\x02",
            **({"n": broker} if broker else {}),
        }
        node = await self._master(queue)
        answer = await self._request(queue, node, Command(code=Request.SEND_MESSAGE_V2, fields=fields, body=body))
        if answer.code == Response.SUCCESS:
            offset, position = number(answer.fields, "queueOffset"), number(answer.fields, "position")
            return self._sent(node, answered(node, queue, answer, offset=offset, position=position))
        self._forget(queue)
        raise outcome(answer, answered(node, queue, answer))

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
        """Read messages from this offset on. ``wait_s``: for so long the broker may hold the read at the end of the
        queue."""
        fields = {
            "consumerGroup": queue.group or "storm-readers",
            **self._named(queue),
            "queueOffset": str(offset),
            "maxMsgNums": str(limit),
            "sysFlag": str(PULL_SUBSCRIBED | (PULL_MAY_WAIT if wait_s else 0)),
            "commitOffset": "0",
            "suspendTimeoutMillis": str(round(wait_s * 1e3)),
            "subVersion": "0",
            "subscription": "*",
            "expressionType": "TAG",
        }
        if max_bytes:
            fields["maxMsgBytes"] = str(max_bytes)
        fields |= self._extra(node, source)
        asked = node or await self._master(queue)
        answer = await self._request(queue, asked, Command(code=Request.PULL_MESSAGE, fields=fields), wait_s)
        result = answered(
            asked,
            queue,
            answer,
            source=answer.fields.get("source", ""),
            minimum=number(answer.fields, "minOffset"),
            maximum=number(answer.fields, "maxOffset"),
            following=number(answer.fields, "nextBeginOffset"),
            size=len(answer.body) if answer.code == Response.SUCCESS else -1,
            messages=self._messages(answer.body) if answer.code == Response.SUCCESS else (),
        )
        if answer.code in (Response.SUCCESS, Response.PULL_NOT_FOUND):
            return result if node else await self._by_master(queue, asked, result)
        if answer.code != Response.PULL_OFFSET_MOVED and not node:
            self._forget(queue)
        raise Failed(_reason(answer), result)

    async def commit(self, queue: QueueRef, group: str, offset: int) -> Answer:
        node, answer = await self._of_group(Request.UPDATE_CONSUMER_OFFSET, queue, group, {"commitOffset": str(offset)})
        result = replace(answered(node, queue, answer), offset=offset)
        if answer.code == Response.SUCCESS:
            try:
                return await self._by_master(queue, node, result)
            except Failed as error:
                raise Unknown(error.reason, result) from error
        self._forget(queue)
        raise outcome(answer, result)

    async def committed(self, queue: QueueRef, group: str) -> Answer:
        node, answer = await self._of_group(Request.QUERY_CONSUMER_OFFSET, queue, group, {"setZeroIfNotFound": "false"})
        result = answered(node, queue, answer)
        if answer.code == Response.SUCCESS:
            return await self._by_master(queue, node, replace(result, offset=number(answer.fields, "offset")))
        if answer.code == Response.QUERY_NOT_FOUND:
            return await self._by_master(queue, node, result)
        self._forget(queue)
        raise Failed(_reason(answer), result)

    async def bounds(self, queue: QueueRef, node: str = "") -> Answer:
        fields = {**self._named(queue), "committed": "true", **self._extra(node, "")}
        asked = node or await self._master(queue)
        answer = await self._request(queue, asked, Command(code=Request.GET_MAX_OFFSET, fields=fields))
        result = answered(asked, queue, answer)
        if answer.code == Response.SUCCESS:
            minimum, maximum = await self._limits(queue, asked, answer)
            result = replace(result, minimum=minimum, maximum=maximum)
            return result if node else await self._by_master(queue, asked, result)
        if not node:
            self._forget(queue)
        raise Failed(_reason(answer), result)

    def close(self) -> None:
        """Close nothing of its own: a connection belongs to the network, one for each client and node."""

    def _named(self, queue: QueueRef) -> Mapping[str, str]:
        """Return the fields by which all requests but sends name a queue."""
        broker, number_there = self._place(queue)
        fields = {"topic": queue.topic, "queueId": str(number_there)}
        return {**fields, "bname": broker} if broker else fields

    async def _of_group(self, code: int, queue: QueueRef, group: str, more: Mapping[str, str]) -> tuple[str, Command]:
        fields = {"consumerGroup": group, **self._named(queue), **more}
        node = await self._master(queue)
        await self._ready(queue, node, group)
        return node, await self._request(queue, node, Command(code=code, fields=fields))

    async def _request(self, queue: QueueRef, node: str, message: Command, wait_s: float = 0.0) -> Command:
        """Send a request and return the answer. ``wait_s``: for so long the node may hold its answer back."""
        try:
            return await ask(self._network.connect(self._name, node), message, self._timeout_s + wait_s)
        except (Failed, Unknown):
            self._forget(queue)
            raise

    def _messages(self, body: bytes) -> tuple[Delivered, ...]:
        """Return the records of a pull. Raises :class:`Unknown` for bytes that are no records: the reader learned
        nothing."""
        try:
            return tuple(self._delivered(body))
        except ValueError as error:
            raise Unknown(f"damaged answer: {error}") from error

    async def _master(self, queue: QueueRef) -> str:
        """Return the master by the route in hand, or by a name server. Raises :class:`Failed`: no broker was asked."""
        key = self._key(queue)
        if key not in self._masters:
            server = self._next_server()
            request = Command(code=Request.GET_ROUTEINFO_BY_TOPIC, fields={"topic": queue.topic})
            try:
                answer = await ask(self._server(server), request, self._timeout_s)
            except Unknown as error:
                raise Failed(f"no route from {server}: {error.reason}") from error
            if answer.code != Response.SUCCESS:
                raise Failed(f"no route from {server}: {_reason(answer)}")
            try:
                named = _masters(answer.body, key[1])
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                raise Failed(f"no route from {server}: damaged answer: {error}") from error
            for address in named:
                self._masters[key] = self._node(address)
        if key not in self._masters:
            raise Failed("the route has no master")
        return self._masters[key]

    def _key(self, queue: QueueRef) -> tuple[str, str]:
        """Return the key of what has a master of its own: a topic, in a broker group."""
        return queue.topic, self._group(queue)

    def _next_server(self) -> str:
        self._turn += 1
        return self._nameservers[(self._turn - 1) % len(self._nameservers)]

    def _forget(self, queue: QueueRef) -> None:
        self._masters.pop(self._key(queue), None)


def _masters(route: bytes, group: str) -> list[str]:
    """Return the addresses of the masters that a route names, of this group alone unless it is "". Raises whatever it
    takes when it is none."""
    brokers = [one for one in loads(route)["brokerDatas"] if group in ("", one.get("brokerName"))]
    return [str(one["brokerAddrs"]["0"]) for one in brokers if "0" in one["brokerAddrs"]]


def outcome(answer: Command, result: Answer) -> Failed | Unknown:
    """Return what a refused write means: it was surely not stored, or its outcome is unknown."""
    sure = answer.code in NOT_STORED or TOO_FEW_REPLICAS in answer.remark
    return Failed(_reason(answer), result) if sure else Unknown(_reason(answer), result)


def _reason(answer: Command) -> str:
    return f"code {answer.code}: {answer.remark}"


def answered(node: str, queue: QueueRef, answer: Command, **more: Any) -> Answer:
    return Answer(
        node=node,
        incarnation=number(answer.fields, "incarnation"),
        epoch=number(answer.fields, "epoch"),
        queue=queue.index,
        **more,
    )
