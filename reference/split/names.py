"""What meta's catalog holds: the kinds of its entries, and their values as they are used.

A life of a broker, a disk of a store and the id of a topic are numbers that meta's log has given away once: the
catalog's revision at which they began.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.node import Malformed
from reference.metadata.catalog import Entry, Kinds
from reference.split.layout import MAX_GROUPS, slice_number

BROKER, STORE, TOPIC, OWNER, GROUP = "broker", "store", "topic", "owner", "group"
KINDS: Kinds = {
    BROKER: {"life": int, "nonce": str, "state": str},
    STORE: {"disk": int, "word": str, "zone": str, "state": str},
    TOPIC: {"id": int, "queues": int, "retain_ms": int, "retain_bytes": int, "deleted": bool},
    OWNER: {"broker": str, "life": int, "epoch": int},  # the name is a slice's
    GROUP: {"birth": list, "voters": list, "learners": list, "index": int, "wanted": list},
}
#: What a node may be: ``gone`` is a broker whose life is over, or a store that was silent for too long.
UP, DRAINING, GONE = "up", "draining", "gone"
#: Between the node and the disk in the name of a replica.
_DISK = "#"


def replica_name(node: str, disk: int) -> str:
    """Return the name of a member of a group: a store with one disk of its own."""
    return f"{node}{_DISK}{disk}"


def split_replica(name: str) -> tuple[str, int]:
    """Return a replica's node and disk. Raises :class:`chaos.node.Malformed`."""
    node, _, disk = name.rpartition(_DISK)
    if not node or not (disk.isascii() and disk.isdigit()) or len(disk) > 18 or replica_name(node, int(disk)) != name:
        raise Malformed(f"{name[:80]!r} names no replica: expected the store and its disk, as in store-1{_DISK}7")
    return node, int(disk)


def node_of(replica: str) -> str:
    """Return the store that a replica is on. Raises :class:`chaos.node.Malformed`."""
    return split_replica(replica)[0]


@dataclass(frozen=True, slots=True)
class Broker:
    """``life``: its incarnation; ``nonce``: the word that it registered with, "" when that life is over."""

    name: str
    life: int
    nonce: str
    state: str

    @property
    def lives(self) -> bool:
        """Whether its newest life goes on, as far as meta's log says."""
        return bool(self.nonce)

    @property
    def may_own(self) -> bool:
        """Whether slices may be given to it."""
        return self.lives and self.state == UP

    @staticmethod
    def read(entry: Entry) -> Broker:
        """Return the broker of an entry that has a value."""
        return Broker(entry.name, **_value(entry))


@dataclass(frozen=True, slots=True)
class Store:
    """``word``: what it wrote on its disk when that was empty."""

    name: str
    disk: int
    word: str
    zone: str
    state: str

    @property
    def replica(self) -> str:
        """The name of its replicas in groups."""
        return replica_name(self.name, self.disk)

    @property
    def may_hold(self) -> bool:
        """Whether it may be given replicas."""
        return self.state == UP

    @staticmethod
    def read(entry: Entry) -> Store:
        """Return the store of an entry that has a value."""
        return Store(entry.name, **_value(entry))


@dataclass(frozen=True, slots=True)
class Topic:
    """``version``: the entry's, which TRIM entries name. Limits of 0 keep everything."""

    name: str
    version: int
    id: int
    queues: int
    retain_ms: int
    retain_bytes: int
    deleted: bool

    @staticmethod
    def read(entry: Entry) -> Topic:
        """Return the topic of an entry that has a value."""
        return Topic(entry.name, entry.version, **_value(entry))


@dataclass(frozen=True, slots=True)
class Owner:
    """Who owns a slice: ``broker`` is "" while nobody does. Each change raises ``epoch`` by one."""

    name: str
    broker: str = ""
    life: int = 0
    epoch: int = 0

    @staticmethod
    def read(entry: Entry) -> Owner:
        """Return the owner of an entry that has a value."""
        return Owner(entry.name, **_value(entry))


@dataclass(frozen=True, slots=True)
class Group:
    """``voters`` and ``learners``: the members by the newest committed membership that a leader has reported; it stands
    at ``index`` in the group's log. ``wanted``: meta's wish, which is never a route."""

    number: int
    birth: tuple[str, ...]
    voters: tuple[str, ...]
    learners: tuple[str, ...]
    index: int
    wanted: tuple[str, ...]

    @property
    def members(self) -> tuple[str, ...]:
        return (*self.voters, *self.learners)

    @property
    def is_settled(self) -> bool:
        """Whether its members are those that are wanted."""
        return not self.learners and sorted(self.voters) == sorted(self.wanted)

    @staticmethod
    def read(entry: Entry) -> Group:
        """Return the group of an entry that has a value."""
        value = _value(entry)
        lists = {key: tuple(value[key]) for key in ("birth", "voters", "learners", "wanted")}
        return Group(int(entry.name), index=value["index"], **lists)


def check_replicas(names: Sequence[str]) -> None:
    """Raise :class:`chaos.node.Malformed` unless these are replicas on different stores. While a store that was wiped
    joins again, its old replica and its new one are members beside each other."""
    nodes = [split_replica(name)[0] for name in names]
    if len(set(nodes)) != len(nodes):
        raise Malformed("a store is to hold two replicas of a group")


def check_members(voters: Sequence[str], learners: Sequence[str]) -> None:
    """Raise :class:`chaos.node.Malformed` for what is no membership of a group."""
    for name in (*voters, *learners):
        split_replica(name)
    if not voters or len({*voters, *learners}) != len(voters) + len(learners):
        raise Malformed(f"{len(voters)} voters and {len(learners)} learners are no group")


def check_entry(entry: Entry) -> None:
    """Raise :class:`chaos.node.Malformed` for an entry that meta never writes, though its value has the right form."""
    value = entry.value
    if value is None:
        raise Malformed(f"{entry.kind} {entry.name[:80]!r} has no value")
    if any(found < 0 for found in value.values() if isinstance(found, int)):
        raise Malformed(f"a number of {entry.kind} {entry.name[:80]!r} is below 0")
    if entry.kind == OWNER:
        slice_number(entry.name)
    elif entry.kind == GROUP:
        check_group(entry.name)
        check_replicas(value["birth"])
        check_replicas(value["wanted"])
        check_members(value["voters"], value["learners"])
    elif value.get("state", UP) not in (UP, DRAINING, GONE):
        raise Malformed(f"{entry.kind} {entry.name[:80]!r} is {value['state'][:80]!r}")


def check_group(name: str) -> int:
    """Return the number of a group by its name. Raises :class:`chaos.node.Malformed`."""
    if not (name.isascii() and name.isdigit() and len(name) <= 4 and int(name) < MAX_GROUPS and str(int(name)) == name):
        raise Malformed(f"{name[:80]!r} is no group: expected a number below {MAX_GROUPS}")
    return int(name)


def _value(entry: Entry) -> Mapping[str, Any]:
    assert entry.value is not None, f"{entry.kind} {entry.name} has no value"
    return entry.value
