"""What the faults that switch masters have in common: whom to switch to, and how."""

from __future__ import annotations

from enum import StrEnum

from chaos.driver import CanForceSwitch, CanSwitch, ClusterView, ReplicaGroup
from chaos.fault import Injection


class Mode(StrEnum):
    """planned: to a replica that is in sync. forced: to any replica that lives, though the master lives; the system
    refuses where that would lose what it has promised to keep, and the fault then tries another one."""

    PLANNED = "planned"
    FORCED = "forced"


def power(mode: Mode) -> type:
    return CanForceSwitch if mode == Mode.FORCED else CanSwitch


def ready(group: ReplicaGroup, mode: Mode) -> list[str]:
    """Return who may take over from the leader of this group, sorted."""
    able = group.replicas if mode == Mode.FORCED else group.in_sync
    return sorted(name for name in able if name != group.leader)


def name_of(group: ReplicaGroup, view: ClusterView) -> dict[str, str]:
    """Return the name of the group for an injection's ``detail``: left out where there is only one."""
    return {"group": group.name} if len(view.groups) > 1 else {}


def group_of(injection: Injection, view: ClusterView) -> ReplicaGroup:
    """Return the group that :func:`name_of` wrote down."""
    name = injection.detail.get("group", view.groups[0].name)
    return next(group for group in view.groups if group.name == name)
