"""Histories of storage clusters, for the tests of their laws."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.checkers.histories import History

STORES = ("store-0", "store-1", "store-2")
REPLICAS = tuple(f"{store}#{number}" for number, store in enumerate(STORES, 1))
METAS = ("meta-0", "meta-1", "meta-2")
BROKERS = ("broker-0", "broker-1")
TIER = "tier-0"


def digest(number: int) -> str:
    return f"{number:032x}"


def key(topic: int, group: int, begin: int, end: int, number: int) -> str:
    return f"seg/{topic}/{group}/{begin:020d}-{end:020d}-{digest(number)}"


@dataclass
class Cluster(History):
    """One slice with the groups 0 and 2, and another one with 1 and 3. Entries of a group are reported by the three
    stores unless a test says otherwise."""

    revision: int = 0
    versions: dict[tuple[str, str], int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)

    def entry(self, kind: str, name: str, node: str = "meta-0", **value: Any) -> int:
        """Meta logs an entry of its catalogue."""
        self.revision += 1
        version = self.versions[kind, name] = self.versions.get((kind, name), 0) + 1
        told = {"type": "entry", "kind": kind, "name": name, "version": version, "revision": self.revision}
        told["value"] = value
        return self.trace(node, "applied", position=self.revision, epoch=1, value={"entry": told})

    def group_entry(self, group: int, voters: Any = REPLICAS, learners: Any = (), index: int = 0) -> int:
        lists = {"voters": list(voters), "learners": list(learners), "birth": list(REPLICAS), "wanted": list(REPLICAS)}
        return self.entry("group", str(group), index=index, **lists)

    def owner(self, number: int, broker: str, life: int, epoch: int) -> int:
        return self.entry("owner", f"slice-{number}", broker=broker, life=life, epoch=epoch)

    def topic(self, name: str, id: int, *, retain_ms: int = 0, retain_bytes: int = 0, deleted: bool = False) -> int:
        return self.entry(
            "topic", name, id=id, queues=4, retain_ms=retain_ms, retain_bytes=retain_bytes, deleted=deleted
        )

    def index(self, group: int) -> int:
        self.last[group] = self.last.get(group, 0) + 1
        return self.last[group]

    def fence(
        self,
        group: int,
        epoch: int,
        broker: str = "broker-0",
        life: int = 1,
        *,
        end: int = 0,
        accepted: bool = True,
        stores: Any = STORES,
        index: int = 0,
    ) -> int:
        index = index or self.index(group)
        value = {"group": group, "slice": f"slice-{group % 2}", "broker": broker, "life": life, "end": end}
        for store in stores:
            self.trace(store, "fence", epoch=epoch, position=index, value={**value, "accepted": accepted})
        return index

    def add(
        self,
        group: int,
        epoch: int,
        begin: int,
        end: int,
        *,
        accepted: bool = True,
        stores: Any = STORES,
        index: int = 0,
        synced: Any = None,
        crc: int = 7,
    ) -> int:
        """An APPEND, durable on all stores that apply it unless ``synced`` says on which."""
        index = index or self.index(group)
        reason = {} if accepted else {"reason": "fenced"}
        value = {"group": group, "log_index": index, "end": end, "crc": crc, "accepted": accepted, **reason}
        for store in stores if synced is None else synced:
            self.trace(store, "group_synced", value={"groups": {str(group): index}})
        for store in stores:
            self.trace(store, "group_append", epoch=epoch, position=begin, value=value)
        return index

    def acked(self, group: int, epoch: int, end: int, broker: str = "broker-0", **more: Any) -> int:
        return self.trace(broker, "group_acked", epoch=epoch, position=end, value={"group": group}, **more)

    def opened(self, number: int, epoch: int, broker: str = "broker-0", life: int = 1, **more: Any) -> int:
        ends = more.pop("ends", {str(number): 0, str(number + 2): 0})
        value = {"slice": f"slice-{number}", "life": life, "ends": ends}
        return self.trace(broker, "opened", epoch=epoch, value=value, **more)

    def leads(self, group: int, store: int, term: int, votes: Any = (0, 1), **more: Any) -> int:
        named = {"votes": [REPLICAS[one] for one in votes], "voters": list(more.pop("voters", REPLICAS))}
        value = {"role": "leader", "leader": REPLICAS[store], "commit": 0, "group": group, **named, **more}
        return self.trace(STORES[store], "raft", epoch=term, value=value)

    def vote(self, group: int, store: int, candidate: int, term: int, **more: Any) -> int:
        value = {"candidate": REPLICAS[candidate], "group": group, **more.pop("value", {})}
        return self.trace(STORES[store], "vote", epoch=term, value=value, **more)

    def members(
        self, group: int, voters: Any, learners: Any = (), *, index: int = 0, stores: Any = STORES, term: int = 1
    ) -> int:
        index = index or self.index(group)
        value = {"group": group, "voters": list(voters), "learners": list(learners)}
        for store in stores:
            self.trace(store, "members", epoch=term, position=index, value=value)
        return index

    def seal(
        self, group: int, topic: int, begin: int, end: int, number: int, *, stores: Any = STORES, index: int = 0
    ) -> int:
        index = index or self.index(group)
        value = {"group": group, "log_index": index, "topic": topic, "end": end, "size": end - begin}
        for store in stores:
            self.trace(store, "sealed", position=begin, value={**value, "digest": digest(number)})
        return index

    def held(
        self, group: int, topic: int, begin: int, end: int, number: int, store: str = "store-0", **more: Any
    ) -> int:
        value = {"group": group, "topic": topic, "end": end, "digest": digest(number), "source": "made", **more}
        return self.trace(store, "held", position=begin, value=value)

    def uploaded(self, group: int, topic: int, begin: int, end: int, number: int, **more: Any) -> int:
        index = self.index(group)
        self.put(key(topic, group, begin, end, number))
        value = {"group": group, "log_index": index, "topic": topic, "end": end, "digest": digest(number)}
        value |= {"key": key(topic, group, begin, end, number), **more}
        for store in STORES:
            self.trace(store, "uploaded", position=begin, value=value)
        return index

    def put(self, name: str) -> int:
        value = {"caller": "store-0", "key": name, "request": "r", "outcome": "created"}
        return self.trace(TIER, "store_put", hash=5, value=value)

    def trim(self, group: int, topic: int, version: int, rule: str = "time", *, index: int = 0, **more: Any) -> int:
        index = index or self.index(group)
        value = {"group": group, "log_index": index, "topic": topic, "version": version, "rule": rule}
        value |= {"now_ms": 10_000, "starts": {"0": 5}, "newest_ms": 1_000, "oldest_ms": 9_000}
        value |= {"size_bytes": 100, "left_bytes": 50, **more}
        for store in STORES:
            self.trace(store, "trim", value=value)
        return index

    def final(self, store: int, group: int, end: int, **more: Any) -> int:
        value = {"group": group, "replica": REPLICAS[store], "log_index": self.last.get(group, 0), "start": 0}
        value |= {"sealed": 0, "tail": digest(end), "voters": list(REPLICAS), "learners": [], "now_ms": 10_000}
        value |= {"segments": [], "kept": {}, "strays": [], **more}
        node = more.get("node", STORES[store])
        value.pop("node", None)
        return self.row("final", f="group", node=node, epoch=more.get("epoch", 1), position=end, value=value)

    def end(self) -> Cluster:
        """Recover, and begin to read what is there."""
        for name in ("heal", "recover"):
            self.phase(name)
        self.recovered()
        for name in ("drain", "collect"):
            self.phase(name)
        return self

    def complete_nodes(self, *nodes: str) -> None:
        for node in nodes or (*STORES, TIER):
            self.row("final", f="complete", node=node)


def cluster(**meta: Any) -> Cluster:
    """Meta has named the owners of two slices and the members of their groups; then the load began."""
    roles = {"meta": METAS, "store": STORES, "broker": BROKERS, "objectstore": (TIER,)}
    known = {"tells": ["operations", "groups"], "controllers": list(METAS), "brokers": [], "uses": ["queues"]}
    nodes = [{"name": name, "role": role} for role, names in roles.items() for name in names]
    it = Cluster(meta={**known, "nodes": nodes, **meta})
    for broker, life in zip(BROKERS, (1, 2), strict=True):
        it.entry("broker", broker, life=life, nonce="n", state="up")
    for number, store in enumerate(STORES, 1):
        it.entry("store", store, disk=number, word="w", zone="", state="up")
    for group in range(4):
        it.group_entry(group)
    it.owner(0, "broker-0", 1, 1)
    it.owner(1, "broker-1", 2, 1)
    it.phase("load")
    return it
