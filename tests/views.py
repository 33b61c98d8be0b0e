"""Views of clusters for tests of what chooses from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from chaos.driver import ClusterView, ReplicaGroup


def one_group(
    brokers: tuple[str, ...] = (),
    *,
    master: str = "",
    epoch: int = -1,
    in_sync: tuple[str, ...] = (),
    **others: Any,
) -> ClusterView:
    """The view of a system with a single group; ``others`` are the further fields of :class:`ClusterView`."""
    group = ReplicaGroup(name="broker-a", replicas=brokers, leader=master, epoch=epoch, in_sync=in_sync)
    return ClusterView(groups=(group,), **others)


def changed(view: ClusterView, **fields: Any) -> ClusterView:
    """A view of a single group with other fields of the view or, under the names of :func:`one_group`, of the group."""
    names = {"brokers": "replicas", "master": "leader", "epoch": "epoch", "in_sync": "in_sync"}
    own = {names[name]: value for name, value in fields.items() if name in names}
    others = {name: value for name, value in fields.items() if name not in names}
    return replace(view, groups=(replace(view.groups[0], **own),), **others)
