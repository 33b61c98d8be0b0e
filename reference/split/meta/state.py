"""What the meta nodes agree on: the state machine of their log, on a catalog with the kinds of a split cluster.

An entry is a JSON object; ``op`` names the method that applies it. Each is decided when it is applied, against the
catalog as it is then: a decision that was right when the leader proposed it and is stale by now changes nothing. An
entry changes one entry of the catalog at most, and its outcome says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from reference.controller.replicas import Outcome
from reference.metadata.catalog import ANY, Catalog
from reference.split import names
from reference.split.layout import check_layout, slice_name
from reference.split.meta.entries import KEEP, Entry
from reference.split.names import DRAINING, GONE, UP, Broker, Group, Owner, Store, Topic
from reference.split.view import Cluster
from reference.wire.codes import Response

#: So many nodes of a kind, and names of topics, does a cluster know at most; deleted topics count.
MAX_NODES, MAX_TOPICS = 1024, 1 << 14
#: What is read of the entries of a kind.
_TYPES = {names.BROKER: Broker, names.STORE: Store, names.OWNER: Owner, names.TOPIC: Topic, names.GROUP: Group}


class ClusterCatalog(Catalog):
    """The catalog of a split cluster."""

    kinds = names.KINDS


class ClusterState:
    """The state machine. Its methods without an underscore are what promises rest on: planted bugs override them."""

    def __init__(self, catalog: Catalog, *, groups: int, slices: int) -> None:
        check_layout(groups, slices)
        self.catalog = catalog
        self.cluster = Cluster(catalog)
        self.groups, self.slices = groups, slices

    # Policy

    def next_number(self) -> int:
        """Return the number of a new life, disk or topic: one that the log gives away once."""
        return self.catalog.revision + 1

    def next_life(self, known: Broker | None) -> int:
        """Return the life of a broker that registers: one of its own, whatever was known of the broker."""
        return self.next_number()

    def next_topic(self, known: Topic | None) -> int:
        """Return the id of a topic that is made: one of its own, also where a deleted one had its name."""
        return self.next_number()

    def next_epoch(self, owner: Owner, broker: str) -> int:
        """Return the epoch with which a slice changes its owner: no two owners of a slice ever have the same one."""
        return owner.epoch + 1

    def is_same_life(self, broker: Broker, nonce: str) -> bool:
        """Return whether a registration is of the life that is known already, and goes on."""
        return broker.lives and broker.nonce == nonce

    def is_same_disk(self, store: Store, word: str) -> bool:
        """Return whether a store that registers still has the disk that its replicas are on."""
        return store.word == word

    def may_own(self, broker: Broker | None, life: int) -> bool:
        """Return whether a slice may be given to this life of a broker: it goes on, and is not to be drained."""
        return broker is not None and broker.may_own and broker.life == life

    def is_newer(self, group: Group, index: int) -> bool:
        """Return whether a report is of a later membership than the one that is known: the map never goes back."""
        return index > group.index

    def keeps_majority(self, group: Group, wanted: Sequence[str]) -> bool:
        """Return whether a majority of a group's voters stays, so that what they have acknowledged is never left to
        newcomers."""
        return 2 * len(set(group.voters) & set(wanted)) > len(group.voters)

    def with_wish(self, group: Group, wanted: Sequence[str]) -> Group:
        """Return the group with a new wish, which changes nothing of who its members are."""
        return replace(group, wanted=tuple(wanted))

    # The log

    def apply(self, entry: Entry) -> Outcome:
        """Apply an entry. ``changed`` of the outcome is what is traced; it has a ``code`` where nothing changed."""
        outcome: Outcome = getattr(self, f"_{entry['op']}")(entry)
        if outcome.changed:
            return outcome
        return Outcome(outcome.code, outcome.remark, {"type": "none", "op": entry["op"], "code": outcome.code})

    def _put(self, found: Broker | Store | Owner | Topic | Group) -> Outcome:
        value = {key: list(one) if isinstance(one, tuple) else one for key, one in asdict(found).items()}
        kind = next(kind for kind, type_ in _TYPES.items() if isinstance(found, type_))
        name = str(value.pop("number" if kind == names.GROUP else "name"))
        value.pop("version", None)
        known = self.catalog.entries.get((kind, name))
        if known is not None and known.value == value:
            return Outcome()
        made = self.catalog.put((kind, name), value)
        row = {"type": "entry", "kind": kind, "name": name, "version": made.version, "revision": made.revision}
        return Outcome(changed=row | {"value": value})

    # Nodes

    def _register_broker(self, entry: Entry) -> Outcome:
        name, nonce = entry["node"], entry["nonce"]
        known = self.cluster.broker(name)
        if known is not None and self.is_same_life(known, nonce):
            return Outcome()
        if known is None and len(self.cluster.brokers()) >= MAX_NODES:
            return Outcome(Response.NO_PERMISSION, f"there are {MAX_NODES} brokers already")
        state = DRAINING if known is not None and known.state == DRAINING else UP
        return self._put(Broker(name, self.next_life(known), nonce, state))

    def _register_store(self, entry: Entry) -> Outcome:
        name, word = entry["node"], entry["word"]
        known = self.cluster.store(name)
        if known is None and len(self.cluster.stores()) >= MAX_NODES:
            return Outcome(Response.NO_PERMISSION, f"there are {MAX_NODES} stores already")
        same = known is not None and self.is_same_disk(known, word)
        disk = known.disk if known is not None and same else self.next_number()
        state = DRAINING if known is not None and known.state == DRAINING else UP
        return self._put(Store(name, disk, word, entry["zone"], state))

    def _ended(self, entry: Entry) -> Outcome:
        """End a broker's life: nobody goes on with it. One that is to be drained still is when it comes back."""
        broker = self.cluster.broker(entry["node"])
        if broker is None or broker.life != entry["life"] or not broker.lives:
            return _stale(f"{entry['node']} has another life, or none")
        return self._put(replace(broker, nonce="", state=DRAINING if broker.state == DRAINING else GONE))

    def _lost(self, entry: Entry) -> Outcome:
        return self._turn(entry, UP, GONE)

    def _seen(self, entry: Entry) -> Outcome:
        return self._turn(entry, GONE, UP)

    def _turn(self, entry: Entry, before: str, after: str) -> Outcome:
        store = self.cluster.store(entry["node"])
        if store is None or store.disk != entry["disk"] or store.state != before:
            return _stale(f"{entry['node']} has another disk, or is not {before}")
        return self._put(replace(store, state=after))

    def _drain(self, entry: Entry) -> Outcome:
        name, undo = entry["node"], entry["undo"]
        node = self.cluster.broker(name) or self.cluster.store(name)
        if node is None:
            return Outcome(Response.INVALID_PARAMETER, f"{name} is neither a broker nor a store of this cluster")
        if (node.state == DRAINING) != undo:
            return Outcome()
        is_over = isinstance(node, Broker) and not node.lives
        return self._put(replace(node, state=DRAINING if not undo else GONE if is_over else UP))

    # Owners of slices

    def _own(self, entry: Entry) -> Outcome:
        owner = self._known_owner(entry)
        if owner is None:
            return _stale(f"{slice_name(entry['slice'])} has another epoch than {entry['after']}")
        broker, life = self.cluster.broker(entry["broker"]), entry["life"]
        if not self.may_own(broker, life) or (owner.broker, owner.life) == (entry["broker"], life):
            return _stale(f"life {life} of {entry['broker']} can't become the owner")
        return self._put(Owner(owner.name, entry["broker"], life, self.next_epoch(owner, entry["broker"])))

    def _orphaned(self, entry: Entry) -> Outcome:
        owner = self._known_owner(entry)
        if owner is None or not owner.broker or self.cluster.is_current(owner):
            return _stale(f"{slice_name(entry['slice'])} has a living owner, or another epoch than {entry['after']}")
        return self._put(Owner(owner.name, "", 0, self.next_epoch(owner, "")))

    def _known_owner(self, entry: Entry) -> Owner | None:
        """Return the owner that a decision was made about; None if there has been another one since."""
        owner = self.cluster.owner(entry["slice"])
        return owner if entry["slice"] < self.slices and owner.epoch == entry["after"] else None

    # Groups

    def _birth(self, entry: Entry) -> Outcome:
        """Give a group its first members, once and for all: no group without a majority is ever formed again."""
        number, replicas = entry["group"], tuple(entry["replicas"])
        if number >= self.groups or self.cluster.group(number) is not None:
            return _stale(f"group {number} was born already, or never will be")
        if not replicas or not all(self._may_hold(name) for name in replicas):
            return _stale(f"not all of {', '.join(replicas)} can hold a group")
        return self._put(Group(number, replicas, replicas, (), 0, replicas))

    def _want(self, entry: Entry) -> Outcome:
        group, wanted = self.cluster.group(entry["group"]), entry["wanted"]
        if group is None or group.index != entry["index"]:
            return _stale(f"group {entry['group']} has other members by now")
        if not all(name in group.members or self._may_hold(name) for name in wanted):
            return _stale(f"not all of {', '.join(wanted)} can hold a group")
        if not self.keeps_majority(group, wanted):
            return _stale(f"group {group.number} would lose a majority of its voters")
        return self._put(self.with_wish(group, wanted))

    def _report(self, entry: Entry) -> Outcome:
        """Learn who the members of a group are. What is known already, or better, is no error."""
        group = self.cluster.group(entry["group"])
        if group is None:
            return Outcome(Response.INVALID_PARAMETER, f"group {entry['group']} was never born")
        if not self.is_newer(group, entry["index"]):
            return Outcome()
        voters, learners = tuple(entry["voters"]), tuple(entry["learners"])
        return self._put(replace(group, voters=voters, learners=learners, index=entry["index"]))

    def _may_hold(self, replica: str) -> bool:
        store = self.cluster.store(names.node_of(replica))
        return store is not None and store.replica == replica and store.may_hold

    # Topics

    def _topic(self, entry: Entry) -> Outcome:
        """Make a topic, or change it: it may get more queues, never fewer."""
        name, known = entry["name"], self.cluster.last_topic(entry["name"])
        if refused := self._conflict(entry, known):
            return refused
        old = self.cluster.topic(name)
        if old is None and entry["queues"] < 1:
            return Outcome(Response.INVALID_PARAMETER, f"topic {name} needs a number of queues")
        if known is None and sum(kind == names.TOPIC for kind, _ in self.catalog.entries) >= MAX_TOPICS:
            return Outcome(Response.NO_PERMISSION, f"there were {MAX_TOPICS} topics already")
        if old is None:
            old = Topic(name, 0, self.next_topic(known), 0, 0, 0, False)
        limits = {key: entry[key] for key in ("retain_ms", "retain_bytes") if entry[key] != KEEP}
        return self._put(replace(old, queues=max(old.queues, entry["queues"]), **limits))

    def _delete_topic(self, entry: Entry) -> Outcome:
        known = self.cluster.topic(entry["name"])
        if known is None:
            return Outcome(Response.TOPIC_NOT_EXIST, f"topic {entry['name']} does not exist")
        if refused := self._conflict(entry, known):
            return refused
        return self._put(replace(known, deleted=True))

    def _conflict(self, entry: Entry, known: Topic | None) -> Outcome | None:
        version = known.version if known is not None else 0
        if entry["expected"] in (ANY, version):
            return None
        return Outcome(
            Response.METADATA_CONFLICT, f"topic {entry['name']} has version {version}, not {entry['expected']}"
        )


def _stale(remark: str) -> Outcome:
    return Outcome(Response.METADATA_CONFLICT, remark)
