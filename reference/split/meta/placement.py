"""Which slice goes to which broker, and which stores hold a group: pure functions of meta's catalog.

Each returns entries for meta's log. They say what they were decided about (an epoch, the index of a membership), so
that they change nothing when that is another one by the time they are applied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from reference.split import names
from reference.split.meta.entries import Entry
from reference.split.names import GONE, Broker, Group, Owner, Store
from reference.split.view import Cluster

# Slices to brokers


def vacancies(cluster: Cluster, slices: int) -> list[Entry]:
    """Return who is to own the slices that no living broker owns, spread evenly; that nobody does, where nobody can."""
    owners = [cluster.owner(number) for number in range(slices)]
    loads = _loads(cluster, owners)
    entries: list[Entry] = []
    for number, owner in enumerate(owners):
        if cluster.is_current(owner):
            continue
        if loads:
            chosen = min(loads, key=lambda name: (loads[name], name))
            loads[chosen] += 1
            entries.append(_own(cluster, number, owner, chosen))
        elif owner.broker:
            entries.append({"op": "orphaned", "slice": number, "after": owner.epoch})
    return entries


def balancing_move(cluster: Cluster, slices: int) -> Entry | None:
    """Return the next slice to move from a broker that drains, or that has two more than another one; None if none."""
    owners = [cluster.owner(number) for number in range(slices)]
    loads = _loads(cluster, owners)
    if not loads:
        return None
    least = min(loads, key=lambda name: (loads[name], name))
    for number, owner in enumerate(owners):
        if cluster.is_current(owner) and owner.broker not in loads:
            return _own(cluster, number, owner, least)
    most = max(loads, key=lambda name: (loads[name], name))
    if loads[most] - loads[least] < 2:
        return None
    number = next(number for number, owner in enumerate(owners) if owner.broker == most)
    return _own(cluster, number, owners[number], least)


def _loads(cluster: Cluster, owners: Iterable[Owner]) -> Counter[str]:
    """Return how many slices each broker owns that may be given more."""
    loads = Counter({broker.name: 0 for broker in cluster.brokers() if broker.may_own})
    loads.update(owner.broker for owner in owners if owner.broker in loads and cluster.is_current(owner))
    return loads


def _own(cluster: Cluster, number: int, owner: Owner, chosen: str) -> Entry:
    broker = cluster.broker(chosen)
    assert isinstance(broker, Broker)
    return {"op": "own", "slice": number, "broker": chosen, "life": broker.life, "after": owner.epoch}


# Groups to stores


def births(cluster: Cluster, groups: int, replicas: int, most: int) -> list[Entry]:
    """Return the first members of groups that have none, at most so many groups; nothing while there are fewer stores
    than replicas."""
    stores = [store for store in cluster.stores() if store.may_hold]
    unborn = [number for number in range(groups) if cluster.group(number) is None][:most]
    if len(stores) < replicas or not unborn:
        return []
    loads = _replica_counts(cluster.groups())
    entries: list[Entry] = []
    for number in unborn:
        chosen: list[Store] = []
        while len(chosen) < replicas:
            left = [store for store in stores if store not in chosen]
            chosen.append(_best(left, loads, {store.zone for store in chosen}))
        loads.update(store.name for store in chosen)
        entries.append({"op": "birth", "group": number, "replicas": [store.replica for store in chosen]})
    return entries


def wishes(cluster: Cluster, moves: int) -> list[Entry]:
    """Return which groups are to have another member instead of one whose store is gone, wiped or drains. At most
    ``moves`` groups change their members at once, one member each; those with a member that is gone come first."""
    groups = cluster.groups()
    loads = _replica_counts(groups)
    free = moves - sum(not group.is_settled for group in groups)
    entries: list[Entry] = []
    for group in sorted(groups, key=lambda group: (not _has_lost(cluster, group), group.number)):
        leaving = _leaving(cluster, group)
        if leaving is None or (group.is_settled and free <= 0):
            continue
        wanted = _replaced(cluster, group, leaving, loads)
        if wanted is None:
            continue
        free -= group.is_settled
        entries.append({"op": "want", "group": group.number, "index": group.index, "wanted": wanted})
    return entries


def levelling_move(cluster: Cluster) -> Entry | None:
    """Return the next replica to move to a store that holds two fewer than another one, as one that has just joined
    does; None where no move makes it more even, or would put replicas into fewer zones."""
    able = [store for store in cluster.stores() if store.may_hold]
    groups = cluster.groups()
    loads = _replica_counts(groups)
    if not able or not all(group.is_settled for group in groups):
        return None
    least = min(able, key=lambda store: (loads[store.name], store.name))
    for most in sorted(able, key=lambda store: (-loads[store.name], store.name)):
        if loads[most.name] - loads[least.name] < 2:
            return None
        for group in groups:
            if most.replica in group.wanted and _may_take(cluster, group, most, least):
                wanted = [*(name for name in group.wanted if name != most.replica), least.replica]
                return {"op": "want", "group": group.number, "index": group.index, "wanted": wanted}
    return None


def _may_take(cluster: Cluster, group: Group, most: Store, least: Store) -> bool:
    """Return whether one store may take the place of another one in a group."""
    nodes = {names.node_of(name) for name in group.wanted} - {most.name}
    zones = {store.zone for store in cluster.stores() if store.name in nodes}
    return least.name not in nodes and (least.zone not in zones or most.zone in zones)


def _leaving(cluster: Cluster, group: Group) -> str | None:
    """Return the wanted member to replace next. While a group is changing only a newcomer that can't come any more is
    replaced: nobody leaves before somebody else has joined."""
    unfit = [name for name in group.wanted if not _is_fit(cluster, name)]
    if not group.is_settled:
        unfit = [name for name in unfit if name not in group.voters]
    return min(unfit, key=lambda name: (not _is_lost(cluster, name), name), default=None)


def _replaced(cluster: Cluster, group: Group, leaving: str, loads: Counter[str]) -> list[str] | None:
    """Return the wanted members with another one instead of ``leaving``; None where no store can take its place."""
    staying = [name for name in group.wanted if name != leaving]
    nodes = {names.node_of(name) for name in staying}
    able = [store for store in cluster.stores() if store.may_hold and store.name not in nodes]
    if not able:
        return None
    zones = {store.zone for store in cluster.stores() if store.name in nodes}
    chosen = _best(able, loads, zones)
    loads[chosen.name] += 1
    return [*staying, chosen.replica]


def _best(stores: Sequence[Store], loads: Mapping[str, int], zones: set[str]) -> Store:
    """Return the store to hold one more replica: in a zone of its own where possible, then the one with the fewest."""
    return min(stores, key=lambda store: (store.zone in zones, loads.get(store.name, 0), store.name))


def _replica_counts(groups: Iterable[Group]) -> Counter[str]:
    return Counter(names.node_of(name) for group in groups for name in group.wanted)


def _is_fit(cluster: Cluster, replica: str) -> bool:
    """Return whether a replica's store still has the disk that it was on, and may keep it."""
    store = cluster.store(names.node_of(replica))
    return store is not None and store.replica == replica and store.may_hold


def _is_lost(cluster: Cluster, replica: str) -> bool:
    store = cluster.store(names.node_of(replica))
    return store is None or store.replica != replica or store.state == GONE


def _has_lost(cluster: Cluster, group: Group) -> bool:
    return any(_is_lost(cluster, name) for name in group.wanted)
