"""A client that creates and deletes topics in RocketMQ, and asks for them as other clients do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.driver import Network
from chaos.ops import Answer, Failed, QueueRef, Unknown
from drivers._remoting.client import NOT_STORED
from drivers._remoting.json_text import loads
from drivers._remoting.requests import ask
from drivers._remoting.wire import Command, Request, Response
from drivers.rocketmq.client import REQUEST_S, QueueClient
from drivers.rocketmq.cluster import Cluster
from drivers.rocketmq.polls import GET_TOPIC_CONFIG

#: RocketMQ's requests for the deletion of a topic.
DELETE_AT_BROKER, DELETE_AT_NAMESERVER = 215, 216


def topic_fields(topic: str, queues: int) -> Mapping[str, str]:
    """Return the fields of the request that creates a topic at a master."""
    return {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
        "attributes": "",
        "force": "false",
    }


class TopicClient(QueueClient):
    """Implements :class:`chaos.services.DeletesTopics` in the broker group of ``home``, a queue that is there from the
    start. A broker answers such requests, and takes a new topic, whatever its role is; so it is asked afterwards
    whether it is the master."""

    def __init__(self, network: Network, name: str, cluster: Cluster, home: QueueRef) -> None:
        super().__init__(network, name, cluster)
        self._home = home

    async def create(self, topic: str, queues: int) -> Answer:
        """Create a topic. The master is asked for it first: the request would change the number of queues of one that
        exists."""
        node = await self._master(self._home)
        result = Answer(node=node)
        try:
            if await self._queues_at(node, topic):
                return await self._by_master(self._home, node, result)
        except Unknown as error:
            raise Failed(error.reason, result) from error
        message = Command(code=Request.UPDATE_AND_CREATE_TOPIC, fields=topic_fields(topic, queues))
        answer = await self._request(self._home, node, message)
        if answer.code == Response.SUCCESS:
            try:
                return await self._by_master(self._home, node, result)
            except Failed as error:
                raise Unknown(error.reason, result) from error
        self._forget(self._home)
        reason = f"code {answer.code}: {answer.remark}"
        raise Failed(reason, result) if answer.code in NOT_STORED else Unknown(reason, result)

    async def delete(self, topic: str) -> Answer:
        """Delete a topic as the admin tool does: at the master, and then at all name servers, which forget no topic by
        themselves."""
        node = await self._master(self._home)
        answer = await self._request(self._home, node, Command(code=DELETE_AT_BROKER, fields={"topic": topic}))
        result = Answer(node=node)
        if answer.code != Response.SUCCESS:
            self._forget(self._home)
            reason = f"code {answer.code}: {answer.remark}"
            raise Failed(reason, result) if answer.code in NOT_STORED else Unknown(reason, result)
        try:
            result = await self._by_master(self._home, node, result)
            for server in self._cluster.nameservers:
                message = Command(code=DELETE_AT_NAMESERVER, fields={"topic": topic})
                answer = await ask(self._server(server), message, REQUEST_S)
                if answer.code != Response.SUCCESS:
                    raise Unknown(f"{server} keeps the route: code {answer.code}: {answer.remark}")
        except (Failed, Unknown) as error:
            raise Unknown(error.reason, result) from error
        return result

    async def find(self, topic: str) -> Answer:
        """Find a topic. A client needs both the route, from a name server, and the topic at the master that it
        names."""
        server = self._next_server()
        try:
            routed = await self._queues_by(server, topic)
            if not routed:
                return Answer(node=server, value={"queues": 0})
            node = await self._master(self._home)
            queues = min(routed, await self._queues_at(node, topic))
        except Unknown as error:
            raise Failed(error.reason, Answer(node=server)) from error
        return await self._by_master(self._home, node, Answer(node=node, value={"queues": queues}))

    async def _queues_by(self, server: str, topic: str) -> int:
        """Return how many queues of the topic a name server says that the group has."""
        message = Command(code=Request.GET_ROUTEINFO_BY_TOPIC, fields={"topic": topic})
        answer = await ask(self._server(server), message, REQUEST_S)
        if answer.code == Response.TOPIC_NOT_EXIST:
            return 0
        return sum(
            int(one["readQueueNums"])
            for one in _content(answer, server)["queueDatas"]
            if one.get("brokerName") == self._group(self._home)
        )

    async def _queues_at(self, node: str, topic: str) -> int:
        """Return how many queues of the topic a broker says that it has."""
        message = Command(code=GET_TOPIC_CONFIG, fields={"topic": topic, "lo": "true"})
        answer = await self._request(self._home, node, message)
        return 0 if answer.code == Response.TOPIC_NOT_EXIST else int(_content(answer, node)["readQueueNums"])


def _content(answer: Command, node: str) -> Mapping[str, Any]:
    """Return what an answer says. Raises :class:`Failed` for one that says nothing."""
    if answer.code != Response.SUCCESS:
        raise Failed(f"code {answer.code}: {answer.remark}", Answer(node=node))
    content: Mapping[str, Any] = loads(answer.body)
    return content
