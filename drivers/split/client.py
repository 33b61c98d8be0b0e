"""Clients of a split cluster: a queue is known by the name of its slice, and by its rank there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from chaos.ops import Answer, Failed, QueueRef, Unknown
from drivers._remoting import client, topics
from drivers._remoting.client import NOT_STORED, REQUEST_S
from drivers._remoting.requests import ask
from drivers.split.places import Places
from reference.wire.codes import Request, Response
from reference.wire.command import Command


class QueueClient(client.QueueClient):
    """A client of queues. Its maker says where queues lie (:meth:`placed`)."""

    _places: Places

    def placed(self, places: Places) -> Self:
        """Take this for where queues lie, and return the client."""
        self._places = places
        return self

    def _group(self, queue: QueueRef) -> str:
        return self._places.broker(queue)

    def _place(self, queue: QueueRef) -> tuple[str, int]:
        return self._places.broker(queue), self._places.rank(queue)

    def _extra(self, node: str, source: str) -> Mapping[str, str]:
        return {"demandSource": source} if source else {}


class TopicClient(topics.TopicClient, QueueClient):
    """The same, of topics. These are deleted at meta: RocketMQ's own request would delete what one broker has."""

    _metas: Sequence[str]

    def asking(self, metas: Sequence[str]) -> Self:
        """Take these for the meta nodes, and return the client."""
        self._metas = metas
        return self

    async def delete(self, topic: str) -> Answer:
        """Ask a meta node, and the one that it says leads instead: who does not lead has done nothing."""
        node, message = self._metas[0], Command(code=Request.META_DELETE_TOPIC, fields={"topic": topic})
        for _ in self._metas:
            answer = await ask(self._network.connect(self._name, node), message, REQUEST_S)
            leader = answer.fields.get("leader", "")
            if answer.code != Response.CONTROLLER_NOT_LEADER or leader not in self._metas:
                break
            node = leader
        result = Answer(node=node)
        if answer.code in (Response.SUCCESS, Response.TOPIC_NOT_EXIST):
            return result
        reason = f"code {answer.code}: {answer.remark}"
        if answer.code in (Response.CONTROLLER_NOT_LEADER, *NOT_STORED):
            raise Failed(reason, result)
        raise Unknown(reason, result)
