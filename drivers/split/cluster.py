"""Which nodes a split cluster has, in which zones they lie, and how each is set up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.node import NodeSpec
from chaos.plugins import nearest
from reference.broker.records import MAX_TOPIC_BYTES
from reference.split import build
from reference.split.layout import MAX_GROUPS, MAX_SLICES_OF_A_BROKER, check_layout
from reference.split.options import LAYOUT, METAS, OPTIONS

CLUSTER = "stormproof"
PACKAGE = "reference.split"
#: A cluster has no more stores than this, and no more brokers.
MOST_NODES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``metas`` (1, 3 or 5) keep the cluster's metadata; ``stores`` hold ``groups``, each in ``replicas`` of them;
    ``brokers`` hold nothing and own ``slices`` of the groups, and ``nameservers`` say which broker owns which. There is
    one ``topic`` of ``queues``, which keeps records for ``retain_ms``, and ``retain_bytes`` of them in each group (0:
    all). All nodes but the object store lie in ``zones``, one after the other. Segments are small by default, so that a
    short run seals and uploads many. ``meta_options``, ``store_options``, ``broker_options`` and ``nameserver_options``
    go to the nodes as they are."""

    metas: int = field(default=3, metadata={"within": range(1, 6, 2)})
    stores: int = field(default=3, metadata={"within": range(1, MOST_NODES + 1)})
    brokers: int = field(default=2, metadata={"within": range(1, MOST_NODES + 1)})
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
        if not 0 < len(self.topic.encode()) <= MAX_TOPIC_BYTES or self.topic.startswith("%"):
            raise ValueError(
                f"topic: expected 1 to {MAX_TOPIC_BYTES} bytes that don't begin with %, got {self.topic!r}"
            )
        for role in ("meta", "store", "broker", "nameserver"):
            _check_options(role, getattr(self, f"{role}_options"))
        for spec in {one.role: one for one in Cluster(options=self).specs("")}.values():
            build(spec)  # a value that its nodes refuse is a mistake of the experiment


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """``joined``: the brokers that have joined since the cluster was started."""

    options: Options
    joined: tuple[str, ...] = ()

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
        return (*_names("broker", self.options.brokers), *self.joined)

    @property
    def nameservers(self) -> tuple[str, ...]:
        """The nodes that have routes."""
        return _names("nameserver", self.options.nameservers)

    @property
    def tier(self) -> tuple[str, ...]:
        """The object store."""
        return _names("tier", 1)

    @property
    def described(self) -> tuple[str, ...]:
        """All nodes that say what they know of the cluster."""
        return (*self.metas, *self.stores, *self.brokers, *self.nameservers)

    @property
    def newcomers(self) -> tuple[str, ...]:
        """The brokers that may join."""
        return _names("broker", MOST_NODES)[len(self.brokers) :]

    @property
    def zones(self) -> Mapping[str, tuple[str, ...]]:
        """The nodes of each zone."""
        found: dict[str, tuple[str, ...]] = {}
        for node in self.described:
            found[self._zone(node)] = (*found.get(self._zone(node), ()), node)
        return dict(sorted(found.items()))

    def _zone(self, node: str) -> str:
        return f"zone-{int(node.rpartition('-')[2]) % self.options.zones}"

    def specs(self, mutant: str) -> list[NodeSpec]:
        """Return all nodes in the order of their start; brokers and name servers have no disk."""
        options = self.options
        timeouts = {"broker_timeout_ms": options.broker_timeout_ms, "store_timeout_ms": options.store_timeout_ms}
        sizes = {"replicas": options.replicas, "birth_stores": options.stores}
        stores = {"objectstore": self.tier[0], "segment_bytes": options.segment_bytes, **options.store_options}
        nameservers = {"cluster": CLUSTER, **options.nameserver_options}
        return [
            *(NodeSpec(name=name, role="objectstore", package=PACKAGE, mutant=mutant) for name in self.tier),
            *(self._node(name, "meta", {**sizes, **timeouts, **options.meta_options}, mutant) for name in self.metas),
            *(self._node(name, "nameserver", nameservers, mutant) for name in self.nameservers),
            *(self._node(name, "store", {"zone": self._zone(name), **stores}, mutant) for name in self.stores),
            *(self.broker(name, mutant) for name in self.brokers),
        ]

    def broker(self, node: str, mutant: str) -> NodeSpec:
        """Return how to start a broker."""
        return self._node(node, "broker", {"cluster": CLUSTER, **self.options.broker_options}, mutant)

    def _node(self, name: str, role: str, options: Mapping[str, object], mutant: str) -> NodeSpec:
        of_all = {"metas": list(self.metas), "groups": self.options.groups, "slices": self.options.slices}
        disk = role not in ("broker", "nameserver")
        return NodeSpec(name=name, role=role, package=PACKAGE, options={**of_all, **options}, mutant=mutant, disk=disk)


def _check_options(role: str, given: Mapping[str, object]) -> None:
    """Raise ``ValueError`` for an option that such a node doesn't have, that has another type, or that is to be the
    same on all nodes."""
    known = OPTIONS[role].keys() - {*METAS, *LAYOUT}
    for name, value in given.items():
        if name in METAS or name in LAYOUT:
            raise ValueError(f"{role}_options: {name} is the same on all nodes and can't be set for some")
        if name not in known:
            raise ValueError(f"{role}_options: unknown key {name!r}; {nearest(name, sorted(known))}")
        if type(value) is not OPTIONS[role][name][0]:
            raise ValueError(f"{role}_options: {name}: expected {OPTIONS[role][name][0].__name__}, got {value!r}")


def _names(role: str, count: int) -> tuple[str, ...]:
    return tuple(f"{role}-{number}" for number in range(count))
