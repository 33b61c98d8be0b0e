"""Producers of delays, transactions and batches, and members of groups, in RocketMQ's requests.

A member does what RocketMQ's client does: it sends heartbeats, asks who else is in the group, and takes its share of
all queues as everybody computes it (``AllocateMessageQueueAveragely``). Members that read in order lock their queues.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from chaos.driver import Network, TakesRequests
from chaos.ops import SEQUENCE_BITS, Answer, Delivered, Failed, QueueRef, Unknown
from drivers._remoting.client import answered, outcome
from drivers._remoting.json_text import loads
from drivers._remoting.requests import number
from drivers.reference.client import QueueClient
from reference.broker import properties, records
from reference.broker.assignment import averagely
from reference.broker.deferral import COMMIT, ROLLBACK
from reference.broker.producer_requests import RETRY_PREFIX
from reference.broker.sends import LEVELS_S
from reference.wire.codes import Request, Response
from reference.wire.command import ONEWAY, Command

PRODUCERS = "storm-producers"
#: The property by which a message says how its transaction ends: RocketMQ's own client program has the same one.
DECISION = "stormproof_decision"
_HALF_FLAG = 4
_ITEM = struct.Struct(">iiiii")


class DeliveryProducer(QueueClient):
    """Implements :class:`chaos.delivery_services.DeliveryProducer`."""

    def __init__(self, network: Network, name: str, nameservers: Sequence[str], queue: QueueRef) -> None:
        super().__init__(network, name, nameservers)
        self._any_queue = queue
        self._taking: set[str] = set()

    async def send_batch(self, queue: QueueRef, messages: Sequence[tuple[str, bytes]]) -> Answer:
        parts = [_item(body, f"{properties.KEY}\x01{key}\x02WAIT\x01true\x02".encode()) for key, body in messages]
        return await self._store(queue, Request.SEND_BATCH_MESSAGE, {"m": "true"}, b"".join(parts))

    async def delay(self, queue: QueueRef, key: str, body: bytes, *, delay_ms: int, level: bool) -> Answer:
        if level:
            found = next(place for place, seconds in enumerate(LEVELS_S, 1) if seconds * 1000 >= delay_ms)
            named = f"{properties.DELAY_LEVEL}\x01{found}"
        else:
            named = f"{properties.DELAY_MS}\x01{delay_ms}"
        more = {"i": f"{named}\x02{properties.KEY}\x01{key}\x02"}
        return _accepted(await self._store(queue, Request.SEND_MESSAGE_V2, more, body))

    async def transact(self, queue: QueueRef, key: str, body: bytes, *, decision: str, checked: bool) -> Answer:
        values = {
            properties.HALF: "true",
            properties.PRODUCER_GROUP: PRODUCERS,
            properties.KEY: key,
            DECISION: decision,
        }
        more = {"f": str(_HALF_FLAG), "i": properties.write(values).decode()}
        stored = await self._store(queue, Request.SEND_MESSAGE_V2, more, body)
        if not checked:
            self._end(stored.node, stored.offset, decision)
        return _accepted(stored)

    async def beat(self) -> None:
        try:
            node = await self._master(self._any_queue)
            self._take_requests(node)
            body = {"clientID": self._name, "consumerDataSet": [], "producerDataSet": [{"groupName": PRODUCERS}]}
            request = Command(code=Request.HEART_BEAT, body=json.dumps(body).encode())
            await self._request(self._any_queue, node, request)
        except (Failed, Unknown):
            self._forget(self._any_queue)

    async def _store(self, queue: QueueRef, code: int, more: Mapping[str, str], body: bytes) -> Answer:
        fields = {
            "a": PRODUCERS,
            "b": queue.topic,
            "c": "TBW102",
            "d": "4",
            "e": str(queue.queue_id),
            "f": "0",
            "g": "0",
            "h": "0",
            **more,
        }
        node = await self._master(queue)
        answer = await self._request(queue, node, Command(code=code, fields=fields, body=body))
        if answer.code == Response.SUCCESS:
            offset, position = number(answer.fields, "queueOffset"), number(answer.fields, "position")
            return answered(node, queue, answer, offset=offset, position=position)
        self._forget(queue)
        raise outcome(answer, answered(node, queue, answer))

    def _end(self, node: str, place: int, decision: str) -> None:
        """Say how a transaction ends. It is not answered: a broker that did not hear it asks."""
        fields = {
            "producerGroup": PRODUCERS,
            "commitLogOffset": str(place),
            "tranStateTableOffset": str(place),
            "commitOrRollback": str(COMMIT if decision == "commit" else ROLLBACK),
        }
        request = Command(code=Request.END_TRANSACTION, flags=ONEWAY, fields=fields)
        self._network.connect(self._name, node).oneway(request)

    def _take_requests(self, node: str) -> None:
        """Answer a broker that asks how a transaction ends."""
        connection = self._network.connect(self._name, node)
        if node in self._taking or not isinstance(connection, TakesRequests):
            return
        self._taking.add(node)

        def take(request: Command) -> None:
            if request.code == Request.CHECK_TRANSACTION_STATE:
                values = properties.read(records.decode(request.body).properties)
                self._end(node, number(request.fields, "commitLogOffset"), values.get(DECISION, "rollback"))

        connection.on_request(take)


class DeliveryMember:
    """Implements :class:`chaos.delivery_services.DeliveryMember`. ``_positions``: where in the log the messages stand
    that it was given last from each queue, by the queue's index and the offset. ``_again``: the next offset to read
    of the group's own queue (-1: not known)."""

    def __init__(
        self,
        network: Network,
        name: str,
        nameservers: Sequence[str],
        group: str,
        queues: Sequence[QueueRef],
        lock_s: float,
    ) -> None:
        self._client = _MemberClient(network, name, nameservers)
        self._network = network
        self._name = name
        self._group = group
        self._queues = queues
        self._lock_s = lock_s
        self._again = -1
        self._has_again = False
        self._handles: dict[int, dict[str, str]] = {}

    @property
    def lock_s(self) -> float:
        return self._lock_s

    async def beat(self) -> Answer:
        names = sorted({queue.topic for queue in self._queues})
        subscriptions = [
            {"topic": name, "subString": "*", "expressionType": "TAG", "subVersion": 1, "tagsSet": [], "codeSet": []}
            for name in (*names, RETRY_PREFIX + self._group)
        ]
        consumer = {
            "groupName": self._group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "subscriptionDataSet": subscriptions,
        }
        body = {"clientID": self._name, "consumerDataSet": [consumer], "producerDataSet": []}
        node, _ = await self._ask(Request.HEART_BEAT, {}, body)
        _, answer = await self._ask(Request.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": self._group})
        members = sorted(str(one) for one in _read(answer).get("consumerIdList", ()))
        mine = share(members, self._name, self._queues)
        self._has_again = bool(members) and members[0] == self._name
        if not self._has_again:
            self._again = -1
        return answered(node, self._queues[0], answer, value={"queues": [queue.index for queue in mine]})

    async def lock(self, queues: Sequence[QueueRef]) -> Answer:
        node, answer = await self._ask(Request.LOCK_BATCH_MQ, {}, self._of_queues(queues))
        given = {(one["topic"], one["queueId"]) for one in _read(answer).get("lockOKMQSet", ())}
        held = [queue.index for queue in queues if (queue.topic, queue.queue_id) in given]
        return answered(node, self._queues[0], answer, value={"queues": held})

    async def unlock(self, queues: Sequence[QueueRef]) -> Answer:
        node, answer = await self._ask(Request.UNLOCK_BATCH_MQ, {}, self._of_queues(queues))
        return answered(node, self._queues[0], answer)

    async def committed(self, queue: QueueRef) -> Answer:
        return await self._client.committed(queue, self._group)

    async def pull(self, queue: QueueRef, offset: int, *, limit: int) -> Answer:
        return await self._client.pull(queue, offset, limit=limit)

    async def commit(self, queue: QueueRef, offset: int) -> Answer:
        return await self._client.commit(queue, self._group, offset)

    async def send_back(self, queue: QueueRef, offset: int) -> Answer:
        position = self._client.positions.get((queue.topic, queue.queue_id), {}).get(offset, -1)
        fields = {
            "group": self._group,
            "offset": str(position),
            "originTopic": queue.topic,
            "delayLevel": "1",
            "maxReconsumeTimes": "16",
        }
        node, answer = await self._ask(Request.CONSUMER_SEND_MSG_BACK, fields)
        return answered(node, queue, answer, value={"again_ms": LEVELS_S[0] * 1000})

    async def pull_again(self, limit: int) -> Answer:
        own = QueueRef(index=-1, topic=RETRY_PREFIX + self._group, queue_id=0)
        if not self._has_again:
            return Answer()
        if self._again < 0:
            self._again = max(0, (await self._client.committed(own, self._group)).offset)
        elif self._again > 0:  # what came last time is recorded by now
            with suppress(Failed, Unknown):
                await self._client.commit(own, self._group, self._again)
        read = await self._client.pull(own, self._again, limit=limit)
        if read.messages:
            self._again = read.messages[-1].offset + 1
        return replace(read, messages=tuple(replace(one, queue=one.message >> SEQUENCE_BITS) for one in read.messages))

    async def pop(self, limit: int, *, invisible_ms: int) -> Answer:
        queue = self._queues[0]
        fields = {
            "consumerGroup": self._group,
            "topic": queue.topic,
            "queueId": "-1",
            "maxMsgNums": str(limit),
            "invisibleTime": str(invisible_ms),
            "pollTime": "0",
        }
        node = await self._client.master(queue)
        answer = await self._client.asked(queue, node, Command(code=Request.POP_MESSAGE, fields=fields))
        if answer.code == Response.POLLING_TIMEOUT:
            return answered(node, queue, answer)
        if answer.code != Response.SUCCESS:
            self._client.forget(queue)
            raise outcome(answer, answered(node, queue, answer))
        return answered(node, queue, answer, **self._given(answer))

    def _given(self, answer: Command) -> dict[str, Any]:
        """Return the messages of an answer, and remember their handles. Raises :class:`Unknown` for bytes that are no
        messages."""
        try:
            found = records.decode_all(answer.body)
            flag, number_there, first = answer.fields["startOffsetInfo"].split(" ")
            offsets = answer.fields["msgOffsetInfo"].split(" ")[2].split(",")
            pairs = list(zip(found, offsets, strict=True))
        except (ValueError, LookupError) as error:
            raise Unknown(f"damaged answer: {error}") from error
        messages, self._handles = [], {}
        for record, offset in pairs:
            message = records.message_number(record.properties)
            words = (
                first,
                answer.fields["popTime"],
                answer.fields["invisibleTime"],
                "0",
                flag,
                "",
                number_there,
                offset,
            )
            self._handles[message] = {"extraInfo": " ".join(words), "offset": offset, "queueId": number_there}
            place = message >> SEQUENCE_BITS if flag == "1" else int(number_there)
            content = records.body_hash(record.body)
            messages.append(Delivered(offset=record.offset, message=message, hash=content, queue=place))
        again = list(range(len(messages))) if flag == "1" else []
        return {"messages": tuple(messages), "value": {"again": again}}

    async def acknowledge(self, message: int) -> Answer:
        handle = self._handles.get(message)
        if handle is None:
            raise Failed("this message was not given last time")
        topic = {"consumerGroup": self._group, "topic": self._queues[0].topic}
        node, answer = await self._ask(Request.ACK_MESSAGE, {**topic, **handle})
        return answered(node, self._queues[0], answer)

    async def leave(self) -> Answer:
        node, answer = await self._ask(
            Request.UNREGISTER_CLIENT, {"clientID": self._name, "consumerGroup": self._group}
        )
        return answered(node, self._queues[0], answer)

    def close(self) -> None:
        self._client.disconnect()

    def _of_queues(self, queues: Sequence[QueueRef]) -> dict[str, Any]:
        named = [{"topic": one.topic, "brokerName": "", "queueId": one.queue_id} for one in queues]
        return {"clientId": self._name, "consumerGroup": self._group, "mqSet": named}

    async def _ask(
        self, code: int, fields: Mapping[str, str], body: Mapping[str, Any] | None = None
    ) -> tuple[str, Command]:
        """Ask the master. Raises :class:`Failed` and :class:`Unknown`, as the answer says."""
        queue = self._queues[0]
        node = await self._client.master(queue)
        content = b"" if body is None else json.dumps(body).encode()
        answer = await self._client.asked(queue, node, Command(code=code, fields=fields, body=content))
        if answer.code != Response.SUCCESS:
            self._client.forget(queue)
            raise outcome(answer, answered(node, queue, answer))
        return node, answer


class _MemberClient(QueueClient):
    """``positions``: where the messages of the last pull of each queue stand in the log."""

    def __init__(self, network: Network, name: str, nameservers: Sequence[str]) -> None:
        super().__init__(network, name, nameservers)
        self.positions: dict[tuple[str, int], dict[int, int]] = {}
        self._nodes: set[str] = set()

    def _delivered(self, body: bytes) -> Sequence[Delivered]:
        found = records.decode_all(body)
        if found:
            place = found[0].topic, found[0].queue_id
            self.positions[place] = {one.offset: one.position for one in found}
        return super()._delivered(body)

    async def master(self, queue: QueueRef) -> str:
        return await self._master(queue)

    async def asked(self, queue: QueueRef, node: str, message: Command) -> Command:
        return await self._request(queue, node, message)

    async def _request(self, queue: QueueRef, node: str, message: Command, wait_s: float = 0.0) -> Command:
        self._nodes.add(node)
        return await super()._request(queue, node, message, wait_s)

    def forget(self, queue: QueueRef) -> None:
        self._forget(queue)

    def disconnect(self) -> None:
        for node in sorted(self._nodes):
            self._network.connect(self._name, node).close()


def share(members: Sequence[str], member: str, queues: Sequence[QueueRef]) -> Sequence[QueueRef]:
    """Return a member's queues: a run of neighbours, as many as the others have, or one more. None where it is no
    member."""
    return averagely(len(members), members.index(member), queues) if member in members else ()


def _item(body: bytes, named: bytes) -> bytes:
    """Return a message as a batch holds it."""
    size = _ITEM.size + len(body) + 2 + len(named)
    return b"".join((_ITEM.pack(size, 0, 0, 0, len(body)), body, len(named).to_bytes(2, "big"), named))


def _accepted(stored: Answer) -> Answer:
    """Return what is known of a message that comes to its queue later: no place in it."""
    return replace(stored, offset=-1, position=-1)


def _read(answer: Command) -> Mapping[str, Any]:
    try:
        value = loads(answer.body)
    except ValueError as error:
        raise Unknown(f"damaged answer: {error}") from error
    return value if isinstance(value, Mapping) else {}
