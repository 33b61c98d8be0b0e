"""What the faults that switch masters have in common: whom to switch to, and how."""

from __future__ import annotations

from enum import StrEnum

from chaos.driver import CanForceSwitch, CanSwitch, ClusterView


class Mode(StrEnum):
    """planned: to a replica that is in sync. forced: to any replica that lives, though the master lives; the system
    refuses where that would lose what it has promised to keep, and the fault then tries another one."""

    PLANNED = "planned"
    FORCED = "forced"


def power(mode: Mode) -> type:
    return CanForceSwitch if mode == Mode.FORCED else CanSwitch


def ready(view: ClusterView, mode: Mode) -> list[str]:
    """Who may take over, sorted."""
    return sorted(name for name in (view.brokers if mode == Mode.FORCED else view.in_sync) if name != view.master)
