"""A client of the reference system's queues, in RocketMQ's requests; and what each answer says of what happened."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from chaos.driver import Network
from chaos.node import Message
from chaos.ops import Answer, Delivered, Failed, QueueRef, Unknown
from drivers.reference.requests import ask, number
from reference.broker import records
from reference.wire.codes import Request, Response

REQUEST_S = 2.0
PULL_SUBSCRIBED = 4

#: A send with one of these answers was surely not stored.
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
    """A client of the queues: finds the master through a name server, and asks again after each failure."""

    def __init__(self, network: Network, name: str, nameservers: Sequence[str]) -> None:
        self._network = network
        self._name = name
        self._nameservers = nameservers
        self._turn = 0
        self._masters: dict[str, str] = {}

    async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
        fields = {
            "a": "storm-producers",
            "b": queue.topic,
            "c": "TBW102",
            "d": "4",
            "e": str(queue.queue_id),
            "f": "0",
            "g": "0",
            "h": "0",
            "i": f"UNIQ_KEY\x01{key}\x02WAIT\x01true\x02",
        }
        node = await self._master(queue.topic)
        answer = await self._request(
            queue, node, Message(code=Request.SEND_MESSAGE_V2, fields=fields, body=body), REQUEST_S
        )
        if answer.code == Response.SUCCESS:
            offset, position = number(answer.fields, "queueOffset"), number(answer.fields, "position")
            return _answer(node, queue, answer, offset=offset, position=position)
        self._forget(queue)
        reason = f"code {answer.code}: {answer.remark}"
        if answer.code in NOT_STORED or TOO_FEW_REPLICAS in answer.remark:
            raise Failed(reason, _answer(node, queue, answer))
        raise Unknown(reason, _answer(node, queue, answer))

    async def pull(
        self, queue: QueueRef, offset: int, *, limit: int, max_bytes: int = 0, node: str = "", source: str = ""
    ) -> Answer:
        fields = {
            "consumerGroup": queue.group or "storm-readers",
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "queueOffset": str(offset),
            "maxMsgNums": str(limit),
            "sysFlag": str(PULL_SUBSCRIBED),
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subVersion": "0",
            "subscription": "*",
            "expressionType": "TAG",
        }
        if max_bytes:
            fields["maxMsgBytes"] = str(max_bytes)
        if node:
            fields["anyReplica"] = "true"
        if source:
            fields["demandSource"] = source
        asked = node or await self._master(queue.topic)
        answer = await self._request(queue, asked, Message(code=Request.PULL_MESSAGE, fields=fields), REQUEST_S)
        result = _answer(
            asked,
            queue,
            answer,
            source=answer.fields.get("source", ""),
            minimum=number(answer.fields, "minOffset"),
            maximum=number(answer.fields, "maxOffset"),
            following=number(answer.fields, "nextBeginOffset"),
            size=len(answer.body) if answer.code == Response.SUCCESS else -1,
            messages=_messages(answer.body) if answer.code == Response.SUCCESS else (),
        )
        if answer.code in (Response.SUCCESS, Response.PULL_NOT_FOUND):
            return result
        if answer.code != Response.PULL_OFFSET_MOVED and not node:
            self._forget(queue)
        raise Failed(f"code {answer.code}: {answer.remark}", result)

    async def commit(self, queue: QueueRef, group: str, offset: int) -> Answer:
        answer = await self._of_group(Request.UPDATE_CONSUMER_OFFSET, queue, group, {"commitOffset": str(offset)})
        result = replace(_answer(answer[0], queue, answer[1]), offset=offset)
        if answer[1].code == Response.SUCCESS:
            return result
        self._forget(queue)
        reason = f"code {answer[1].code}: {answer[1].remark}"
        if answer[1].code in NOT_STORED or TOO_FEW_REPLICAS in answer[1].remark:
            raise Failed(reason, result)
        raise Unknown(reason, result)

    async def committed(self, queue: QueueRef, group: str) -> Answer:
        node, answer = await self._of_group(Request.QUERY_CONSUMER_OFFSET, queue, group, {"setZeroIfNotFound": "false"})
        result = _answer(node, queue, answer)
        if answer.code == Response.SUCCESS:
            return replace(result, offset=number(answer.fields, "offset"))
        if answer.code == Response.QUERY_NOT_FOUND:
            return result
        self._forget(queue)
        raise Failed(f"code {answer.code}: {answer.remark}", result)

    async def bounds(self, queue: QueueRef, node: str = "") -> Answer:
        fields = {"topic": queue.topic, "queueId": str(queue.queue_id), "committed": "true"}
        if node:
            fields["anyReplica"] = "true"
        asked = node or await self._master(queue.topic)
        answer = await self._request(queue, asked, Message(code=Request.GET_MAX_OFFSET, fields=fields), REQUEST_S)
        result = _answer(asked, queue, answer)
        if answer.code == Response.SUCCESS:
            return replace(result, maximum=number(answer.fields, "offset"), minimum=number(answer.fields, "minOffset"))
        if not node:
            self._forget(queue)
        raise Failed(f"code {answer.code}: {answer.remark}", result)

    def close(self) -> None:
        """Nothing of its own: a connection belongs to the network, one for each client and node."""

    async def _of_group(self, code: int, queue: QueueRef, group: str, more: Mapping[str, str]) -> tuple[str, Message]:
        fields = {"consumerGroup": group, "topic": queue.topic, "queueId": str(queue.queue_id), **more}
        node = await self._master(queue.topic)
        return node, await self._request(queue, node, Message(code=code, fields=fields), REQUEST_S)

    async def _request(self, queue: QueueRef, node: str, message: Message, timeout_s: float) -> Message:
        try:
            return await ask(self._network.connect(self._name, node), message, timeout_s)
        except (Failed, Unknown):
            self._forget(queue)
            raise

    async def _master(self, topic: str) -> str:
        """The master by the route in hand, or by a name server. Raises :class:`Failed`: no broker was asked."""
        if topic not in self._masters:
            server = self._next_server()
            request = Message(code=Request.GET_ROUTEINFO_BY_TOPIC, fields={"topic": topic})
            try:
                answer = await ask(self._network.connect(self._name, server), request, REQUEST_S)
            except Unknown as error:
                raise Failed(f"no route from {server}: {error.reason}") from error
            if answer.code != Response.SUCCESS:
                raise Failed(f"no route from {server}: code {answer.code}: {answer.remark}")
            for broker in json.loads(answer.body)["brokerDatas"]:
                if "0" in broker["brokerAddrs"]:
                    self._masters[topic] = broker["brokerAddrs"]["0"]
        if topic not in self._masters:
            raise Failed("the route has no master")
        return self._masters[topic]

    def _next_server(self) -> str:
        self._turn += 1
        return self._nameservers[(self._turn - 1) % len(self._nameservers)]

    def _forget(self, queue: QueueRef) -> None:
        self._masters.pop(queue.topic, None)


def _answer(node: str, queue: QueueRef, answer: Message, **more: Any) -> Answer:
    return Answer(
        node=node,
        incarnation=number(answer.fields, "incarnation"),
        epoch=number(answer.fields, "epoch"),
        queue=queue.index,
        **more,
    )


def _messages(body: bytes) -> tuple[Delivered, ...]:
    """The records of a pull. Raises :class:`Unknown` for bytes that are no records: the reader learned nothing."""
    try:
        found = records.decode_all(body)
    except records.BadRecord as error:
        raise Unknown(f"damaged answer: {error}") from error
    return tuple(
        Delivered(offset=one.offset, message=records.message_number(one.properties), hash=records.body_hash(one.body))
        for one in found
    )
