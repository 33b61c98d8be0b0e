"""Nodes as operating-system processes on this machine, under a supervisor, with every link through its proxy.

Works on Linux, without root and without containers. Nodes, proxies and clients listen on and dial 127.0.0.1 alone, on
ports that the system chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chaos.deployment import Demands
from chaos.effects.links import ACTIONS
from chaos.machines.local import power_cuts
from chaos.machines.local.fleet import LocalFleet, ProxyLinks
from chaos.machines.local.heal import claimed, heal, heal_all, leftovers
from chaos.machines.local.power_cuts import CutsPower
from chaos.node import NodeSpec

__all__ = ["ProcessDeployment", "check", "claimed", "create", "heal", "heal_all", "leftovers"]


def create(*, run_id: str, directory: Path, seed: int) -> ProcessDeployment:
    """Prepare; nothing runs before ``start``. ``directory`` takes the nodes' disks, traces and logs."""
    return ProcessDeployment(run_id, directory.absolute(), seed)


def check(nodes: Sequence[NodeSpec], *, demands: Demands) -> None:
    """Raise :class:`chaos.errors.MachineError` where this machine lacks what the faults need."""
    power_cuts.check(nodes, demands)


class ProcessDeployment(CutsPower):
    """Implements ``Deployment`` and all powers but that over clocks."""

    NAME = "process"
    LINK_ACTIONS = frozenset(ACTIONS.values())

    def __init__(self, run_id: str, directory: Path, seed: int) -> None:
        fleet = LocalFleet(run_id, directory, seed)
        super().__init__(directory, seed, fleet, ProxyLinks(fleet))
        self._local = fleet
