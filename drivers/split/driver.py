"""The split system as a system under test: which nodes there are, who leads what, and what is left in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from chaos.driver import (
    Client,
    ClientCommand,
    ClusterSpec,
    ClusterView,
    Dials,
    Evidence,
    Mutant,
    Network,
    Profile,
    Record,
    ReplicaGroup,
    TierRule,
)
from chaos.errors import BadInput
from chaos.frames import Framing
from chaos.node import NodeSpec
from chaos.ops import Failed, QueueRef, Unknown
from chaos.services import DeletesTopics, Topics, WaitingReads
from chaos.version import VERSION
from drivers._remoting import tier_faults as tiering
from drivers._remoting.frames import FRAMING
from drivers.split import java_client, meta
from drivers.split.client import QueueClient, TopicClient
from drivers.split.cluster import Cluster, Options
from drivers.split.events import EVENTS
from drivers.split.final_state import collect_store, collect_tier
from drivers.split.places import Places
from drivers.split.snapshots import Snapshots, describe, take
from reference.split import codec
from reference.wire.codes import Request

#: How long a newcomer has to register, and how often it is looked whether it has.
WELCOME_S, WELCOME_POLL_S = 10.0, 0.05


def __getattr__(name: str) -> Any:
    """Make ``MUTANTS`` when it is needed: the planted bugs import every part of the system."""
    if name != "MUTANTS":
        raise AttributeError(name)
    from reference.split.mutants import MUTANTS

    named = ((it, f"split/{it.scenario or 'quickstart'}") for it in MUTANTS)  # as commands name them
    return tuple(
        Mutant(name=it.name, law=it.law, stands_for=it.stands_for, scenario=name, seed=it.seed) for it, name in named
    )


@dataclass(frozen=True, slots=True)
class Split:
    """``_places``: where queues lie, for all clients. ``_committed``: by group, which index it had committed when the
    last view was taken. ``_joined``: the brokers that have joined since the cluster was started."""

    options: Options
    _places: Places = field(init=False)
    _committed: dict[int, int] = field(default_factory=dict, init=False)
    _joined: list[str] = field(default_factory=list, init=False)

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
    def nodes(self) -> Cluster:
        """The nodes that there are by now."""
        return Cluster(options=self.options, joined=tuple(self._joined))

    def cluster(self, mutant: str) -> ClusterSpec:
        """Return the nodes in the order of their start."""
        return ClusterSpec(nodes=self.nodes.specs(mutant), codec=codec(mutant))

    def newcomers(self) -> tuple[str, ...]:
        """Return the brokers that may join."""
        return self.nodes.newcomers

    def broker(self, node: str, mutant: str) -> NodeSpec:
        """Return how to start a newcomer."""
        return self.nodes.broker(node, mutant)

    async def welcome(self, network: Network, node: str) -> Mapping[str, object]:
        """Wait until meta has given the newcomer's life a number."""
        self._joined.append(node)
        deadline_ns = network.now_ns() + round(WELCOME_S * 1e9)
        while network.now_ns() < deadline_ns:
            life = (await describe(network, node)).get("life", 0)
            if life > 0:
                return {"joined": True, "life": life}
            await asyncio.sleep(WELCOME_POLL_S)
        return {"joined": False}

    # Clients

    def client(self, network: Network, name: str) -> Client:
        """Return a client of queues."""
        return QueueClient(network, name, self.nodes.nameservers).placed(self._places)

    def waiting_reads(self, network: Network, name: str) -> WaitingReads:
        """Return a client whose reads may wait."""
        return QueueClient(network, name, self.nodes.nameservers).placed(self._places)

    def framing(self) -> Framing:
        return FRAMING

    def topics(self, network: Network, name: str) -> Topics:
        """Return a client that makes topics."""
        return self.deleting_topics(network, name)

    def deleting_topics(self, network: Network, name: str) -> DeletesTopics:
        """Return a client that makes topics, and deletes them."""
        made = TopicClient(network, name, self.nodes.nameservers, self.queues()[0])
        return made.placed(self._places).asking(self.nodes.metas)

    def library_lacks(self) -> Mapping[str, str]:
        """See :class:`chaos.driver.HasClientLibrary`."""
        return java_client.LACKS

    async def library_command(self, network: Network, name: str, orders: Mapping[str, int]) -> ClientCommand:
        """See :class:`chaos.driver.HasClientLibrary`."""
        return await java_client.command(cast(Dials, network), name, self.nodes, self._places, self.queues(), orders)

    # What the harness observes and changes

    async def view(self, network: Network, record: Record | None = None) -> ClusterView:
        """Ask all nodes. The topic is made here, once, as soon as meta has a leader: a cluster begins without any."""
        nodes, newcomers = self.nodes, self.newcomers()  # as they are now: one may join meanwhile
        found = await take(network, nodes.described, record)
        leader = found.meta_leader(nodes.metas)
        if leader and self.options.topic not in self._places.ids:
            await self._make_topic(network, leader)
        groups = [self._group(found, number) for number in range(self.options.groups)]
        slices = [found.slice(name, nodes.brokers) for name in self._places.brokers]
        return ClusterView(
            groups=(*groups, *slices),
            controllers=nodes.metas,
            others=nodes.nameservers,
            tier=nodes.tier,
            controller_leader=leader,
            zones=nodes.zones,
            newcomers=newcomers,
            settled=self._settled(found, groups, slices),
        )

    async def _make_topic(self, network: Network, leader: str) -> None:
        options = self.options
        limits = {"retain_ms": options.retain_ms, "retain_bytes": options.retain_bytes}
        made = await meta.make_topic(network, leader, {"topic": options.topic, "queues": options.queues, **limits})
        if made >= 0:
            self._places.ids[options.topic] = made

    def _group(self, found: Snapshots, number: int) -> ReplicaGroup:
        """Return a group. A replica that lags by less than the time since the last view is in sync."""
        stores = self.nodes.stores
        now = found.committed(number, stores)
        before = self._committed.get(number, now)
        self._committed[number] = now
        return found.group(number, stores, min(before, now))

    def _settled(self, found: Snapshots, groups: Sequence[ReplicaGroup], slices: Sequence[ReplicaGroup]) -> bool:
        nodes = self.nodes
        knows = found.revision((*nodes.stores, *nodes.brokers, *nodes.nameservers))
        return (
            all(found.of.values())
            and found.at_rest(nodes.metas)
            and knows >= self._places.ids.get(self.options.topic, 2**62)
            and all(one.leader and set(one.in_sync) == set(one.replicas) for one in (*groups, *slices))
            and all(len(one.replicas) == self.options.replicas for one in groups)
            and not found.lacks_segments(nodes.stores)
            and found.routed(slices, nodes.nameservers)
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
        return (await take(network, self.nodes.metas)).meta_leader(self.nodes.metas)

    async def break_tier(self, network: Network, rule_id: str, rule: TierRule) -> None:
        """See :class:`chaos.driver.CanBreakTier`."""
        await tiering.put_up(network, self.nodes.tier, rule_id, rule)

    async def mend_tier(self, network: Network, rule_id: str) -> None:
        """See :class:`chaos.driver.CanBreakTier`."""
        await tiering.take_down(network, self.nodes.tier, rule_id)

    async def tier_hits(self, network: Network, rule_id: str) -> int:
        """See :class:`chaos.driver.CanBreakTier`."""
        return await tiering.hits(network, self.nodes.tier, rule_id)

    async def collect(self, network: Network, record: Record) -> None:
        """Record all replicas of all stores, and the objects. Of brokers there is nothing to read."""
        queues = {(one.topic, one.queue_id): one.index for one in self.queues()}
        for store in self.nodes.stores:
            if await collect_store(network, store, queues, record):
                record("final", f="complete", node=store)
        for tier in self.nodes.tier:
            if await collect_tier(network, tier, record):
                record("final", f="complete", node=tier)
        for broker in self.nodes.brokers:
            if await describe(network, broker):
                record("final", f="complete", node=broker)


def create(options: Options) -> Split:
    """Return the driver."""
    return Split(options)


def _names(role: str, count: int) -> tuple[str, ...]:
    return tuple(f"{role}-{number}" for number in range(count))
