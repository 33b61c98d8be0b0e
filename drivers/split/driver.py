"""The split system as a system under test: which nodes there are, who leads what, and what is left in the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chaos.driver import (
    Client,
    ClusterSpec,
    ClusterView,
    Evidence,
    Mutant,
    Network,
    Profile,
    Record,
    ReplicaGroup,
    TierRule,
)
from chaos.errors import BadInput
from chaos.node import NodeSpec
from chaos.ops import Failed, QueueRef, Unknown
from chaos.services import Topics, WaitingReads
from chaos.version import VERSION
from drivers._remoting import tier_faults as tiering
from drivers.split import meta
from drivers.split.client import QueueClient, TopicClient
from drivers.split.events import EVENTS
from drivers.split.final_state import collect_store, collect_tier
from drivers.split.places import Places
from drivers.split.snapshots import Snapshots, describe, take
from reference.split import codec
from reference.split.layout import MAX_GROUPS, MAX_SLICES_OF_A_BROKER, check_layout
from reference.wire.codes import Request

CLUSTER = "stormproof"
PACKAGE = "reference.split"
MOST_NODES = 33


def __getattr__(name: str) -> Any:
    """Make ``MUTANTS`` when it is needed: the planted bugs import every part of the system."""
    if name != "MUTANTS":
        raise AttributeError(name)
    from reference.split.mutants import MUTANTS

    return tuple(
        Mutant(name=it.name, law=it.law, stands_for=it.stands_for, scenario=it.scenario, seed=it.seed) for it in MUTANTS
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``metas`` (1, 3 or 5) keep the cluster's metadata; ``stores`` hold ``groups``, each in ``replicas`` of them;
    ``brokers`` hold nothing and own ``slices`` of the groups, and ``nameservers`` say which broker owns which. There is
    one ``topic`` of ``queues``, which keeps records for ``retain_ms``, and ``retain_bytes`` of them in each group (0:
    all). All nodes but the object store lie in ``zones``, one after the other. Segments are small by default, so that a
    short run seals and uploads many. ``meta_options``, ``store_options``, ``broker_options`` and ``nameserver_options``
    go to the nodes as they are."""

    metas: int = field(default=3, metadata={"within": range(1, 6, 2)})
    stores: int = field(default=3, metadata={"within": range(1, MOST_NODES)})
    brokers: int = field(default=2, metadata={"within": range(1, MOST_NODES)})
    nameservers: int = field(default=1, metadata={"within": range(1, 10)})
    groups: int = field(default=8, metadata={"within": range(1, MAX_GROUPS + 1)})
    slices: int = field(default=2, metadata={"within": range(1, MOST_NODES * MAX_SLICES_OF_A_BROKER)})
    replicas: int = field(default=3, metadata={"within": range(1, 8)})
    zones: int = field(default=3, metadata={"within": range(1, 10)})
    topic: str = "storm"
    queues: int = field(default=4, metadata={"within": range(1, 1025)})
    retain_ms: int = field(default=0, metadata={"within": range(2**31)})
    retain_bytes: int = field(default=0, metadata={"within": range(2**31)})
    segment_bytes: int = field(default=16_384, metadata={"within": range(1, 2**31)})
    broker_timeout_ms: int = field(default=1_500, metadata={"within": range(100, 600_001)})
    store_timeout_ms: int = field(default=3_000, metadata={"within": range(100, 600_001)})
    meta_options: Mapping[str, object] = field(default_factory=dict)
    store_options: Mapping[str, object] = field(default_factory=dict)
    broker_options: Mapping[str, object] = field(default_factory=dict)
    nameserver_options: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_layout(self.groups, self.slices)
        if self.slices > self.brokers * MAX_SLICES_OF_A_BROKER:
            raise ValueError(
                f"slices: {self.brokers} brokers own {self.brokers * MAX_SLICES_OF_A_BROKER} slices at most, not"
                f" {self.slices}"
            )
        if self.replicas > self.stores:
            raise ValueError(f"replicas: {self.stores} stores can't hold {self.replicas} replicas of a group")


@dataclass(frozen=True, slots=True)
class Split:
    """``_places``: where queues lie, for all clients. ``_committed``: by group, which index it had committed when the
    last view was taken."""

    options: Options
    _places: Places = field(init=False)
    _committed: dict[int, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_places", Places(groups=self.options.groups, slices=self.options.slices))

    def promising(self, profile: Profile) -> Split:
        """Return a driver for another cluster, whose topics have other ids. Raises :class:`BadInput` for a profile that
        a majority with synced disks doesn't keep."""
        if profile != self.profile():
            raise BadInput(f"profile: a split cluster promises {{{self.profile().words}}} alone; leave profile out")
        return replace(self)

    def system_version(self) -> str:
        """Return the version of what is under test."""
        return f"Stormproof {VERSION}"

    def profile(self) -> Profile:
        """Return the strict one: what is acknowledged is on the disks of a majority."""
        return Profile()

    def evidence(self) -> frozenset[Evidence]:
        """Return what nodes report: all of groups and slices, routes, and the records that replicas hold."""
        return frozenset({Evidence.OPERATIONS, Evidence.GROUPS, Evidence.ROUTES, Evidence.FINAL_LOGS})

    def events(self) -> Sequence[str]:
        """Return the names of what nodes trace."""
        return tuple(EVENTS)

    def queues(self) -> tuple[QueueRef, ...]:
        """Return the queues of the topic, by their numbers in it."""
        return tuple(
            QueueRef(index=number, topic=self.options.topic, queue_id=number) for number in range(self.options.queues)
        )

    # The servers

    @property
    def metas(self) -> tuple[str, ...]:
        """The nodes that keep the metadata."""
        return _names("meta", self.options.metas)

    @property
    def stores(self) -> tuple[str, ...]:
        """The nodes that hold data."""
        return _names("store", self.options.stores)

    @property
    def brokers(self) -> tuple[str, ...]:
        """The nodes that clients ask."""
        return _names("broker", self.options.brokers)

    @property
    def nameservers(self) -> tuple[str, ...]:
        """The nodes that have routes."""
        return _names("nameserver", self.options.nameservers)

    @property
    def tier(self) -> tuple[str, ...]:
        """The object store."""
        return _names("tier", 1)

    def zone(self, node: str) -> str:
        """Return the zone that a node lies in."""
        return f"zone-{int(node.rpartition('-')[2]) % self.options.zones}"

    @property
    def zones(self) -> Mapping[str, tuple[str, ...]]:
        """The nodes of each zone."""
        found: dict[str, tuple[str, ...]] = {}
        for node in (*self.metas, *self.stores, *self.brokers, *self.nameservers):
            found[self.zone(node)] = (*found.get(self.zone(node), ()), node)
        return dict(sorted(found.items()))

    def cluster(self, mutant: str) -> ClusterSpec:
        """Return the nodes in the order of their start; brokers and name servers have no disk."""
        options = self.options
        timeouts = {"broker_timeout_ms": options.broker_timeout_ms, "store_timeout_ms": options.store_timeout_ms}
        metas = {"replicas": options.replicas, "birth_stores": options.stores, **timeouts, **options.meta_options}
        stores = {"objectstore": self.tier[0], "segment_bytes": options.segment_bytes, **options.store_options}
        brokers = {"cluster": CLUSTER, **options.broker_options}
        nameservers = {"cluster": CLUSTER, **options.nameserver_options}
        nodes = [
            *(NodeSpec(name=name, role="objectstore", package=PACKAGE, mutant=mutant) for name in self.tier),
            *(self._node(name, "meta", metas, mutant) for name in self.metas),
            *(self._node(name, "nameserver", nameservers, mutant) for name in self.nameservers),
            *(self._node(name, "store", {"zone": self.zone(name), **stores}, mutant) for name in self.stores),
            *(self._node(name, "broker", brokers, mutant) for name in self.brokers),
        ]
        return ClusterSpec(nodes=nodes, codec=codec(mutant))

    def _node(self, name: str, role: str, options: Mapping[str, object], mutant: str) -> NodeSpec:
        of_all = {"metas": list(self.metas), "groups": self.options.groups, "slices": self.options.slices}
        disk = role not in ("broker", "nameserver")
        return NodeSpec(name=name, role=role, package=PACKAGE, options={**of_all, **options}, mutant=mutant, disk=disk)

    # Clients

    def client(self, network: Network, name: str) -> Client:
        """Return a client of queues."""
        return QueueClient(network, name, self.nameservers).placed(self._places)

    def waiting_reads(self, network: Network, name: str) -> WaitingReads:
        """Return a client whose reads may wait."""
        return QueueClient(network, name, self.nameservers).placed(self._places)

    def topics(self, network: Network, name: str) -> Topics:
        """Return a client that makes topics."""
        return TopicClient(network, name, self.nameservers, self.queues()[0]).placed(self._places)

    # What the harness observes and changes

    async def view(self, network: Network, record: Record | None = None) -> ClusterView:
        """Ask all nodes. The topic is made here, once, as soon as meta has a leader: a cluster begins without any."""
        nodes = (*self.metas, *self.stores, *self.brokers, *self.nameservers)
        found = await take(network, nodes, record)
        leader = found.meta_leader(self.metas)
        if leader and self.options.topic not in self._places.ids:
            await self._make_topic(network, leader)
        groups = [self._group(found, number) for number in range(self.options.groups)]
        slices = [found.slice(name, self.brokers) for name in self._places.brokers]
        return ClusterView(
            groups=(*groups, *slices),
            controllers=self.metas,
            others=self.nameservers,
            tier=self.tier,
            controller_leader=leader,
            zones=self.zones,
            settled=self._settled(found, groups, slices),
        )

    async def _make_topic(self, network: Network, leader: str) -> None:
        options = self.options
        limits = {"retain_ms": options.retain_ms, "retain_bytes": options.retain_bytes}
        made = await meta.make_topic(network, leader, {"topic": options.topic, "queues": options.queues, **limits})
        if made >= 0:
            self._places.ids[options.topic] = made

    def _group(self, found: Snapshots, number: int) -> ReplicaGroup:
        """Return a group. Whoever lags by less than the time since the last view is in sync."""
        now = found.committed(number, self.stores)
        before = self._committed.get(number, now)
        self._committed[number] = now
        return found.group(number, self.stores, min(before, now))

    def _settled(self, found: Snapshots, groups: Sequence[ReplicaGroup], slices: Sequence[ReplicaGroup]) -> bool:
        knows = found.revision((*self.stores, *self.brokers, *self.nameservers))
        return (
            all(found.of.values())
            and found.metas_caught_up(self.metas)
            and knows >= self._places.ids.get(self.options.topic, 2**62)
            and all(one.leader and set(one.in_sync) == set(one.replicas) for one in (*groups, *slices))
            and all(len(one.replicas) == self.options.replicas for one in groups)
            and not found.lacks_segments(self.stores)
            and found.routed(slices, self.nameservers)
        )

    async def drain(self, network: Network, node: str) -> Mapping[str, object]:
        """See :class:`chaos.driver.CanDrain`."""
        await meta.request(network, await self._meta_leader(network), Request.META_DRAIN, {"node": node})
        return {"drained": node}

    async def undrain(self, network: Network, node: str) -> bool:
        """See :class:`chaos.driver.CanDrain`."""
        try:
            await meta.request(network, await self._meta_leader(network), Request.META_UNDRAIN, {"node": node})
        except (Failed, Unknown):
            return False
        return True

    async def _meta_leader(self, network: Network) -> str:
        return (await take(network, self.metas)).meta_leader(self.metas)

    async def break_tier(self, network: Network, rule_id: str, rule: TierRule) -> None:
        """See :class:`chaos.driver.CanBreakTier`."""
        await tiering.put_up(network, self.tier, rule_id, rule)

    async def mend_tier(self, network: Network, rule_id: str) -> None:
        """See :class:`chaos.driver.CanBreakTier`."""
        await tiering.take_down(network, self.tier, rule_id)

    async def tier_hits(self, network: Network, rule_id: str) -> int:
        """See :class:`chaos.driver.CanBreakTier`."""
        return await tiering.hits(network, self.tier, rule_id)

    async def collect(self, network: Network, record: Record) -> None:
        """Record all replicas of all stores, and the objects. Of brokers there is nothing to read."""
        queues = {(one.topic, one.queue_id): one.index for one in self.queues()}
        for store in self.stores:
            if await collect_store(network, store, queues, record):
                record("final", f="complete", node=store)
        for tier in self.tier:
            if await collect_tier(network, tier, record):
                record("final", f="complete", node=tier)
        for broker in self.brokers:
            if await describe(network, broker):
                record("final", f="complete", node=broker)


def create(options: Options) -> Split:
    """Return the driver."""
    return Split(options)


def _names(role: str, count: int) -> tuple[str, ...]:
    return tuple(f"{role}-{number}" for number in range(count))
