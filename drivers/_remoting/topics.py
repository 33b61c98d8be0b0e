"""A client that creates and deletes topics at a broker, and asks name servers for them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from chaos.driver import Network
from chaos.ops import Answer, Failed, QueueRef, Unknown
from drivers._remoting.client import NOT_STORED, REQUEST_S, TOO_FEW_REPLICAS, QueueClient
from drivers._remoting.requests import ask, number
from reference.wire.codes import Request, Response
from reference.wire.command import Command


class TopicClient(QueueClient):
    """Implements :class:`chaos.services.DeletesTopics`. Topics are created and deleted at the master of ``home``, a
    queue that is there from the start."""

    def __init__(self, network: Network, name: str, nameservers: Sequence[str], home: QueueRef) -> None:
        super().__init__(network, name, nameservers)
        self._home = home

    async def create(self, topic: str, queues: int) -> Answer:
        fields = {"topic": topic, "readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": "6"}
        return await self._change(Command(code=Request.UPDATE_AND_CREATE_TOPIC, fields=fields))

    async def delete(self, topic: str) -> Answer:
        """Delete a topic as the admin tool does: at the master, and then at all name servers."""
        fields = {"topic": topic}
        result = await self._change(Command(code=Request.DELETE_TOPIC_IN_BROKER, fields=fields))
        for server in self._nameservers:
            message = Command(code=Request.DELETE_TOPIC_IN_NAMESERVER, fields=fields)
            try:
                answer = await ask(self._network.connect(self._name, server), message, REQUEST_S)
            except Unknown as error:
                raise Unknown(error.reason, result) from error
            if answer.code != Response.SUCCESS:
                raise Unknown(f"{server} keeps the route: code {answer.code}: {answer.remark}", result)
        return result

    async def _change(self, message: Command) -> Answer:
        node = await self._master(self._home)
        answer = await self._request(self._home, node, message)
        incarnation, epoch = number(answer.fields, "incarnation"), number(answer.fields, "epoch")
        result = Answer(node=node, incarnation=incarnation, epoch=epoch)
        if answer.code == Response.SUCCESS:
            return result
        self._forget(self._home)
        reason = f"code {answer.code}: {answer.remark}"
        if answer.code in NOT_STORED or TOO_FEW_REPLICAS in answer.remark:
            raise Failed(reason, result)
        raise Unknown(reason, result)

    async def find(self, topic: str) -> Answer:
        server = self._next_server()
        message = Command(code=Request.GET_ROUTEINFO_BY_TOPIC, fields={"topic": topic})
        try:
            answer = await ask(self._network.connect(self._name, server), message, REQUEST_S)
        except Unknown as error:
            raise Failed(error.reason, Answer(node=server)) from error
        if answer.code == Response.TOPIC_NOT_EXIST:
            return Answer(node=server, value={"queues": 0})
        if answer.code != Response.SUCCESS:
            raise Failed(f"code {answer.code}: {answer.remark}", Answer(node=server))
        queues = sum(int(found["readQueueNums"]) for found in json.loads(answer.body)["queueDatas"])
        return Answer(node=server, value={"queues": queues})
