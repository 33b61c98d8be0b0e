"""The reference system that comes with this project: Raft controllers, replicated brokers, tiered storage."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from chaos.driver import (
    SELDOM_REPORTED,
    Client,
    ClientCommand,
    ClusterSpec,
    ClusterView,
    Dials,
    Evidence,
    Exposure,
    Mutant,
    Network,
    Profile,
    Record,
    ReplicaGroup,
    TierRule,
)
from chaos.effects.links import HARNESS
from chaos.frames import Framing
from chaos.node import NodeSpec
from chaos.ops import Failed, QueueRef, Unknown
from chaos.services import DeletesTopics, Limits, Metadata, Objects, Topics, WaitingReads
from chaos.version import VERSION
from drivers._remoting import tier_faults as tiering
from drivers._remoting.client import REQUEST_S
from drivers._remoting.frames import FRAMING
from drivers._remoting.objects import ControllerObjects
from drivers._remoting.requests import ask
from drivers._remoting.topics import TopicClient
from drivers.reference import controllers, java_client
from drivers.reference.client import QueueClient
from drivers.reference.deliveries import DeliveryMember, DeliveryProducer
from drivers.reference.events import EVENTS
from drivers.reference.final_state import collect_broker, collect_store
from drivers.reference.limits import LimitsClient
from drivers.reference.metadata import MetadataClient
from drivers.reference.operator import Operator
from drivers.reference.real_tier import BROKERS_WAIT_MS, LIBRARY, RealTier, clear
from drivers.reference.snapshots import describe, take
from reference import codec
from reference.broker.locks import LOCK_MS
from reference.controller.dispatch import CLASSIC, mode_of
from reference.raft.options import RaftOptions
from reference.tier.interface import Level
from reference.tier.storage import TierOptions
from reference.wire import requests
from reference.wire.codes import Request, Response
from reference.wire.command import Command

GROUP = "broker-a"
CLUSTER = "stormproof"
SWITCH_S = 5.0
SWITCH_POLL_S = 0.05
#: How long to wait until the group has taken in a new broker.
WELCOME_S = 10.0
#: The versions of a broker's log (:mod:`reference.broker.versions`).
LOG_VERSIONS = range(1, 3)
#: A group has no more brokers than this.
MOST_BROKERS = 9


def __getattr__(name: str) -> Any:
    """Make ``MUTANTS`` when it is needed: the planted bugs import every part of the system."""
    if name != "MUTANTS":
        raise AttributeError(name)
    from reference.mutants import MUTANTS

    return tuple(
        Mutant(name=it.name, law=it.law, stands_for=it.stands_for, scenario=it.scenario, seed=it.seed) for it in MUTANTS
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A cluster of ``controllers`` (1, 3 or 5), ``nameservers`` and ``brokers`` (one group), with one ``topic`` of
    ``queues``. ``tier`` adds an object store; with ``{store: URL}`` that is a gateway to a real one (``s3://BUCKET``,
    ``gs://``, ``az://``, ``file:///FOLDER``), not in the simulator. Segments and what is retained locally are small by
    default, so that a short run really reads from the tier. ``metadata``: the controllers keep topics, routes and
    groups in their log, which name servers and brokers follow (the power ``CanKeepMetadata``). ``embedded``: each
    controller is a name server, too, in one node, and there are no others. ``log_version``: 1 for brokers whose
    logs hold no messages that wait and no locks, as it was before there were any; the fault ``upgrade`` changes that
    (``to: "2"``); ``first_package``: a package with the code of then, for those brokers. ``broker_options`` and
    ``controller_options`` go to the nodes as they are."""

    controllers: int = field(default=3, metadata={"within": range(1, 6, 2)})
    nameservers: int = field(default=1, metadata={"within": range(1, 10)})
    brokers: int = field(default=3, metadata={"within": range(1, MOST_BROKERS + 1)})
    topic: str = "storm"
    queues: int = field(default=4, metadata={"within": range(1, 1025)})
    tier: bool | Mapping[str, object] = True
    metadata: bool = False
    embedded: bool = False
    segment_bytes: int = 65_536
    retain_bytes: int = 131_072
    tier_segment_bytes: int = 16_384
    tier_max_age_ms: int = 1_000
    broker_timeout_ms: int = 1_500
    ack_timeout_ms: int = 1_500
    log_version: int = field(default=LOG_VERSIONS[-1], metadata={"within": LOG_VERSIONS})
    first_package: str = ""
    broker_options: Mapping[str, object] = field(default_factory=dict)
    controller_options: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        RealTier.of(self.tier)
        if self.embedded and self.metadata:
            raise ValueError("embedded and metadata can't be had together: leave out one of them")
        if self.embedded and self.nameservers != 1:
            raise ValueError(
                f"embedded: the controllers are the name servers; leave out nameservers: {self.nameservers}"
            )


@dataclass(frozen=True, slots=True)
class Reference:
    """``joined``: the brokers that have joined since the cluster was started. ``prefix``: under which the objects of
    this cluster stand in a real store, and those of no other one."""

    options: Options
    promised: Profile = field(default_factory=Profile)
    joined: list[str] = field(default_factory=list, init=False)
    prefix: str = field(default_factory=lambda: f"stormproof-{secrets.token_hex(8)}", init=False, compare=False)

    def promising(self, profile: Profile) -> Reference:
        """Return a driver with this profile, for another cluster: no broker has joined it yet."""
        return replace(self, promised=profile)

    def system_version(self) -> str:
        return _version_of(self.options.log_version)

    def in_version(self, version: str) -> Mapping[str, NodeSpec]:
        """See :class:`chaos.driver.CanUpgrade`: by the version of a broker's log, or by what :meth:`system_version`
        says."""
        known = {name: number for number in LOG_VERSIONS for name in (str(number), _version_of(number))}
        if version not in known:
            raise ValueError(
                f"expected one of {', '.join(map(str, LOG_VERSIONS))}, the versions of logs, got {version}"
            )
        options = replace(self.options, log_version=known[version])
        changed = replace(self, options=options)
        changed.joined.extend(self.joined)
        return {spec.name: spec for spec in changed.cluster("").nodes}

    def profile(self) -> Profile:
        return self.promised

    def exposure(self) -> Exposure:
        """Return what may be lost. Readers are given what the whole SyncStateSet has. Replicas report all else that
        explains a loss."""
        return Exposure(readers_see_confirmed=True)

    def evidence(self) -> frozenset[Evidence]:
        """Return everything, but of the tier where there is none. Nodes need not be read one by one or asked what they
        upload: they report their logs and each request."""
        of_tier = set() if self.options.tier else {Evidence.TIER, Evidence.TIER_CONTENT}
        return frozenset(Evidence) - SELDOM_REPORTED - of_tier

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
        """Who answers for routes; ``nameserver_nodes`` are those that do nothing else."""
        return self.controllers if self.options.embedded else self.nameserver_nodes

    @property
    def nameserver_nodes(self) -> tuple[str, ...]:
        return () if self.options.embedded else _names("nameserver", self.options.nameservers)

    @property
    def brokers(self) -> tuple[str, ...]:
        return (*_names("broker", self.options.brokers), *self.joined)

    def newcomers(self) -> tuple[str, ...]:
        return _names("broker", MOST_BROKERS)[len(self.brokers) :]

    def events(self) -> Sequence[str]:
        return tuple(EVENTS)

    @property
    def stores(self) -> tuple[str, ...]:
        return _names("store", 1 if self.options.tier else 0)

    def cluster(self, mutant: str) -> ClusterSpec:
        """Return the nodes of the cluster. Raises ``ValueError`` for a profile that needs more brokers than there are,
        so that no write succeeds, and for controllers that can't be set up like this."""
        mode_of(self.options.controller_options)
        RaftOptions.of(self.options.controller_options)
        self._check_level()
        acks = str(self.promised.acks)
        needed = max(self.promised.min_in_sync, int(acks) if acks.isdigit() else 1)
        if needed > self.options.brokers:
            raise ValueError(
                f"the profile needs {needed} replicas for a write (min_in_sync, acks), but there are only"
                f" {self.options.brokers} brokers; lower the one or raise the other"
            )
        nodes = [
            *(self._store(name, mutant) for name in self.stores),
            *(self._node(name, "nameserver", self._nameserver_options(), mutant) for name in self.nameserver_nodes),
            *(self._node(name, "controller", self._controller_options(), mutant) for name in self.controllers),
            *(self.broker(name, mutant) for name in self.brokers),
        ]
        return ClusterSpec(nodes=nodes, codec=codec(mutant))

    def _check_level(self) -> None:
        """Raise ``ValueError`` for a level of the tier that there is not, or at which readers would miss messages."""
        options = self._broker_options()
        level = TierOptions.of(options).tier_level
        if self.options.tier and level == Level.DISABLE and options["retain_bytes"] != 0:
            raise ValueError(
                f"tier_level {level}: readers get nothing from the tier, so the log must keep all: set retain_bytes: 0"
            )

    def broker(self, node: str, mutant: str) -> NodeSpec:
        return self._node(node, "broker", self._broker_options(), mutant)

    def _node(self, name: str, role: str, options: Mapping[str, object], mutant: str) -> NodeSpec:
        is_first = role == "broker" and self.options.log_version == LOG_VERSIONS[0]
        package = self.options.first_package if is_first and self.options.first_package else "reference"
        return NodeSpec(name=name, role=role, package=package, options=options, mutant=mutant)

    def _store(self, name: str, mutant: str) -> NodeSpec:
        spec = self._node(name, "objectstore", {}, mutant)
        if (real := RealTier.of(self.options.tier)) is None:
            return spec
        return replace(spec, options=real.options(self.prefix), disk=False, outside=LIBRARY)

    def _nameserver_options(self) -> dict[str, object]:
        return {"controllers": list(self.controllers), "metadata": True} if self.options.metadata else {}

    def _controller_options(self) -> dict[str, object]:
        return {
            **({"metadata": True} if self.options.metadata else {}),
            **({"embedded": True} if self.options.embedded else {}),
            "controllers": list(self.controllers),
            "broker_timeout_ms": self.options.broker_timeout_ms,
            "unclean": self.promised.unclean,
            **self.options.controller_options,
        }

    def _broker_options(self) -> dict[str, object]:
        real = RealTier.of(self.options.tier)
        return {
            **({"metadata": True} if self.options.metadata else {}),
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
            **({"tier_timeout_ms": real.timeout_ms + BROKERS_WAIT_MS} if real is not None else {}),
            "ack_timeout_ms": self.options.ack_timeout_ms,
            "flush": self.promised.flush,
            "acks": self.promised.acks,
            "tier_cut_back": self.promised.unclean or self.promised.flush == "async",
            "min_in_sync": self.promised.min_in_sync,
            **({} if self.options.log_version == LOG_VERSIONS[-1] else {"log_version": self.options.log_version}),
            **self.options.broker_options,
        }

    # Clients

    def client(self, network: Network, name: str) -> Client:
        return QueueClient(network, name, self.nameservers)

    def waiting_reads(self, network: Network, name: str) -> WaitingReads:
        return QueueClient(network, name, self.nameservers)

    def objects(self, network: Network, name: str) -> Objects:
        return ControllerObjects(network, name, self.controllers)

    def framing(self) -> Framing:
        return FRAMING

    def topics(self, network: Network, name: str) -> Topics:
        return self.deleting_topics(network, name)

    def deleting_topics(self, network: Network, name: str) -> DeletesTopics:
        return TopicClient(network, name, self.nameservers, self.queues()[0])

    def delivery_producer(self, network: Network, name: str) -> DeliveryProducer:
        return DeliveryProducer(network, name, self.nameservers, self.queues()[0])

    def delivery_member(self, network: Network, name: str, group: str) -> DeliveryMember:
        lock_ms = self.options.broker_options.get("lock_ms", LOCK_MS)
        lock_s = int(str(lock_ms)) / 2000 if str(lock_ms).isdigit() else 0.0
        return DeliveryMember(network, name, self.nameservers, group, self.queues(), lock_s)

    def library_lacks(self) -> Mapping[str, str]:
        """See :class:`chaos.driver.HasClientLibrary`."""
        return java_client.LACKS

    async def library_command(self, network: Network, name: str, orders: Mapping[str, int]) -> ClientCommand:
        """See :class:`chaos.driver.HasClientLibrary`."""
        return await java_client.command(cast(Dials, network), name, self.nameservers, GROUP, self.queues(), orders)

    def operator(self, network: Network, name: str) -> Operator:
        return Operator(network, name, GROUP, CLUSTER, self.controllers)

    def limits(self, network: Network, name: str) -> Limits:
        nodes = {
            requests.BROKER: self.brokers,
            requests.CONTROLLER: self.controllers,
            requests.NAMESERVER: self.nameservers,
            requests.STORE: self.stores,
        }
        more = {
            "metadata": self.options.metadata,
            "leader_reads": self.options.controller_options.get("mode") == CLASSIC,
        }
        return LimitsClient(network, name, self.nameservers, self.queues()[0], nodes, **more)

    # What the harness observes

    async def view(self, network: Network, record: Record | None = None) -> ClusterView:
        brokers, newcomers = self.brokers, self.newcomers()  # as they are now: one may join meanwhile
        found = await take(network, GROUP, (*self.controllers, *brokers, *self.nameserver_nodes), record)
        leader, group = found.leader(self.controllers)
        master, epoch = str(group.get("master") or ""), int(group.get("epoch", -1))
        if not leader:  # the brokers' own word is all there is
            master, epoch = found.master(brokers)
        in_sync = tuple(sorted(group.get("set", ())))
        return ClusterView(
            groups=(ReplicaGroup(name=GROUP, replicas=brokers, leader=master, epoch=epoch, in_sync=in_sync),),
            controllers=self.controllers,
            others=self.nameserver_nodes,
            tier=self.stores,
            controller_leader=leader,
            newcomers=newcomers,
            settled=found.caught_up(self.controllers)
            and in_sync == tuple(sorted(brokers))
            and found.agree(brokers, self.nameservers, master, epoch),
        )

    async def switch(self, network: Network, target: str, group: str) -> Mapping[str, object]:
        """Ask the controllers' leader to make ``target`` the master, and wait until it says that it is."""
        return await self._switch(network, target, {})

    async def force_switch(self, network: Network, target: str, group: str) -> Mapping[str, object]:
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
            _, group = await self._leader(network)
            if node in group.get("brokers", {}):
                return {"joined": True, "id": group["brokers"][node], "in_sync": node in group.get("set", ())}
            await asyncio.sleep(SWITCH_POLL_S)
        return {"joined": False}

    async def transfer_leader(self, network: Network, target: str) -> Mapping[str, object]:
        leader, _ = await self._leader(network)
        return await controllers.transfer_leader(network, GROUP, leader, target)

    async def remove_controller(self, network: Network, node: str) -> Mapping[str, object]:
        leader, _ = await self._leader(network)
        return await controllers.remove(network, leader, node)

    async def add_controller(self, network: Network, node: str) -> bool:
        deadline_ns = network.now_ns() + round(controllers.VOTES_S * 1e9)
        while network.now_ns() < deadline_ns:
            leader, _ = await self._leader(network)
            if leader and await controllers.add(network, leader, node):
                return True
            await asyncio.sleep(SWITCH_POLL_S)
        return False

    async def _leader(self, network: Network) -> tuple[str, Mapping[str, Any]]:
        """Return the controllers' leader, and what it says of the group; "" and {} without one."""
        return (await take(network, GROUP, self.controllers)).leader(self.controllers)

    async def _command(
        self, network: Network, code: Request, node: str, id_field: str, more: Mapping[str, str]
    ) -> tuple[Command, Mapping[str, Any]]:
        """Send the controllers' leader a command about a broker. Returns its answer, and what it said of the group
        before. Raises :class:`Failed` when it refuses."""
        leader, group = await self._leader(network)
        broker_id = group.get("brokers", {}).get(node)
        if not leader or broker_id is None:
            raise Failed(f"no controller leads, or it doesn't know {node}")
        fields = {"clusterName": CLUSTER, "brokerName": GROUP, id_field: str(broker_id), **more}
        answer = await ask(network.connect(HARNESS, leader), Command(code=code, fields=fields), REQUEST_S)
        if answer.code != Response.SUCCESS:
            raise Failed(f"{leader} refused with {answer.code}: {answer.remark}")
        return answer, group

    async def _switch(self, network: Network, target: str, more: Mapping[str, str]) -> Mapping[str, object]:
        fields = {"designateElect": "true", **more}
        answer, group = await self._command(network, Request.CONTROLLER_ELECT_MASTER, target, "brokerId", fields)
        epoch = int(answer.fields.get("masterEpoch", "-1"))
        deadline_ns = network.now_ns() + round(SWITCH_S * 1e9)
        while network.now_ns() < deadline_ns:
            state = await describe(network, GROUP, target)
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
        if (real := RealTier.of(self.options.tier)) is not None and not real.keep:
            await clear(network, self.stores)


@dataclass(frozen=True, slots=True)
class ReferenceWithMetadata(Reference):
    """The same with the option ``metadata``: it has one power more."""

    def metadata(self, network: Network, name: str) -> Metadata:
        return MetadataClient(network, name, self.controllers, (*self.nameservers, *self.brokers))


def create(options: Options) -> Reference:
    return ReferenceWithMetadata(options) if options.metadata else Reference(options)


def _names(role: str, count: int) -> tuple[str, ...]:
    return tuple(f"{role}-{number}" for number in range(count))


def _version_of(log: int) -> str:
    """Return the name of the system with logs of this version."""
    return f"Stormproof {VERSION}" + ("" if log == LOG_VERSIONS[-1] else f" with logs of version {log}")
