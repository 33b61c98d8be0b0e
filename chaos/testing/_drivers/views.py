"""What a driver's view of its cluster may not say."""

from __future__ import annotations

from collections.abc import Iterator, Set

from chaos.driver import ClusterView, ReplicaGroup


def problems_of(view: ClusterView, nodes: Set[str]) -> Iterator[str]:
    """Yield what is wrong with a view of a cluster that has these nodes."""
    if not view.groups:
        yield "view names no group, so no fault finds a broker; a system without leaders still has replicas"
    names = [group.name for group in view.groups]
    if len(set(names)) < len(names):
        yield f"view has two groups of the same name: {', '.join(names)}"
    for group in view.groups:
        yield from _problems_of_group(group)
    known = {*view.brokers, *view.controllers, *view.others, *view.tier}
    for name in sorted(known - nodes):
        yield f"view names {name}, which is not a node of the cluster"
    for name in sorted(nodes - known):
        yield f"view names {name} nowhere, so no fault can choose it"
    if view.controller_leader and view.controller_leader not in view.controllers:
        yield f"view: controller_leader {view.controller_leader} is not among the controllers"
    for name in view.newcomers:
        if name in nodes:
            yield f"view: newcomer {name} is a node of the cluster already"
    if view.settled:
        for group in view.groups:
            missing = sorted(set(group.replicas) - set(group.in_sync))
            if not group.leader:
                yield f"view is settled though group {group.name} has no leader"
            if missing:
                yield f"view is settled though {', '.join(missing)} of group {group.name} is not in sync"
    if view.asked_ns != -1:
        yield "view sets asked_ns; the runner does that"


def _problems_of_group(group: ReplicaGroup) -> Iterator[str]:
    if not group.replicas:
        yield f"view: group {group.name} has no replicas"
    if len(set(group.replicas)) < len(group.replicas):
        yield f"view: group {group.name} names a replica twice"
    if group.leader and group.leader not in group.replicas:
        yield f"view: leader {group.leader} of group {group.name} is not among its replicas"
    if group.leader and group.epoch < 0:
        yield f"view: group {group.name} has a leader but no epoch; an older view could then replace a newer one"
    for name in group.in_sync:
        if name not in group.replicas:
            yield f"view: {name} is in sync in group {group.name}, but not among its replicas"


def regressions(before: ClusterView, after: ClusterView) -> Iterator[str]:
    """Yield what has happened from one view to the next one and may not."""
    later = {group.name: group for group in after.groups}
    for group in before.groups:
        now = later.get(group.name)
        if now is None:
            yield f"view: group {group.name} has gone; names of groups must stay the same"
        elif -1 < now.epoch < group.epoch:
            yield f"view: the epoch of group {group.name} went back from {group.epoch} to {now.epoch}"
        elif now.epoch == group.epoch and now.leader and group.leader and now.leader != group.leader:
            yield f"view: epoch {now.epoch} of group {group.name} has two leaders, {group.leader} and {now.leader}"
