"""The reference system that comes with this project: Raft controllers, replicated brokers, tiered storage."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chaos.driver import (
    Client,
    ClusterSpec,
    ClusterView,
    Mutant,
    Network,
    Objects,
    Profile,
    Record,
    ReplicaGroup,
    TierRule,
)
from chaos.effects.links import HARNESS
from chaos.node import Message, NodeSpec
from chaos.ops import Answer, Delivered, Failed, QueueRef, Unknown
from chaos.tasks import gather
from drivers.reference import tier_faults as tiering
from drivers.reference.final_state import collect_broker, collect_store
from drivers.reference.objects import ControllerObjects
from drivers.reference.requests import ask, number
from reference import codec
from reference.broker import records
from reference.wire.codes import Request, Response

GROUP = "broker-a"
CLUSTER = "stormproof"
REQUEST_S = 2.0
DESCRIBE_S = 0.5
SWITCH_S = 5.0
SWITCH_POLL_S = 0.05
#: So long it is waited until a group has taken in a broker that is new.
WELCOME_S = 10.0
#: A group has no more brokers than this.
MOST_BROKERS = 9
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
#: What its nodes trace (`docs/history.md`): brokers, controllers, name servers, the store.
EVENTS = (
    *("start", "damaged", "recovered", "append", "truncate", "synced", "confirm", "role", "set", "acked", "commit"),
    *("retention", "bootstrap", "tier_request", "tier_commit", "tier_view", "tier_stop", "tier_cut"),
    *("raft", "applied"),
    *("route",),
    *("store_put", "store_cas", "store_get", "store_list", "store_delete", "tier_fault"),
)
TOO_FEW_REPLICAS = "in-sync replicas not enough"


def __getattr__(name: str) -> Any:
    """``MUTANTS`` is made when somebody asks: the planted bugs import every part of the system."""
    if name != "MUTANTS":
        raise AttributeError(name)
    from reference.mutants import MUTANTS

    return tuple(Mutant(name=it.name, law=it.law, stands_for=it.stands_for, scenario=it.scenario) for it in MUTANTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A cluster of ``controllers`` (1, 3 or 5), ``nameservers`` and ``brokers`` (one group), with one ``topic`` of
    ``queues``. ``tier`` adds an object store. Segments and what is retained locally are small by default, so that a
    short run really reads from the tier. ``broker_options`` and ``controller_options`` go to the nodes as they are."""

    controllers: int = field(default=3, metadata={"within": range(1, 6, 2)})
    nameservers: int = field(default=1, metadata={"within": range(1, 10)})
    brokers: int = field(default=3, metadata={"within": range(1, MOST_BROKERS + 1)})
    topic: str = "storm"
    queues: int = field(default=4, metadata={"within": range(1, 1025)})
    tier: bool = True
    segment_bytes: int = 65_536
    retain_bytes: int = 131_072
    tier_segment_bytes: int = 16_384
    tier_max_age_ms: int = 1_000
    broker_timeout_ms: int = 1_500
    ack_timeout_ms: int = 1_500
    broker_options: Mapping[str, object] = field(default_factory=dict)
    controller_options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reference:
    """``joined``: the brokers that have joined since the cluster was started."""

    options: Options
    promised: Profile = field(default_factory=Profile)
    joined: list[str] = field(default_factory=list, init=False)

    def promising(self, profile: Profile) -> Reference:
        """The same for this profile, of which no broker has joined any cluster yet."""
        return replace(self, promised=profile)

    def profile(self) -> Profile:
        return self.promised

    def queues(self) -> tuple[QueueRef, ...]:
        return tuple(
            QueueRef(index=number, topic=self.options.topic, queue_id=number) for number in range(self.options.queues)
        )

    # The servers

    @property
    def controllers(self) -> tuple[str, ...]:
        return _names("controller", self.options.controllers)

    @property
    def nameservers(self) -> tuple[str, ...]:
        return _names("nameserver", self.options.nameservers)

    @property
    def brokers(self) -> tuple[str, ...]:
        return (*_names("broker", self.options.brokers), *self.joined)

    def newcomers(self) -> tuple[str, ...]:
        return _names("broker", MOST_BROKERS)[len(self.brokers) :]

    def events(self) -> Sequence[str]:
        return EVENTS

    @property
    def stores(self) -> tuple[str, ...]:
        return _names("store", 1 if self.options.tier else 0)

    def cluster(self, mutant: str) -> ClusterSpec:
        """Raises ``ValueError`` for a profile that these brokers can never keep: no write would be acknowledged."""
        acks = str(self.promised.acks)
        needed = max(self.promised.min_in_sync, int(acks) if acks.isdigit() else 1)
        if needed > self.options.brokers:
            raise ValueError(
                f"the profile needs {needed} replicas for a write (min_in_sync, acks), but there are only"
                f" {self.options.brokers} brokers; lower the one or raise the other"
            )
        nodes = [
            *(self._node(name, "objectstore", {}, mutant) for name in self.stores),
            *(self._node(name, "nameserver", {}, mutant) for name in self.nameservers),
            *(self._node(name, "controller", self._controller_options(), mutant) for name in self.controllers),
            *(self.broker(name, mutant) for name in self.brokers),
        ]
        return ClusterSpec(nodes=nodes, codec=codec(mutant))

    def broker(self, node: str, mutant: str) -> NodeSpec:
        return self._node(node, "broker", self._broker_options(), mutant)

    def _node(self, name: str, role: str, options: Mapping[str, object], mutant: str) -> NodeSpec:
        return NodeSpec(name=name, role=role, package="reference", options=options, mutant=mutant)

    def _controller_options(self) -> dict[str, object]:
        return {
            "controllers": list(self.controllers),
            "broker_timeout_ms": self.options.broker_timeout_ms,
            "unclean": self.promised.unclean,
            **self.options.controller_options,
        }

    def _broker_options(self) -> dict[str, object]:
        return {
            "cluster": CLUSTER,
            "group": GROUP,
            "controllers": list(self.controllers),
            "nameservers": list(self.nameservers),
            "objectstore": self.stores[0] if self.stores else "",
            "topics": {self.options.topic: self.options.queues},
            "segment_bytes": self.options.segment_bytes,
            "retain_bytes": self.options.retain_bytes,
            "tier_segment_bytes": self.options.tier_segment_bytes,
            "tier_max_age_ms": self.options.tier_max_age_ms,
            "ack_timeout_ms": self.options.ack_timeout_ms,
            "flush": self.promised.flush,
            "acks": self.promised.acks,
            "tier_cut_back": self.promised.unclean or self.promised.flush == "async",
            "min_in_sync": self.promised.min_in_sync,
            **self.options.broker_options,
        }

    # Clients

    def client(self, network: Network, name: str) -> Client:
        return _Client(network, name, self.nameservers)

    def objects(self, network: Network, name: str) -> Objects:
        return ControllerObjects(network, name, self.controllers)

    # What the harness observes

    async def view(self, network: Network, record: Record | None = None) -> ClusterView:
        brokers, newcomers = self.brokers, self.newcomers()  # as they are now: one may join meanwhile
        nodes = (*self.controllers, *brokers, *self.nameservers)
        answers = await gather(*(_describe(network, node, record) for node in nodes))
        told = dict(zip(nodes, answers, strict=True))
        leader, group = self._leading(told)
        states = {name: told[name] for name in brokers if told[name]}
        master, epoch = str(group.get("master") or ""), int(group.get("epoch", -1))
        if not leader:  # the brokers' own word is all there is
            masters = [
                (state.get("epoch", -1), name) for name, state in states.items() if state.get("role") == "master"
            ]
            epoch, master = max(masters, default=(-1, ""))
        in_sync = tuple(sorted(group.get("set", ())))
        return ClusterView(
            groups=(ReplicaGroup(name=GROUP, replicas=brokers, leader=master, epoch=epoch, in_sync=in_sync),),
            controllers=self.controllers,
            others=self.nameservers,
            tier=self.stores,
            controller_leader=leader,
            newcomers=newcomers,
            settled=bool(leader) and in_sync == tuple(sorted(brokers)) and self._agreed(told, brokers, master, epoch),
        )

    def _leading(self, told: Mapping[str, Mapping[str, Any]]) -> tuple[str, Mapping[str, Any]]:
        """The controllers' leader of the highest term, and what it says of our group."""
        leaders = [
            (told[name]["term"], name) for name in self.controllers if told[name] and told[name]["role"] == "leader"
        ]
        if not leaders:
            return "", {}
        leader = max(leaders)[1]
        return leader, told[leader]["groups"].get(GROUP, {})

    def _agreed(self, told: Mapping[str, Mapping[str, Any]], brokers: Sequence[str], master: str, epoch: int) -> bool:
        """Do all nodes answer, brokers play the parts that the controllers gave them, and routes lead to the master?"""
        for name in brokers:
            part = "master" if name == master else "slave"
            state = told[name]
            if not state or state["role"] != part or state["epoch"] != epoch or not state["ready"]:
                return False
        routes = [told[name].get("routes", {}).get(GROUP, {}) for name in self.nameservers]
        return all(told[name] for name in self.controllers) and all(
            route.get("master") == master and route.get("epoch") == epoch for route in routes
        )

    async def switch(self, network: Network, target: str) -> Mapping[str, object]:
        """Ask the controllers' leader to make ``target`` the master, and wait until it says that it is."""
        return await self._switch(network, target, {})

    async def force_switch(self, network: Network, target: str) -> Mapping[str, object]:
        return await self._switch(network, target, {"forceElect": "true"})

    async def remove_broker(self, network: Network, node: str) -> Mapping[str, object]:
        deadline_ns = network.now_ns() + round(SWITCH_S * 1e9)
        while True:
            try:
                _, group = await self._command(
                    network, Request.CLEAN_BROKER_DATA, node, "brokerControllerIdsToClean", {}
                )
                return {"removed": node, "id": group["brokers"][node]}
            except Failed:  # it counts as living until its last heartbeat is old
                if network.now_ns() >= deadline_ns:
                    raise
            await asyncio.sleep(SWITCH_POLL_S)

    async def welcome(self, network: Network, node: str) -> Mapping[str, object]:
        self.joined.append(node)
        deadline_ns = network.now_ns() + round(WELCOME_S * 1e9)
        while network.now_ns() < deadline_ns:
            _, group = await self._led(network)
            if node in group.get("brokers", {}):
                return {"joined": True, "id": group["brokers"][node], "in_sync": node in group.get("set", ())}
            await asyncio.sleep(SWITCH_POLL_S)
        return {"joined": False}

    async def _led(self, network: Network) -> tuple[str, Mapping[str, Any]]:
        """Ask all controllers: see :meth:`_leading`."""
        answers = await gather(*(_describe(network, one) for one in self.controllers))
        return self._leading(dict(zip(self.controllers, answers, strict=True)))

    async def _command(
        self, network: Network, code: Request, node: str, id_field: str, more: Mapping[str, str]
    ) -> tuple[Message, Mapping[str, Any]]:
        """Have the controllers' leader do something about a broker: its answer, and what it said of the group before.
        Raises :class:`Failed` when it refuses."""
        leader, group = await self._led(network)
        broker_id = group.get("brokers", {}).get(node)
        if not leader or broker_id is None:
            raise Failed(f"no controller leads, or it doesn't know {node}")
        fields = {"clusterName": CLUSTER, "brokerName": GROUP, id_field: str(broker_id), **more}
        answer = await ask(network.connect(HARNESS, leader), Message(code=code, fields=fields), REQUEST_S)
        if answer.code != Response.SUCCESS:
            raise Failed(f"{leader} refused with {answer.code}: {answer.remark}")
        return answer, group

    async def _switch(self, network: Network, target: str, more: Mapping[str, str]) -> Mapping[str, object]:
        fields = {"designateElect": "true", **more}
        answer, group = await self._command(network, Request.CONTROLLER_ELECT_MASTER, target, "brokerId", fields)
        epoch = int(answer.fields.get("masterEpoch", "-1"))
        deadline_ns = network.now_ns() + round(SWITCH_S * 1e9)
        while network.now_ns() < deadline_ns:
            state = await _describe(network, target)
            if state.get("role") == "master" and state.get("epoch", -1) >= epoch:
                return {"from": group.get("master", ""), "to": target, "epoch": state["epoch"]}
            await asyncio.sleep(SWITCH_POLL_S)
        raise Unknown(f"{target} was elected in epoch {epoch} but did not say so within {SWITCH_S:g} s")

    async def break_tier(self, network: Network, rule_id: str, rule: TierRule) -> None:
        await tiering.put_up(network, self.stores, rule_id, rule)

    async def mend_tier(self, network: Network, rule_id: str) -> None:
        await tiering.take_down(network, self.stores, rule_id)

    async def tier_hits(self, network: Network, rule_id: str) -> int:
        return await tiering.hits(network, self.stores, rule_id)

    async def collect(self, network: Network, record: Record) -> None:
        for broker in self.brokers:
            if await collect_broker(network, broker, record):
                record("final", f="complete", node=broker)
        for store in self.stores:
            if await collect_store(network, store, record):
                record("final", f="complete", node=store)


def create(options: Options) -> Reference:
    return Reference(options)


def _names(role: str, count: int) -> tuple[str, ...]:
    return tuple(f"{role}-{number}" for number in range(count))


class _Client:
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

    async def pull(self, queue: QueueRef, offset: int, *, limit: int, node: str = "", source: str = "") -> Answer:
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
        if node:
            fields["anyReplica"] = "true"
        if source:
            fields["demandSource"] = source
        asked = node or await self._master(queue.topic)
        answer = await self._request(queue, asked, Message(code=Request.PULL_MESSAGE, fields=fields), REQUEST_S)
        told = _answer(
            asked,
            queue,
            answer,
            source=answer.fields.get("source", ""),
            minimum=number(answer.fields, "minOffset"),
            maximum=number(answer.fields, "maxOffset"),
            following=number(answer.fields, "nextBeginOffset"),
            messages=_messages(answer.body) if answer.code == Response.SUCCESS else (),
        )
        if answer.code in (Response.SUCCESS, Response.PULL_NOT_FOUND):
            return told
        if answer.code != Response.PULL_OFFSET_MOVED and not node:
            self._forget(queue)
        raise Failed(f"code {answer.code}: {answer.remark}", told)

    async def commit(self, queue: QueueRef, group: str, offset: int) -> Answer:
        answer = await self._of_group(Request.UPDATE_CONSUMER_OFFSET, queue, group, {"commitOffset": str(offset)})
        told = replace(_answer(answer[0], queue, answer[1]), offset=offset)
        if answer[1].code == Response.SUCCESS:
            return told
        self._forget(queue)
        reason = f"code {answer[1].code}: {answer[1].remark}"
        if answer[1].code in NOT_STORED or TOO_FEW_REPLICAS in answer[1].remark:
            raise Failed(reason, told)
        raise Unknown(reason, told)

    async def committed(self, queue: QueueRef, group: str) -> Answer:
        node, answer = await self._of_group(Request.QUERY_CONSUMER_OFFSET, queue, group, {"setZeroIfNotFound": "false"})
        told = _answer(node, queue, answer)
        if answer.code == Response.SUCCESS:
            return replace(told, offset=number(answer.fields, "offset"))
        if answer.code == Response.QUERY_NOT_FOUND:
            return told
        self._forget(queue)
        raise Failed(f"code {answer.code}: {answer.remark}", told)

    async def bounds(self, queue: QueueRef, node: str = "") -> Answer:
        fields = {"topic": queue.topic, "queueId": str(queue.queue_id), "committed": "true"}
        if node:
            fields["anyReplica"] = "true"
        asked = node or await self._master(queue.topic)
        answer = await self._request(queue, asked, Message(code=Request.GET_MAX_OFFSET, fields=fields), REQUEST_S)
        told = _answer(asked, queue, answer)
        if answer.code == Response.SUCCESS:
            return replace(told, maximum=number(answer.fields, "offset"), minimum=number(answer.fields, "minOffset"))
        if not node:
            self._forget(queue)
        raise Failed(f"code {answer.code}: {answer.remark}", told)

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
            server = self._nameservers[self._turn % len(self._nameservers)]
            self._turn += 1
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


async def _describe(network: Network, node: str, record: Record | None = None) -> dict[str, Any]:
    """A node's snapshot of itself, {} when it can't be had; with ``record``, two ``poll`` rows around it."""
    kind = {"broker": "state", "controller": "controller", "nameserver": "route"}[node.rpartition("-")[0]]
    op = record("poll", type="invoke", f=kind, node=node) if record else -1
    try:
        answer = await ask(network.connect(HARNESS, node), Message(code=Request.DESCRIBE), DESCRIBE_S)
        if answer.code != Response.SUCCESS:
            return {}
        told: dict[str, Any] = json.loads(answer.body)
    except (Failed, Unknown, ValueError):
        return {}
    if record:
        shown = told.get("routes", {}).get(GROUP, {}) if kind == "route" else told
        value = {name: content for name, content in shown.items() if name not in ("epoch", "queues", "groups")}
        epoch = shown.get("term" if kind == "controller" else "epoch", -1)
        incarnation = told.get("incarnation", -1)
        record("poll", type="ok", op=op, f=kind, node=node, epoch=epoch, incarnation=incarnation, value=value)
    return told
