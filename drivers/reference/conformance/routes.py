"""What a name server makes of registrations: the newest master alone is in a route."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from chaos.ops import Failed
from drivers.reference.conformance.case import Case, Session, conversation, of_json
from reference.wire.codes import Request, Response
from reference.wire.requests import NAMESERVER

#: Groups that one client names in turn, so that what comes late is of another one.
_GROUPS = 64
_CLUSTER = "limits"
_LINE = "registers"
#: A registration that nobody renews is gone after ``expire_ms`` (10 s) and a scan of the name server's (1 s); its clock
#: may run slow.
_EXPIRED_S = 13.0
#: Nobody has this one.
_ADDRESS = "192.0.2.1:10911"


def of_routes() -> dict[str, Case]:
    return {
        "the route of a group through its masters": conversation(NAMESERVER, _masters),
        "the routes of who leaves": conversation(NAMESERVER, _leaving),
        "the routes of who falls silent": conversation(NAMESERVER, _Silent().session),
    }


class _Silent:
    """A broker that registers with each name server, once, and keeps its connection: its routes go all the same."""

    def __init__(self) -> None:
        self._since_ns: dict[str, int] = {}  # node → when it was registered there

    async def session(self, session: Session) -> None:
        group = _Group(session, "silent")
        topic = f"{group.name}-t"
        since_ns = self._since_ns.get(session.node)
        if since_ns is None:
            await group.registers("a", 0, 0, topic)
            self._since_ns[session.node] = session.network.now_ns()
        elif session.network.now_ns() - since_ns > _EXPIRED_S * 1e9:
            await group.is_routed(topic, {})


class _Group:
    """A group of brokers that are none. What it registers comes over one connection. ``epoch``: the first of its
    epochs, above all that its name had before, and above those of groups with brokers, so that no law takes its
    masters for old ones of theirs. ``name`` is that of a group that one conversation alone names, over a connection of
    its own."""

    def __init__(self, session: Session, name: str = "") -> None:
        self.session = session
        self.name = f"{session.client}-{name or session.number % _GROUPS}"
        self.line = name or _LINE
        self.epoch = (1 << 40) + session.number * 16

    async def registers(self, broker: str, number: int, epoch: int, *topics: str) -> Mapping[str, str]:
        """Register a broker and return the fields of the answer. ``epoch`` counts from the group's first one."""
        table = {topic: {"perm": 4, "readQueueNums": 3, "writeQueueNums": 2} for topic in topics}
        version = {"stateVersion": self.epoch + epoch}
        body = {"topicConfigSerializeWrapper": {"dataVersion": version, "topicConfigTable": table}}
        fields: dict[str, Any] = {
            "brokerAddr": self.address(broker),
            "brokerId": number,
            "clusterName": _CLUSTER,
        }
        content = json.dumps(body).encode()
        answer = await self.session.expect(
            0, Request.REGISTER_BROKER, content, line=self.line, brokerName=self.name, **fields
        )
        return answer.fields

    async def leaves(self, broker: str, number: int) -> None:
        fields: dict[str, Any] = {"brokerName": self.name, "brokerAddr": self.address(broker), "brokerId": number}
        await self.session.expect(0, Request.UNREGISTER_BROKER, line=_LINE, **fields)

    def address(self, broker: str) -> str:
        """Return the address of a broker. One that stays for longer looks like a real broker's, for those who ask for
        addresses."""
        return f"{self.name}-{broker}" if self.line == _LINE else _ADDRESS

    async def is_routed(self, topic: str, brokers: Mapping[str, str]) -> None:
        """Check that the route of a topic names these brokers by their ids; none: that there is no route."""
        code = Response.SUCCESS if brokers else Response.TOPIC_NOT_EXIST
        answer = await self.session.expect(code, Request.GET_ROUTEINFO_BY_TOPIC, topic=topic)
        if not brokers:
            return
        route = of_json(answer)
        documented = {
            "brokerName": self.name,
            "cluster": _CLUSTER,
            "brokerAddrs": {number: self.address(broker) for number, broker in brokers.items()},
        }
        data = [{key: one.get(key) for key in documented} for one in _list(route, "brokerDatas")]
        self.session.must_be("the brokers of a route", data, [documented])
        queues = {"brokerName": self.name, "perm": 4, "readQueueNums": 3, "writeQueueNums": 2, "topicSysFlag": 0}
        self.session.must_be("the queues of a route", _list(route, "queueDatas"), [queues])


def _list(body: Mapping[str, object], key: str) -> list[Mapping[str, Any]]:
    found = body.get(key)
    if not isinstance(found, list):
        raise Failed(f"{key} is no list")
    return found


async def _masters(session: Session) -> None:
    group = _Group(session)
    topic, other = f"{group.name}-t", f"{group.name}-u"
    session.must_be("the answer to a master", dict(await group.registers("a", 0, 0, topic)), {})
    await group.is_routed(topic, {"0": "a"})
    answer = await group.registers("b", 2, 0)
    master = {"haServerAddr": group.address("a"), "masterAddr": group.address("a")}
    session.must_be("the answer to a slave", dict(answer), master)
    await group.is_routed(topic, {"0": "a", "2": "b"})
    await _is_in_the_cluster(session, group, {"0": "a", "2": "b"}, topic)
    await group.registers("b", 0, 1, other)
    await group.is_routed(topic, {})
    await group.is_routed(other, {"0": "b"})
    session.must_be("the answer to an old master", dict(await group.registers("a", 0, 0, topic)), {})
    await group.is_routed(topic, {})
    await group.is_routed(other, {"0": "b"})
    await group.registers("c", 3, 1)
    await group.registers("d", 3, 1)
    await group.is_routed(other, {"0": "b", "3": "d"})
    await group.registers("a", 2, 2)
    await group.is_routed(other, {"2": "a", "3": "d"})
    await group.registers("b", 0, 1, topic)
    await group.is_routed(other, {"2": "a", "3": "d"})
    await group.leaves("a", 7)
    await group.is_routed(other, {"2": "a", "3": "d"})
    await group.leaves("a", 2)
    await group.leaves("e", 3)
    await group.is_routed(other, {"3": "d"})
    await group.leaves("d", 3)
    await group.is_routed(other, {})


async def _is_in_the_cluster(session: Session, group: _Group, brokers: Mapping[str, str], topic: str) -> None:
    cluster = of_json(await session.expect(0, Request.GET_BROKER_CLUSTER_INFO))
    table = cast(Mapping[str, Mapping[str, Any]], cluster["brokerAddrTable"])
    addresses = {number: group.address(broker) for number, broker in brokers.items()}
    session.must_be("a group of the cluster", table.get(group.name, {}).get("brokerAddrs"), addresses)
    clusters = cast(Mapping[str, list[str]], cluster["clusterAddrTable"])
    session.must_be("whether the cluster lists it", group.name in clusters.get(_CLUSTER, []), True)
    topics = _list(of_json(await session.expect(0, Request.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)), "topicList")
    session.must_be("whether its topic is listed", topic in topics, True)
    routes = cast(Mapping[str, Any], of_json(await session.expect(0, Request.DESCRIBE))["routes"])
    documented = {"master": group.address("a"), "epoch": group.epoch, "brokers": sorted(addresses.values())}
    session.must_be("how it describes the group", routes.get(group.name), documented)


async def _leaving(session: Session) -> None:
    """Check that registrations end with the connection that brought them, and with no other one."""
    group = _Group(session)
    topic = f"{group.name}-t"
    await group.registers("a", 0, 0, topic)
    await session.expect(0, Request.DESCRIBE, line="passes")
    session.leave("passes")
    for _ in range(3):  # the end of a connection may come later than requests over another one
        await group.is_routed(topic, {"0": "a"})
    session.leave(_LINE)
    for _ in range(3):
        answer = await session.ask(Request.GET_ROUTEINFO_BY_TOPIC, may=(Response.TOPIC_NOT_EXIST,), topic=topic)
        if answer.code == Response.TOPIC_NOT_EXIST:
            break
    await group.is_routed(topic, {})
    topics = _list(of_json(await session.expect(0, Request.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)), "topicList")
    session.must_be("whether the topic of who has left is listed", topic in topics, False)
