"""Apache Kafka under test: its programs, what they promise, clients of one topic's partitions, and who leads them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from chaos.deployment import CanReadFiles
from chaos.driver import (
    ClientCommand,
    ClusterSpec,
    ClusterView,
    Dials,
    Evidence,
    Exposure,
    Network,
    Profile,
    Record,
)
from chaos.effects.links import HARNESS
from chaos.errors import BadInput
from chaos.frames import Framing
from chaos.log_services import GroupMember
from chaos.node import NodeSpec
from chaos.ops import Failed, QueueRef, Unknown
from chaos.positions import PositionedReader
from chaos.workload import Use
from drivers.kafka import changes, final_state, library, tier, topology, wire
from drivers.kafka.classic_protocol import ClassicMember
from drivers.kafka.client import ALL_IN_SYNC, LEADER_ALONE, QueueClient
from drivers.kafka.cluster import BROKER, CONTROLLER, LAG_S, Cluster
from drivers.kafka.connection import Connections
from drivers.kafka.consumer_protocol import ConsumerMember
from drivers.kafka.frames import FRAMING
from drivers.kafka.idempotence import IdempotentClient
from drivers.kafka.observer import MOST_POLLED, Observer
from drivers.kafka.recipe import FIRST_THAT_BUMPS, FIRST_WITH_CONSUMER_PROTOCOL, RECIPES, is_at_least, recipe
from drivers.kafka.topology import Partition
from drivers.kafka.transactions import Transactions

#: By which members of groups divide queues.
CLASSIC, CONSUMER = "classic", "consumer"
#: What is read from files after the run.
_OF_TIERS = frozenset({Evidence.TIER_CONTENT, Evidence.FINAL_LOGS})
#: How long Linux may keep in memory what a program has written: until it counts as old (30 s), until it looks (5 s),
#: and until the file system's journal follows (5 s).
KERNEL_S = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``brokers`` of Kafka ``version``, which ``stormproof install`` has fetched, in KRaft mode with ``controllers`` of
    their own (1, 3 or 5; 0: the brokers are controllers, too). One ``topic`` has ``queues`` partitions with
    ``replicas`` each. A broker that was not heard of for ``timeout_ms`` is fenced. ``acks`` (all or master): what
    producers wait for, and ``properties`` of Kafka's own: both win over what the profile asks for. Producers that wait
    for all are ``idempotent``, if they may: what they send again is stored once. ``isolation``:
    read_committed or read_uncommitted. ``protocol``: by which members of groups divide the queues: classic or consumer
    (KIP-848, a preview before 4.0); "" is what Kafka itself takes for finished in that version. ``client``: which
    library the workload `library` uses: java (Kafka's own) or librdkafka. With ``tier``, full segments go to a folder
    that brokers share, by a plug-in of Kafka's own tests; only for nodes on this machine."""

    version: str = RECIPES[0].version
    brokers: int = field(default=3, metadata={"within": range(1, 10)})
    controllers: int = field(default=0, metadata={"within": range(6)})
    topic: str = "storm"
    queues: int = field(default=3, metadata={"within": range(1, 129)})
    replicas: int = field(default=3, metadata={"within": range(1, 10)})
    timeout_ms: int = field(default=3_000, metadata={"within": range(1_000, 120_001)})
    acks: str = ""
    idempotent: bool = True
    isolation: str = "read_committed"
    protocol: str = ""
    client: str = library.JAVA
    tier: bool = False
    properties: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        recipe(self.version)
        if self.controllers not in (0, 1, 3, 5):
            raise ValueError(f"controllers: expected 0, 1, 3 or 5, got {self.controllers}")
        if self.replicas > self.brokers:
            raise ValueError(f"replicas: {self.replicas} need as many brokers, and there are {self.brokers}")
        if self.acks not in ("", "all", "master"):
            raise ValueError(f"acks: expected all or master, got {self.acks!r}")
        if self.isolation not in ("read_committed", "read_uncommitted"):
            raise ValueError(f"isolation: expected read_committed or read_uncommitted, got {self.isolation!r}")
        if self.protocol not in ("", CLASSIC, CONSUMER):
            raise ValueError(f"protocol: expected {CLASSIC} or {CONSUMER}, got {self.protocol!r}")
        if self.client not in library.LIBRARIES:
            raise ValueError(f"client: expected {' or '.join(library.LIBRARIES)}, got {self.client!r}")


@dataclass(slots=True)
class Kafka:
    """``_proven``: the leader, epoch and set in which each partition's leader has shown that its followers have what it
    had when it began to lead."""

    options: Options
    promised: Profile = field(default_factory=lambda: Profile(flush="async"))
    _proven: dict[QueueRef, Partition] = field(default_factory=dict, init=False)

    # What runs

    @property
    def nodes(self) -> Cluster:
        options = self.options
        return Cluster(
            brokers=tuple(f"{BROKER}-{number}" for number in range(options.brokers)),
            controllers=tuple(f"{CONTROLLER}-{number}" for number in range(options.controllers)),
            replicas=options.replicas,
            timeout_ms=options.timeout_ms,
            has_consumer_protocol=self._protocol == CONSUMER,
            is_tiered=options.tier,
            properties=options.properties,
        )

    @property
    def _protocol(self) -> str:
        usual = CONSUMER if is_at_least(self.options.version, FIRST_WITH_CONSUMER_PROTOCOL) else CLASSIC
        return self.options.protocol or usual

    def cluster(self, mutant: str) -> ClusterSpec:
        """Return the nodes. Raises :class:`BadInput` for a package that is not installed, and ``ValueError`` for a
        profile that needs more replicas than there are."""
        wire.require()
        library.require(self.options.client)
        if mutant:
            raise BadInput(f"unknown mutant {mutant!r}: Kafka has no planted bugs")
        if self.promised.min_in_sync > self.options.replicas:
            needed = self.promised.min_in_sync
            raise ValueError(
                f"the profile needs {needed} replicas in sync (min_in_sync), but a partition has only"
                f" {self.options.replicas}; lower the one or raise the other"
            )
        return ClusterSpec(nodes=self.nodes.nodes(recipe(self.options.version), self.promised))

    def queues(self) -> tuple[QueueRef, ...]:
        topic = self.options.topic
        return tuple(
            QueueRef(index=one, topic=topic, queue_id=one, group=f"{topic}-{one}") for one in range(self.options.queues)
        )

    def system_version(self) -> str:
        return self.options.version

    def in_version(self, version: str) -> Mapping[str, NodeSpec]:
        """Return the nodes in another version, which goes on with the first one's metadata version."""
        return {node.name: node for node in self.nodes.nodes(recipe(version), self.promised)}

    def framing(self) -> Framing:
        return FRAMING

    # What it promises

    def profile(self) -> Profile:
        return self.promised

    def promising(self, profile: Profile) -> Kafka:
        """Return the driver for this profile. Raises ``ValueError`` for acks that Kafka does not have."""
        if str(profile.acks) not in ("all", "master", "1"):
            raise ValueError(
                f"acks: Kafka's producers wait for all that are in sync or for the leader alone, not for"
                f" {profile.acks}; say acks: all with min_in_sync: {profile.acks}, or acks: master"
            )
        return replace(self, promised=profile)

    def exposure(self) -> Exposure:
        """Return for how long what was acknowledged may be lost: until a follower that lags is not counted any more,
        which the leader looks for in half that time; without flushes, until the kernel has written it. Consumers are
        given nothing above the high watermark, which all that are in sync have."""
        window_s = 1.5 * LAG_S if self.promised.flush == "sync" else KERNEL_S
        return Exposure(loss_window_s=window_s, readers_see_confirmed=True)

    def evidence(self) -> frozenset[Evidence]:
        """Return roles as polled, where there are few partitions: a broker has a role in each. With a tier, too, what
        it holds, and what replicas' logs do; an unclean election may leave in it what no log goes on from."""
        polls = (Evidence.POLLS,) if self.options.queues <= MOST_POLLED else ()
        is_read = self.options.tier and not self.promised.unclean
        return frozenset({Evidence.OPERATIONS, *polls, *(_OF_TIERS if is_read else ())})

    def evidence_from_files(self) -> frozenset[Evidence]:
        return self.evidence() & _OF_TIERS

    # Clients

    @property
    def _waits_for_all(self) -> bool:
        return (self.options.acks or str(self.promised.acks)) == "all"

    def client(self, network: Network, name: str) -> QueueClient:
        kind = IdempotentClient if self._waits_for_all and self.options.idempotent else QueueClient
        return kind(
            cast(Dials, network),
            name,
            self.nodes,
            acks=ALL_IN_SYNC if self._waits_for_all else LEADER_ALONE,
            committed=self.options.isolation == "read_committed",
        )

    def log_reader(self, network: Network, name: str) -> PositionedReader:
        return PositionedReader(self.client(network, name))

    def group_member(self, network: Network, name: str, group: str) -> GroupMember:
        member = ConsumerMember if self._protocol == CONSUMER else ClassicMember
        return member(self.client(network, name), group, self.queues())

    def transactions(self, network: Network, name: str, *, id: str) -> Transactions:
        client = QueueClient(cast(Dials, network), name, self.nodes, acks=ALL_IN_SYNC, committed=True)
        return Transactions(client, id, bumps=is_at_least(self.options.version, FIRST_THAT_BUMPS))

    def library_lacks(self) -> Mapping[str, str]:
        return library.lacks(self.options.client, self.options.version)

    async def library_command(self, network: Network, name: str, orders: Mapping[str, int]) -> ClientCommand:
        options = self.options
        settings = {
            "acks": "all" if self._waits_for_all else "1",
            "idempotent": self._waits_for_all and options.idempotent,
            "isolation": options.isolation,
        }
        program = library.Program(options.client, recipe(options.version), settings)
        return await program.command(cast(Dials, network), name, self.nodes, self.queues(), orders)

    def offsets_have_gaps(self, uses: Collection[str]) -> bool:
        """Return whether transactions of a client library may leave marks; other workloads' count as such anyway."""
        return Use.DELIVERIES in uses

    def holders(self, queue: QueueRef) -> tuple[str, ...]:
        """Return the replicas of a partition, as last seen with all of them in sync, the preferred leader first;
        consumers may read from each (KIP-392)."""
        if queue in self._proven:
            return self._proven[queue].replicas
        brokers = self.nodes.brokers
        return tuple(brokers[(queue.queue_id + one) % len(brokers)] for one in range(self.options.replicas))

    # What the harness observes and changes

    async def view(self, network: Network, record: Record | None = None) -> ClusterView:
        replicas = {queue: self.holders(queue) for queue in self.queues()}
        return await Observer(self.nodes, replicas, self._proven).view(cast(Dials, network), record)

    async def set_up(self, network: Network) -> bool:
        """Create the topic; the topic of groups' offsets is made when ``view`` asks for it."""
        connections = Connections(cast(Dials, network), HARNESS)
        replicas = {queue.queue_id: self.holders(queue) for queue in self.queues()}
        try:
            views = await topology.ask_all(connections, self.nodes, (self.options.topic,))
            if not views:
                return False
            settings = tier.OF_TOPIC if self.options.tier else {}
            await changes.create_topic(connections, next(iter(views)), self.options.topic, replicas, settings)
        except (Failed, Unknown):
            return False
        finally:
            connections.close()
        return (await self.view(network)).settled

    async def switch(self, network: Network, target: str, group: str) -> Mapping[str, object]:
        (queue,) = (queue for queue in self.queues() if queue.group == group)
        order = [target, *(one for one in self.holders(queue) if one != target)]
        connections = Connections(cast(Dials, network), HARNESS)
        try:
            return await changes.elect(network, connections, self.nodes, queue, order)
        finally:
            connections.close()

    async def collect(self, network: Network, record: Record) -> None:
        """Record what replicas' logs and the tier hold, where there is a tier. Else each replica is read by consumers'
        own requests, through its own node."""
        if not self.evidence_from_files() or not isinstance(network, CanReadFiles):
            return
        client = self.client(network, HARNESS)
        try:
            found = {queue: await client.bounds(queue) for queue in self.queues()}
        except Failed:
            return
        finally:
            client.close()
        ends = {queue: (answer.minimum, answer.maximum) for queue, answer in found.items()}
        brokers = self.nodes.brokers
        logs = []
        for broker in brokers:
            own = {queue: limits for queue, limits in ends.items() if broker in self.holders(queue)}
            logs.append(await final_state.collect_logs(network, broker, own, record))
        await final_state.collect_tier(network, brokers, ends, logs, record)


class KafkaWithSpares(Kafka):
    """More brokers than replicas: what one holds can be reassigned to another one."""

    __slots__ = ()

    async def remove_broker(self, network: Network, node: str) -> Mapping[str, object]:
        """Have other brokers hold what this one does; it stays a broker, and may be given others."""
        connections = Connections(cast(Dials, network), HARNESS)
        try:
            return await changes.move_away(connections, self.nodes, self.queues(), node)
        finally:
            connections.close()


def create(options: Options) -> Kafka:
    """Return the driver."""
    return KafkaWithSpares(options) if options.brokers > options.replicas > 1 else Kafka(options)
