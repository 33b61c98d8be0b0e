"""What the nodes of a RocketMQ cluster say of themselves and of one another, and what follows for its groups."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.driver import Network, Record
from chaos.effects.links import HARNESS
from chaos.ops import Failed, Unknown
from chaos.tasks import gather
from drivers._remoting.json_text import loads
from drivers._remoting.requests import Asks, ask
from drivers._remoting.wire import NO_FIELDS, Command, Request, Response
from drivers.rocketmq.cluster import Cluster

LOOK_S = 1.0
#: RocketMQ's request for how one broker has a topic.
GET_TOPIC_CONFIG = 351


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer: its fields, and its body if that is a JSON object."""

    code: int
    fields: Mapping[str, str] = field(default_factory=lambda: NO_FIELDS)
    body: Mapping[str, Any] = field(default_factory=dict)
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A broker group as the controllers' leader has it; nodes by their names. ``ids``: RocketMQ's number of each broker
    that has registered."""

    master: str = ""
    epoch: int = -1
    in_sync: tuple[str, ...] = ()
    ids: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One poll of everybody. ``leader``: the controller that leads, "" when none does, and then nothing is known of
    groups. ``roles``: ``master`` or ``slave`` of each broker that answered, in its own words; ``followed``: how many
    slaves each group's master says are in sync; ``routed``: each name server's master of each group."""

    leader: str
    groups: Mapping[str, Group]
    roles: Mapping[str, str]
    followed: Mapping[str, int]
    routed: Mapping[str, Mapping[str, str]]

    def agrees(self, cluster: Cluster, name: str) -> bool:
        """Return whether all nodes answer and mean the same master of this group, and every replica is in sync in
        everybody's eyes."""
        group, replicas = self.groups.get(name, Group()), cluster.groups[name]
        return (
            bool(self.leader and group.master)
            and set(group.in_sync) == set(replicas)
            and all(self.roles.get(one) == ("master" if one == group.master else "slave") for one in replicas)
            and self.followed.get(name) == len(replicas) - 1
            and all(self.routed.get(one, {}).get(name) == group.master for one in cluster.nameservers)
        )


async def take(network: Network, cluster: Cluster, topic: str, record: Record | None = None) -> Snapshot:
    """Ask everybody; with ``record``, write what each says as ``poll`` rows."""
    leader, groups = await controllers(network, cluster, record)
    words = await gather(*(_broker(network, name, record) for name in cluster.brokers))
    routes = await gather(*(_route(network, cluster, name, topic, record) for name in cluster.nameservers))
    followed = {name: await _followed(network, group.master) for name, group in groups.items() if group.master}
    return Snapshot(
        leader=leader,
        groups=groups,
        roles=dict(zip(cluster.brokers, words, strict=True)),
        followed=followed,
        routed=dict(zip(cluster.nameservers, routes, strict=True)),
    )


async def controllers(
    network: Network, cluster: Cluster, record: Record | None = None
) -> tuple[str, Mapping[str, Group]]:
    """Return the controllers' leader, and the groups as it has them."""
    leads = await gather(*(_controller(network, cluster, name, record) for name in cluster.controllers))
    for leader in (name for name, leading in zip(cluster.controllers, leads, strict=True) if leading):
        body = json.dumps([*cluster.groups]).encode()
        reply = await fetch(network, leader, Request.CONTROLLER_GET_SYNC_STATE_DATA, body=body)
        if reply is not None and reply.code == Response.SUCCESS:
            return leader, {name: _group(cluster, name, reply.body) for name in cluster.groups}
    return "", {}


async def has_topic(network: Network, node: str, topic: str) -> bool:
    """Return whether a broker itself knows a topic."""
    reply = await fetch(network, node, GET_TOPIC_CONFIG, {"topic": topic, "lo": "true"})
    return reply is not None and reply.code == Response.SUCCESS and reply.body.get("topicName") == topic


async def is_master(network: Network, node: str) -> bool:
    """Return whether a broker itself says that it is the master."""
    return await _broker(network, node, None) == "master"


async def fetch(
    network: Network,
    node: str,
    code: int,
    fields: Mapping[str, str] = NO_FIELDS,
    body: bytes = b"",
    timeout_s: float = LOOK_S,
) -> Reply | None:
    """Send one request of the harness and return the answer; None when there was no answer that makes sense."""
    return await _fetch(network.connect(HARNESS, node), Command(code=code, fields=fields, body=body), timeout_s)


async def _fetch(connection: Asks, message: Command, timeout_s: float) -> Reply | None:
    try:
        answer = await ask(connection, message, timeout_s)
        content = loads(answer.body) if answer.body else {}
    except (Failed, Unknown, ValueError):
        return None
    return Reply(
        code=answer.code,
        fields=answer.fields,
        body=content if isinstance(content, dict) else {},
        remark=answer.remark,
    )


async def _controller(network: Network, cluster: Cluster, name: str, record: Record | None) -> bool:
    """Return whether a controller says that it leads."""
    op = record("poll", type="invoke", f="controller", node=name) if record else -1
    reply = await fetch(network, name, Request.CONTROLLER_GET_METADATA_INFO)
    if reply is None or reply.code != Response.SUCCESS:
        return False
    leading = reply.fields.get("isLeader") == "true"
    if record:
        leader = cluster.node_at(reply.fields.get("controllerLeaderAddress", ""))
        value = {"role": "leader" if leading else "follower", "leader": leader}
        record("poll", type="ok", op=op, f="controller", node=name, value=value)
    return leading


async def _broker(network: Network, name: str, record: Record | None) -> str:
    """Return the role that a broker says it has; "" when it says nothing. A master has the id 0. The row names no
    epoch: a broker doesn't note a term in which nothing had been written when it began, so its file names an older
    one."""
    op = record("poll", type="invoke", f="state", node=name) if record else -1
    reply = await fetch(network, name, Request.GET_BROKER_EPOCH_CACHE)
    if reply is None or reply.code != Response.SUCCESS or "brokerId" not in reply.body:
        return ""
    role = "master" if reply.body["brokerId"] == 0 else "slave"
    if record:
        value = {"role": role, "end": _number(reply.body, "maxOffset"), "epochs": reply.body.get("epochList")}
        record("poll", type="ok", op=op, f="state", node=name, value=value)
    return role


async def _followed(network: Network, master: str) -> int:
    """Return how many of its slaves a master says are in sync, -1 when it says nothing."""
    reply = await fetch(network, master, Request.GET_BROKER_HA_STATUS)
    return _number(reply.body, "inSyncSlaveNums") if reply and reply.body.get("master") else -1


async def _route(network: Network, cluster: Cluster, name: str, topic: str, record: Record | None) -> Mapping[str, str]:
    """Return whom a name server names as the master of each group; it leaves out where it knows none."""
    node = cluster.host_of(name)
    op = record("poll", type="invoke", f="route", node=node) if record else -1
    message = Command(code=Request.GET_ROUTEINFO_BY_TOPIC, fields={"topic": topic})
    reply = await _fetch(cluster.connect(network, HARNESS, name), message, LOOK_S)
    if reply is None:
        return {}
    masters = {}
    for one in _objects(reply.body.get("brokerDatas")):
        addresses, group = one.get("brokerAddrs"), str(one.get("brokerName"))
        if group in cluster.groups and isinstance(addresses, dict) and "0" in addresses:
            masters[group] = cluster.node_at(str(addresses["0"]))
    if record:
        only = next(iter(cluster.groups)) if len(cluster.groups) == 1 else ""
        value = {"master": masters.get(only, "")} if only else {"masters": masters}
        record("poll", type="ok", op=op, f="route", node=node, value=value)
    return masters


def _group(cluster: Cluster, name: str, body: Mapping[str, Any]) -> Group:
    tables = body.get("replicasInfoTable")
    found = tables.get(name) if isinstance(tables, dict) else None
    if not isinstance(found, dict):
        return Group()
    in_sync = _objects(found.get("inSyncReplicas"))
    ids = {
        cluster.node_at(str(one.get("brokerAddress"))): _number(one, "brokerId")
        for one in (*in_sync, *_objects(found.get("notInSyncReplicas")))
    }
    return Group(
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
