"""What the nodes of a RocketMQ cluster say of themselves and of one another, and what follows for the one group."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.driver import Network, Record
from chaos.effects.links import HARNESS
from chaos.node import NO_FIELDS, Message
from chaos.ops import Failed, Unknown
from chaos.tasks import gather
from drivers._remoting.json_text import loads
from drivers._remoting.requests import ask
from drivers._remoting.wire import Request, Response
from drivers.rocketmq.programs import GROUP, Cluster

LOOK_S = 1.0
#: RocketMQ's request for how one broker has a topic.
GET_TOPIC_CONFIG = 351


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An answer: its fields, and its body if that is a JSON object."""

    code: int
    fields: Mapping[str, str] = field(default_factory=lambda: NO_FIELDS)
    body: Mapping[str, Any] = field(default_factory=dict)
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The broker group as the controllers' leader has it; nodes by their names. ``leader`` is that controller, "" when
    none leads, and then nothing else is known. ``ids``: RocketMQ's number of each broker that has registered."""

    leader: str = ""
    master: str = ""
    epoch: int = -1
    in_sync: tuple[str, ...] = ()
    ids: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One poll of everybody. ``roles``: ``master`` or ``slave`` of each broker that answered, in its own words;
    ``followed``: how many slaves the master says are in sync; ``routed``: each name server's master."""

    group: Group
    roles: Mapping[str, str]
    followed: int
    routed: Mapping[str, str]

    def agrees(self, cluster: Cluster) -> bool:
        """Whether all nodes answer and mean the same master, and every broker is in sync in everybody's eyes."""
        master = self.group.master
        return (
            bool(self.group.leader and master)
            and set(self.group.in_sync) == set(cluster.brokers)
            and all(self.roles.get(name) == ("master" if name == master else "slave") for name in cluster.brokers)
            and self.followed == len(cluster.brokers) - 1
            and all(self.routed.get(name) == master for name in cluster.nameservers)
        )


async def take(network: Network, cluster: Cluster, topic: str, record: Record | None = None) -> Snapshot:
    """Ask everybody; with ``record``, write what each says as ``poll`` rows."""
    group = await controllers(network, cluster, record)
    words = await gather(
        *(_broker(network, name, record) for name in cluster.brokers),
        *(_route(network, cluster, name, topic, record) for name in cluster.nameservers),
    )
    count = len(cluster.brokers)
    followed = -1
    if group.master:
        told = await fetch(network, group.master, Request.GET_BROKER_HA_STATUS)
        followed = _number(told.body, "inSyncSlaveNums") if told and told.body.get("master") else -1
    return Snapshot(
        group=group,
        roles=dict(zip(cluster.brokers, words[:count], strict=True)),
        followed=followed,
        routed=dict(zip(cluster.nameservers, words[count:], strict=True)),
    )


async def controllers(network: Network, cluster: Cluster, record: Record | None = None) -> Group:
    """The group as the controllers' leader has it."""
    leads = await gather(*(_controller(network, cluster, name, record) for name in cluster.controllers))
    for leader in (name for name, leading in zip(cluster.controllers, leads, strict=True) if leading):
        body = json.dumps([GROUP]).encode()
        told = await fetch(network, leader, Request.CONTROLLER_GET_SYNC_STATE_DATA, body=body)
        if told is not None and told.code == Response.SUCCESS:
            return _group(cluster, leader, told.body)
    return Group()


async def has_topic(network: Network, node: str, topic: str) -> bool:
    """Whether a broker itself knows a topic."""
    told = await fetch(network, node, GET_TOPIC_CONFIG, {"topic": topic, "lo": "true"})
    return told is not None and told.code == Response.SUCCESS and told.body.get("topicName") == topic


async def is_master(network: Network, node: str) -> bool:
    """Whether a broker itself says that it is the master."""
    return await _broker(network, node, None) == "master"


async def fetch(
    network: Network,
    node: str,
    code: int,
    fields: Mapping[str, str] = NO_FIELDS,
    body: bytes = b"",
    timeout_s: float = LOOK_S,
) -> Told | None:
    """One request of the harness; None when there was no answer that makes sense."""
    try:
        answer = await ask(network.connect(HARNESS, node), Message(code=code, fields=fields, body=body), timeout_s)
        content = loads(answer.body) if answer.body else {}
    except (Failed, Unknown, ValueError):
        return None
    return Told(
        code=answer.code,
        fields=answer.fields,
        body=content if isinstance(content, dict) else {},
        remark=answer.remark,
    )


async def _controller(network: Network, cluster: Cluster, name: str, record: Record | None) -> bool:
    """Whether a controller says that it leads."""
    op = record("poll", type="invoke", f="controller", node=name) if record else -1
    told = await fetch(network, name, Request.CONTROLLER_GET_METADATA_INFO)
    if told is None or told.code != Response.SUCCESS:
        return False
    leading = told.fields.get("isLeader") == "true"
    if record:
        leader = cluster.node_at(told.fields.get("controllerLeaderAddress", ""))
        value = {"role": "leader" if leading else "follower", "leader": leader}
        record("poll", type="ok", op=op, f="controller", node=name, value=value)
    return leading


async def _broker(network: Network, name: str, record: Record | None) -> str:
    """The role that a broker says it has; "" when it says nothing. A master has the id 0. The row tells no epoch: a
    broker doesn't note a term in which nothing had been written when it began, so its file names an older one."""
    op = record("poll", type="invoke", f="state", node=name) if record else -1
    told = await fetch(network, name, Request.GET_BROKER_EPOCH_CACHE)
    if told is None or told.code != Response.SUCCESS or "brokerId" not in told.body:
        return ""
    role = "master" if told.body["brokerId"] == 0 else "slave"
    if record:
        value = {"role": role, "end": _number(told.body, "maxOffset"), "epochs": told.body.get("epochList")}
        record("poll", type="ok", op=op, f="state", node=name, value=value)
    return role


async def _route(network: Network, cluster: Cluster, name: str, topic: str, record: Record | None) -> str:
    """Whom a name server names as the master; "" when it names nobody."""
    op = record("poll", type="invoke", f="route", node=name) if record else -1
    told = await fetch(network, name, Request.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    if told is None:
        return ""
    addresses = [one.get("brokerAddrs", {}) for one in _objects(told.body.get("brokerDatas"))]
    masters = [str(one["0"]) for one in addresses if isinstance(one, dict) and "0" in one]
    master = cluster.node_at(masters[0]) if masters else ""
    if record:
        record("poll", type="ok", op=op, f="route", node=name, value={"master": master})
    return master


def _group(cluster: Cluster, leader: str, body: Mapping[str, Any]) -> Group:
    tables = body.get("replicasInfoTable")
    found = tables.get(GROUP) if isinstance(tables, dict) else None
    if not isinstance(found, dict):
        return Group(leader=leader)
    in_sync = _objects(found.get("inSyncReplicas"))
    ids = {
        cluster.node_at(str(one.get("brokerAddress"))): _number(one, "brokerId")
        for one in (*in_sync, *_objects(found.get("notInSyncReplicas")))
    }
    return Group(
        leader=leader,
        master=cluster.node_at(str(found.get("masterAddress", ""))),
        epoch=_number(found, "masterEpoch"),
        in_sync=tuple(sorted(filter(None, (cluster.node_at(str(one.get("brokerAddress"))) for one in in_sync)))),
        ids={name: number for name, number in ids.items() if name and number >= 0},
    )


def _objects(value: object) -> Sequence[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _number(body: Mapping[str, Any], name: str) -> int:
    value = body.get(name)
    return value if type(value) is int else -1
