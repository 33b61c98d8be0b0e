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
    Exposure,
    Network,
    Profile,
    Record,
    ReplicaGroup,
)
from chaos.effects.links import HARNESS
from chaos.errors import BadInput
from chaos.frames import Framing
from chaos.node import NodeSpec
from chaos.ops import Failed, QueueRef, Unknown
from chaos.services import DeletesTopics, Objects, Topics
from chaos.tasks import gather
from drivers._java.recipes import RECIPES, at_least, recipe
from drivers._remoting.frames import FRAMING
from drivers._remoting.objects import ControllerObjects
from drivers._remoting.requests import ask
from drivers._remoting.wire import Command, RemotingCodec, Request, Response
from drivers.rocketmq import java_clients, polls
from drivers.rocketmq.client import REQUEST_S, QueueClient
from drivers.rocketmq.cluster import CLUSTER, Cluster, ControllerType
from drivers.rocketmq.final_state import collect_broker
from drivers.rocketmq.operator import Operator
from drivers.rocketmq.polls import Group, Snapshot
from drivers.rocketmq.programs import BROKER, CONTROLLER, NAMESERVER, PROXY
from drivers.rocketmq.tier_levels import LEVELS, TierLevels
from drivers.rocketmq.tier_levels import put as put_level
from drivers.rocketmq.tier_state import collect_tier
from drivers.rocketmq.topics import TopicClient, topic_fields
from drivers.rocketmq.uploads import Uploads

#: Takes the message by which we see that the group takes messages, so that the workloads' own queues stay theirs.
PROBE = "storm-probe"
SWITCH_S = 15.0
SWITCH_POLL_S = 0.1
#: Whose controllers can be JRaft ones.
JRAFT_SINCE = "5.2.0"
#: Groups are broker-a, broker-b and so on.
GROUP_LETTERS = "abcdefghi"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``controllers`` (1, 3 or 5), ``nameservers``, and ``groups`` of ``brokers`` each, of RocketMQ ``version``, which
    ``stormproof install`` has fetched, with one ``topic`` of ``queues`` in each group. Controllers keep their log with
    ``controller_type`` dledger or jraft (from 5.2.0 on); ``embedded``: each of them is in a name server's program, and
    there are no other name servers. With ``tier``, each broker uploads to a tier
    directory of its own; with ``shared_tier`` too, all to one (only where all nodes are on this machine). A master that
    was not heard of for ``timeout_ms`` is replaced. ``controller_options`` and ``broker_options`` are properties of
    RocketMQ's own. With ``controller_package: reference``, the controllers are those of that package, and so are their
    options. ``proxies`` serve the workload `library`'s `pop` consumers; ``proxy_options`` are settings of RocketMQ's
    own for them."""

    version: str = RECIPES[0].version
    controllers: int = field(default=3, metadata={"within": range(1, 6, 2)})
    nameservers: int = field(default=1, metadata={"within": range(1, 10)})
    groups: int = field(default=1, metadata={"within": range(1, 10)})
    brokers: int = field(default=3, metadata={"within": range(1, 10)})
    topic: str = "storm"
    queues: int = field(default=4, metadata={"within": range(1, 129)})
    tier: bool = False
    shared_tier: bool = False
    timeout_ms: int = field(default=5_000, metadata={"within": range(1_000, 120_001)})
    controller_options: Mapping[str, object] = field(default_factory=dict)
    broker_options: Mapping[str, object] = field(default_factory=dict)
    controller_type: ControllerType = ControllerType.DLEDGER
    embedded: bool = False
    controller_package: str = ""
    proxies: int = field(default=0, metadata={"within": range(10)})
    proxy_options: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        recipe(self.version)
        if self.controller_type == ControllerType.JRAFT and not at_least(self.version, JRAFT_SINCE):
            raise ValueError(
                f"controller_type: RocketMQ {self.version} has no JRaft controllers; they came with {JRAFT_SINCE}"
            )
        if self.embedded and self.nameservers != 1:
            raise ValueError(
                f"embedded: each controller has a name server in it; leave out nameservers: {self.nameservers}"
            )
        if self.controller_package and (self.embedded or self.controller_type != ControllerType.DLEDGER):
            raise ValueError(
                "controller_package replaces RocketMQ's controllers; leave out controller_type and embedded"
            )
        if self.shared_tier and not self.tier:
            raise ValueError("shared_tier: there is no tier that could be shared; add `tier: true`")
        if self.topic == PROBE:
            raise ValueError(f"topic: {PROBE} is the harness's own; choose another name")


@dataclass(slots=True)
class RocketMQ:
    """``_proven``: the master, epoch and set under which each group took a message last."""

    options: Options
    promised: Profile = field(default_factory=Profile)
    _proven: dict[str, Group] = field(default_factory=dict, init=False)
    _uploads: Uploads = field(default_factory=Uploads, init=False)
    _levels: TierLevels = field(init=False)

    def __post_init__(self) -> None:
        self._levels = TierLevels(self.nodes.tier_level)

    def promising(self, profile: Profile) -> RocketMQ:
        return replace(self, promised=profile)

    def profile(self) -> Profile:
        return self.promised

    def exposure(self) -> Exposure:
        """Return what may be lost. A replica may lag behind the set that it counts in until it is dropped: every 5 s
        the master drops those that were behind for ``haMaxTimeSlaveNotCatchup`` (5 s here). Logs are flushed every 500
        ms. Consumers are given what is below the confirm offset, unless ``readUnCommitted`` says otherwise
        (``AutoSwitchHAService``, ``ReputMessageService``)."""
        uncommitted = str(self.options.broker_options.get("readUnCommitted", False)).lower() == "true"
        return Exposure(loss_window_s=10.5, readers_see_confirmed=not uncommitted)

    def evidence(self) -> frozenset[Evidence]:
        reported = {Evidence.OPERATIONS, Evidence.FINAL_LOGS}
        of_tier = {Evidence.TIER_CONTENT} if self.options.tier else set()
        return frozenset(reported | of_tier | ({Evidence.UPLOADS} if self.options.shared_tier else set()))

    def evidence_from_files(self) -> frozenset[Evidence]:
        return self.evidence() & {Evidence.TIER_CONTENT, Evidence.UPLOADS}

    def queues(self) -> tuple[QueueRef, ...]:
        """Return the queues of all groups. Those of the first group come first; each group numbers its own from 0."""
        each = self.options.queues
        return tuple(
            QueueRef(index=number, topic=self.options.topic, queue_id=number % each)
            for number in range(self.options.groups * each)
        )

    @property
    def nodes(self) -> Cluster:
        options = self.options
        return Cluster(
            version=options.version,
            nameservers=_names(NAMESERVER, options.controllers if options.embedded else options.nameservers),
            controllers=_names(CONTROLLER, options.controllers),
            groups=_groups(options.groups, options.brokers),
            queues=options.queues,
            tier=options.tier,
            shared_tier=options.shared_tier,
            timeout_ms=options.timeout_ms,
            controller_type=options.controller_type,
            embedded=options.embedded,
            controller_options=options.controller_options,
            broker_options=options.broker_options,
            controller_package=options.controller_package,
            proxies=_names(PROXY, options.proxies),
            proxy_options=options.proxy_options,
        )

    def cluster(self, mutant: str) -> ClusterSpec:
        """Return the nodes of the cluster. Raises :class:`BadInput` when the version is not installed, and
        ``ValueError`` for a profile that needs more brokers than there are."""
        if mutant:
            raise BadInput(f"unknown mutant {mutant!r}: RocketMQ has no planted bugs")
        acks = str(self.promised.acks)
        needed = max(self.promised.min_in_sync, int(acks) if acks.isdigit() else 1)
        if needed > self.options.brokers:
            raise ValueError(
                f"the profile needs {needed} replicas for a write (min_in_sync, acks), but a group has only"
                f" {self.options.brokers} brokers; lower the one or raise the other"
            )
        return ClusterSpec(nodes=self.nodes.nodes(self.promised), codec=RemotingCodec())

    def in_version(self, version: str) -> Mapping[str, NodeSpec]:
        """See :class:`chaos.driver.CanUpgrade`."""
        options = replace(self.options, version=version)
        return {spec.name: spec for spec in replace(self, options=options).cluster("").nodes}

    def system_version(self) -> str:
        return self.options.version

    def client(self, network: Network, name: str) -> Client:
        return QueueClient(network, name, self.nodes, levels=self._levels)

    def topics(self, network: Network, name: str) -> Topics:
        return self.deleting_topics(network, name)

    def deleting_topics(self, network: Network, name: str) -> DeletesTopics:
        return TopicClient(network, name, self.nodes, self.queues()[0])

    def library_lacks(self) -> Mapping[str, str]:
        return {} if self.options.proxies else java_clients.LACKS_WITHOUT_PROXY

    async def library_command(self, network: Network, name: str, orders: Mapping[str, int]) -> ClientCommand:
        installed = recipe(self.options.version)
        return await java_clients.command(cast(Dials, network), name, self.nodes, installed, self.queues(), orders)

    def operator(self, network: Network, name: str) -> Operator:
        return Operator(cast(Dials, network), name, self.nodes, recipe(self.options.version))

    def framing(self) -> Framing:
        return FRAMING

    # What the harness observes and changes

    async def view(self, network: Network, record: Record | None = None) -> ClusterView:
        nodes = self.nodes
        found = await polls.take(network, nodes, PROBE, record)
        if record and self.options.shared_tier:
            await self._uploads.poll(network, nodes.brokers, record)
        settled = await gather(*(self._settled(network, nodes, found, name) for name in nodes.groups))
        return ClusterView(
            groups=tuple(
                _shown(name, replicas, found.groups.get(name, Group())) for name, replicas in nodes.groups.items()
            ),
            controllers=nodes.controllers,
            others=(*(() if self.options.embedded else nodes.nameservers), *nodes.proxies),
            controller_leader=found.leader,
            settled=all(settled),
        )

    async def set_up(self, network: Network) -> bool:
        """Create the topics in each group, as soon as all have a master: a cluster begins without any."""
        found = await polls.take(network, self.nodes, PROBE)
        masters = [found.groups.get(name, Group()).master for name in self.nodes.groups]
        if not all(masters):
            return False
        made = [await self._create(network, master, topic) for master in masters for topic in self._topics]
        return all(made) and (await self.view(network)).settled

    async def _settled(self, network: Network, nodes: Cluster, found: Snapshot, name: str) -> bool:
        """Return whether all agree on this group, each of its brokers has the topics, and it takes a message."""
        group = found.groups.get(name, Group())
        if not found.agrees(nodes, name):
            return False
        if group != self._proven.get(name):
            known = await gather(
                *(polls.has_topic(network, broker, topic) for broker in nodes.groups[name] for topic in self._topics)
            )
            if not all(known) or not await self._takes_messages(network, name):
                return False
            self._proven[name] = group
        return True

    @property
    def _topics(self) -> Mapping[str, int]:
        return {PROBE: 1, self.options.topic: self.options.queues}

    async def _create(self, network: Network, master: str, topic: str) -> bool:
        fields = topic_fields(topic, self._topics[topic])
        answer = await polls.fetch(network, master, Request.UPDATE_AND_CREATE_TOPIC, fields, timeout_s=REQUEST_S)
        return answer is not None and answer.code == Response.SUCCESS

    async def _takes_messages(self, network: Network, group: str) -> bool:
        queue = QueueRef(index=-1, topic=PROBE, queue_id=0)
        try:
            await QueueClient(network, HARNESS, self.nodes, only=group).send(queue, "0", b"probe")
        except (Failed, Unknown):
            return False
        return True

    async def switch(self, network: Network, target: str, group: str) -> Mapping[str, object]:
        """Ask the controllers' leader to make ``target`` the master, and wait until it says that it is."""
        nodes = self.nodes
        leader, groups = await polls.controllers(network, nodes)
        name = group or nodes.group_of(target)
        before = groups.get(name, Group())
        if not leader or target not in before.ids:
            raise Failed(f"no controller leads, or it doesn't know {target}")
        fields = {
            "clusterName": CLUSTER,
            "brokerName": name,
            "brokerId": str(before.ids[target]),
            "designateElect": "true",
            "invokeTime": str(time.time_ns() // 1_000_000),
        }
        message = Command(code=Request.CONTROLLER_ELECT_MASTER, fields=fields)
        answer = await ask(network.connect(HARNESS, leader), message, REQUEST_S)
        if answer.code != Response.SUCCESS:
            raise Failed(f"{leader} refused with {answer.code}: {answer.remark}")
        deadline_ns = network.now_ns() + round(SWITCH_S * 1e9)
        while network.now_ns() < deadline_ns:
            now = (await polls.controllers(network, nodes))[1].get(name, Group())
            if now.master == target and await polls.is_master(network, target):
                return {"from": before.master, "to": target, "epoch": now.epoch}
            await asyncio.sleep(SWITCH_POLL_S)
        raise Unknown(f"{target} was elected but did not say so within {SWITCH_S:g} s")

    async def collect(self, network: Network, record: Record) -> None:
        nodes = self.nodes
        held = {name: [one for one in self.queues() if nodes.group_with(one) == name] for name in nodes.groups}
        of_group = [(broker, name) for name, replicas in nodes.groups.items() for broker in replicas]
        for broker, name in of_group:
            if await self._reads_its_log(network, broker) and await collect_broker(
                network, broker, held[name], record, name
            ):
                record("final", f="complete", node=broker)
        if self.options.tier and isinstance(network, CanReadFiles):
            for broker, name in of_group:
                await collect_tier(network, broker, held[name], record, group=name, holder=nodes.tier_holder)

    async def _reads_its_log(self, network: Network, broker: str) -> bool:
        """Have a broker with a tier answer reads from its log alone, when its log is reported; return whether it
        will."""
        if not self.options.tier:
            return True
        try:
            await put_level(network, HARNESS, broker, LEVELS["local"])
        except Failed:
            return False
        return True


class RocketMQOnOtherControllers(RocketMQ):
    """With a ``controller_package``: its nodes trace what they commit, and hold objects that no broker is behind."""

    __slots__ = ()

    def evidence(self) -> frozenset[Evidence]:
        return super().evidence() | {Evidence.ELECTIONS}

    def objects(self, network: Network, name: str) -> Objects:
        return ControllerObjects(network, name, self.nodes.controllers)


def create(options: Options) -> RocketMQ:
    return RocketMQOnOtherControllers(options) if options.controller_package else RocketMQ(options)


def _names(role: str, count: int) -> tuple[str, ...]:
    return tuple(f"{role}-{number}" for number in range(count))


def _groups(count: int, brokers: int) -> Mapping[str, tuple[str, ...]]:
    """Return the names of groups, each with its replicas; brokers are numbered through all of them."""
    names = _names(BROKER, count * brokers)
    return {
        f"{BROKER}-{letter}": names[number * brokers : (number + 1) * brokers]
        for number, letter in enumerate(GROUP_LETTERS[:count])
    }


def _shown(name: str, replicas: tuple[str, ...], group: Group) -> ReplicaGroup:
    return ReplicaGroup(name=name, replicas=replicas, leader=group.master, epoch=group.epoch, in_sync=group.in_sync)
