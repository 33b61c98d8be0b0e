"""What meta's leader decides by itself: whose life is over, who owns a slice, which stores hold a group.

Who was heard when is one node's memory and stands in no log; it only makes entries that end a life, or call a store
gone or back. All else is decided by the catalog alone (:mod:`reference.split.meta.placement`).
"""

from __future__ import annotations

from collections.abc import Iterator

from reference.split.meta import placement
from reference.split.meta.entries import Entry
from reference.split.names import DRAINING, GONE, Broker, Store
from reference.split.view import Cluster

#: So many groups are born at once.
MOST_BIRTHS = 256
_MS = 1_000_000


class Decisions:
    """Makes the entries that the leader proposes, each once: about one subject one at a time."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        groups: int,
        slices: int,
        replicas: int,
        birth_stores: int,
        moves: int,
        broker_timeout_ms: int,
        store_timeout_ms: int,
    ) -> None:
        self._heard_ns: dict[str, int] = {}  # when each broker and store was heard last
        self._cluster = cluster
        self._groups, self._slices = groups, slices
        self._replicas, self._birth_stores, self._moves = replicas, birth_stores, moves
        self._broker_timeout_ns, self._store_timeout_ns = broker_timeout_ms * _MS, store_timeout_ms * _MS
        self._under_way: dict[tuple[str, object], None] = {}
        self._quiet_at = -1  # the revision at which nothing was left to place
        self._even_at = -1  # the revision at which everything was spread evenly

    # What promises of others rest on

    def is_over(self, broker: Broker, since_ns: int, now_ns: int) -> bool:
        """Return whether a broker's life ends by its silence. ``since_ns``: since when this node leads: before that
        moment it need not have heard anybody."""
        return now_ns - max(since_ns, self._heard_ns.get(broker.name, 0)) > self._broker_timeout_ns

    def is_lost(self, store: Store, since_ns: int, now_ns: int) -> bool:
        """Return whether a store has been silent for so long that its replicas are made elsewhere."""
        return now_ns - max(since_ns, self._heard_ns.get(store.name, 0)) > self._store_timeout_ns

    def is_back(self, store: Store, now_ns: int) -> bool:
        """Return whether a store that was called gone is heard again."""
        heard_ns = self._heard_ns.get(store.name)
        return heard_ns is not None and now_ns - heard_ns <= self._store_timeout_ns

    # Entries

    def restart(self) -> None:
        """Begin to lead, or to follow: nothing of this node's is under way."""
        self._under_way.clear()
        self._quiet_at = self._even_at = -1

    def heard(self, name: str, number: int, now_ns: int) -> None:
        """Note a sign of life of a node that the catalog knows, unless it is of an older life or disk."""
        broker, store = self._cluster.broker(name), self._cluster.store(name)
        if number in ([broker.life] if broker is not None else []) + ([store.disk] if store is not None else []):
            self._heard_ns[name] = now_ns

    def ended(self, name: str) -> Entry | None:
        """Return the entry that ends a broker's life because its connection broke. A store is only silent then: its
        disk is there, and it may be back before its replicas would be made elsewhere."""
        broker = self._cluster.broker(name)
        if broker is None or self._heard_ns.pop(name, None) is None or not broker.lives:
            return None
        return {"op": "ended", "node": name, "life": broker.life}

    def due(self, since_ns: int, now_ns: int) -> Iterator[Entry]:
        """Return what is to be decided now."""
        yield from self._by_silence(since_ns, now_ns)
        if self._quiet_at == self._cluster.revision:
            return
        found: list[Entry] = []
        if not self._has_under_way("slice"):
            found += placement.vacancies(self._cluster, self._slices)
        if not self._has_under_way("group"):
            found += self._for_groups()
        if not found and not self._under_way:
            self._quiet_at = self._cluster.revision
        yield from found

    def evening_out(self) -> Iterator[Entry]:
        """Return what spreads slices and groups more evenly: one move of each at a time, and of groups only while all
        of them have the members that they are to have."""
        if self._even_at == self._cluster.revision or self._under_way:
            return
        moves = placement.balancing_move(self._cluster, self._slices), placement.levelling_move(self._cluster)
        if moves == (None, None):
            self._even_at = self._cluster.revision
        yield from (move for move in moves if move is not None)

    def _by_silence(self, since_ns: int, now_ns: int) -> Iterator[Entry]:
        for broker in self._cluster.brokers():
            if broker.lives and self.is_over(broker, since_ns, now_ns):
                yield {"op": "ended", "node": broker.name, "life": broker.life}
        for store in self._cluster.stores():
            about = {"node": store.name, "disk": store.disk}
            if store.state == GONE:
                if self.is_back(store, now_ns):
                    yield {"op": "seen", **about}
            elif store.state != DRAINING and self.is_lost(store, since_ns, now_ns):
                yield {"op": "lost", **about}

    def _for_groups(self) -> Iterator[Entry]:
        born = len(self._cluster.groups())
        if born < self._groups and (born or len(self._cluster.stores()) >= self._birth_stores):
            yield from placement.births(self._cluster, self._groups, self._replicas, MOST_BIRTHS)
        yield from placement.wishes(self._cluster, self._moves)

    # What is under way

    def begin(self, entry: Entry) -> bool:
        """Note that an entry is proposed; False if one about the same subject is under way."""
        subject = _subject(entry)
        if subject in self._under_way:
            return False
        self._under_way[subject] = None
        return True

    def end(self, entry: Entry) -> None:
        """Note that the outcome of an entry is known, or can't be known."""
        self._under_way.pop(_subject(entry), None)

    def _has_under_way(self, kind: str) -> bool:
        return any(known == kind for known, _ in self._under_way)


def _subject(entry: Entry) -> tuple[str, object]:
    return next((key, entry[key]) for key in ("slice", "group", "node") if key in entry)
