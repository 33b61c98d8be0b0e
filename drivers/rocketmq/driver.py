"""Apache RocketMQ 5 under test: its programs, who is master, planned switches, and what is left in the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from chaos.deployment import CanReadFiles
from chaos.driver import (
    Client,
    ClientCommand,
    ClusterSpec,
    ClusterView,
    Dials,
    Evidence,
    Network,
    Profile,
    Record,
    ReplicaGroup,
)
from chaos.effects.links import HARNESS
from chaos.errors import BadInput
from chaos.node import Message
from chaos.ops import Failed, QueueRef, Unknown
from chaos.services import Objects
from chaos.tasks import gather
from drivers._remoting.objects import ControllerObjects
from drivers._remoting.requests import ask
from drivers._remoting.wire import RemotingCodec, Request, Response
from drivers.rocketmq import java_clients, polls
from drivers.rocketmq.client import REQUEST_S, QueueClient
from drivers.rocketmq.final_state import collect_broker
from drivers.rocketmq.polls import Snapshot
from drivers.rocketmq.programs import BROKER, CLUSTER, CONTROLLER, GROUP, NAMESERVER, Cluster
from drivers.rocketmq.recipes import RECIPES, recipe
from drivers.rocketmq.tier_state import collect_tier

#: Takes the message by which we see that the group takes messages, so that the workloads' own queues stay theirs.
PROBE = "storm-probe"
SWITCH_S = 15.0
SWITCH_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``controllers`` (1, 3 or 5), ``nameservers``, and ``brokers`` (one group) of RocketMQ ``version``, which
    ``stormproof install`` has fetched, with one ``topic`` of ``queues``. With ``tier``, each broker uploads to a tier
    directory of its own; with ``shared_tier`` too, all to one (only where all nodes are on this machine). A master that
    was not heard of for ``timeout_ms`` is replaced. ``controller_options`` and ``broker_options`` are properties of
    RocketMQ's own. With ``controller_package: reference``, the controllers are those of that package, and so are their
    options."""

    version: str = RECIPES[0].version
    controllers: int = field(default=3, metadata={"within": range(1, 6, 2)})
    nameservers: int = field(default=1, metadata={"within": range(1, 10)})
    brokers: int = field(default=3, metadata={"within": range(1, 10)})
    topic: str = "storm"
    queues: int = field(default=4, metadata={"within": range(1, 129)})
    tier: bool = False
    shared_tier: bool = False
    timeout_ms: int = field(default=5_000, metadata={"within": range(1_000, 120_001)})
    controller_options: Mapping[str, object] = field(default_factory=dict)
    broker_options: Mapping[str, object] = field(default_factory=dict)
    controller_package: str = ""

    def __post_init__(self) -> None:
        recipe(self.version)
        if self.shared_tier and not self.tier:
            raise ValueError("shared_tier: there is no tier that could be shared; add `tier: true`")
        if self.topic == PROBE:
            raise ValueError(f"topic: {PROBE} is the harness's own; choose another name")


@dataclass(slots=True)
class RocketMQ:
    """``_made``: whether the topics were created, once. ``_proven``: the master, epoch and set under which a message
    was taken last."""

    options: Options
    promised: Profile = field(default_factory=Profile)
    _made: bool = field(default=False, init=False)
    _proven: tuple[object, ...] = field(default=(), init=False)

    def promising(self, profile: Profile) -> RocketMQ:
        return replace(self, promised=profile)

    def profile(self) -> Profile:
        return self.promised

    def tells(self) -> frozenset[Evidence]:
        told = {Evidence.OPERATIONS, Evidence.FINAL_LOGS}
        return frozenset({*told, Evidence.TIER_CONTENT} if self.options.tier else told)

    def queues(self) -> tuple[QueueRef, ...]:
        return tuple(
            QueueRef(index=number, topic=self.options.topic, queue_id=number) for number in range(self.options.queues)
        )

    @property
    def nodes(self) -> Cluster:
        options = self.options
        return Cluster(
            version=options.version,
            nameservers=_names(NAMESERVER, options.nameservers),
            controllers=_names(CONTROLLER, options.controllers),
            brokers=_names(BROKER, options.brokers),
            tier=options.tier,
            shared_tier=options.shared_tier,
            timeout_ms=options.timeout_ms,
            controller_options=options.controller_options,
            broker_options=options.broker_options,
            controller_package=options.controller_package,
        )

    def cluster(self, mutant: str) -> ClusterSpec:
        """Raises :class:`BadInput` when the version is not installed, and ``ValueError`` for a profile that needs more
        brokers than there are."""
        if mutant:
            raise BadInput(f"unknown mutant {mutant!r}: RocketMQ has no planted bugs")
        acks = str(self.promised.acks)
        needed = max(self.promised.min_in_sync, int(acks) if acks.isdigit() else 1)
        if needed > self.options.brokers:
            raise ValueError(
                f"the profile needs {needed} replicas for a write (min_in_sync, acks), but there are only"
                f" {self.options.brokers} brokers; lower the one or raise the other"
            )
        return ClusterSpec(nodes=self.nodes.nodes(self.promised), codec=RemotingCodec())

    def client(self, network: Network, name: str) -> Client:
        return QueueClient(network, name, self.nodes)

    async def library_command(self, network: Network, name: str, orders: Mapping[str, int]) -> ClientCommand:
        installed = recipe(self.options.version)
        return await java_clients.command(cast(Dials, network), name, self.nodes, installed, self.queues(), orders)

    # What the harness observes and changes

    async def view(self, network: Network, record: Record | None = None) -> ClusterView:
        nodes = self.nodes
        found = await polls.take(network, nodes, PROBE, record)
        group = found.group
        shown = ReplicaGroup(
            name=GROUP, replicas=nodes.brokers, leader=group.master, epoch=group.epoch, in_sync=group.in_sync
        )
        return ClusterView(
            groups=(shown,),
            controllers=nodes.controllers,
            others=nodes.nameservers,
            controller_leader=group.leader,
            settled=await self._settled(network, nodes, found),
        )

    async def _settled(self, network: Network, nodes: Cluster, found: Snapshot) -> bool:
        """All agree, every broker has the topics, and a message is taken. The topics are created here, once, as soon as
        there is a master: a cluster begins without any."""
        if found.group.master and not self._made:
            self._made = all([await self._create(network, found.group.master, topic) for topic in self._topics])
        if not self._made or not found.agrees(nodes):
            return False
        now = (found.group.master, found.group.epoch, found.group.in_sync)
        if now != self._proven:
            told = await gather(
                *(polls.has_topic(network, broker, topic) for broker in nodes.brokers for topic in self._topics)
            )
            if not all(told) or not await self._takes_messages(network):
                return False
            self._proven = now
        return True

    @property
    def _topics(self) -> Mapping[str, int]:
        return {PROBE: 1, self.options.topic: self.options.queues}

    async def _create(self, network: Network, master: str, topic: str) -> bool:
        queues = str(self._topics[topic])
        fields = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": queues,
            "writeQueueNums": queues,
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
            "attributes": "",
            "force": "false",
        }
        told = await polls.fetch(network, master, Request.UPDATE_AND_CREATE_TOPIC, fields, timeout_s=REQUEST_S)
        return told is not None and told.code == Response.SUCCESS

    async def _takes_messages(self, network: Network) -> bool:
        queue = QueueRef(index=-1, topic=PROBE, queue_id=0)
        try:
            await QueueClient(network, HARNESS, self.nodes).send(queue, "0", b"probe")
        except (Failed, Unknown):
            return False
        return True

    async def switch(self, network: Network, target: str, group: str) -> Mapping[str, object]:
        """Ask the controllers' leader to make ``target`` the master, and wait until it says that it is."""
        nodes = self.nodes
        found = await polls.controllers(network, nodes)
        if not found.leader or target not in found.ids:
            raise Failed(f"no controller leads, or it doesn't know {target}")
        fields = {
            "clusterName": CLUSTER,
            "brokerName": GROUP,
            "brokerId": str(found.ids[target]),
            "designateElect": "true",
            "invokeTime": str(time.time_ns() // 1_000_000),
        }
        message = Message(code=Request.CONTROLLER_ELECT_MASTER, fields=fields)
        answer = await ask(network.connect(HARNESS, found.leader), message, REQUEST_S)
        if answer.code != Response.SUCCESS:
            raise Failed(f"{found.leader} refused with {answer.code}: {answer.remark}")
        deadline_ns = network.now_ns() + round(SWITCH_S * 1e9)
        while network.now_ns() < deadline_ns:
            now = await polls.controllers(network, nodes)
            if now.master == target and await polls.is_master(network, target):
                return {"from": found.master, "to": target, "epoch": now.epoch}
            await asyncio.sleep(SWITCH_POLL_S)
        raise Unknown(f"{target} was elected but did not say so within {SWITCH_S:g} s")

    async def collect(self, network: Network, record: Record) -> None:
        for broker in self.nodes.brokers:
            if await collect_broker(network, broker, self.queues(), record):
                record("final", f="complete", node=broker)
        if self.options.tier and isinstance(network, CanReadFiles):
            for broker in self.nodes.brokers:
                await collect_tier(network, broker, self.queues(), record, self.nodes.tier_holder)


class RocketMQOnOtherControllers(RocketMQ):
    """With a ``controller_package``: its nodes trace what they commit, and hold objects that no broker is behind."""

    __slots__ = ()

    def tells(self) -> frozenset[Evidence]:
        return super().tells() | {Evidence.ELECTIONS}

    def objects(self, network: Network, name: str) -> Objects:
        return ControllerObjects(network, name, self.nodes.controllers)


def create(options: Options) -> RocketMQ:
    return RocketMQOnOtherControllers(options) if options.controller_package else RocketMQ(options)


def _names(role: str, count: int) -> tuple[str, ...]:
    return tuple(f"{role}-{number}" for number in range(count))
