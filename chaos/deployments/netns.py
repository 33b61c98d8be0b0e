"""Nodes in network namespaces of this machine: real addresses and packets, without root and without containers.

Works on Linux where ordinary users may make user namespaces, or as root; needs the tools ip, iptables and tc. A node is
a process as on ``process``, in a network of its own that only this run can reach: the kernel's packet filter and its
traffic control rule the links between nodes. Clients stand behind a proxy in the harness, as with containers, and their
connections begin in the run's network too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chaos.deployment import Demands
from chaos.machines.lifecycle.network import NetworkDeployment
from chaos.machines.local import power_cuts
from chaos.machines.local.heal import claimed, heal, heal_all, leftovers
from chaos.machines.local.power_cuts import CutsPower
from chaos.machines.netns import trial
from chaos.machines.netns.fleet import NetnsFleet
from chaos.machines.netns.trial import outlook
from chaos.machines.real_links import RealLinks
from chaos.node import NodeSpec

__all__ = ["NetnsDeployment", "check", "claimed", "create", "heal", "heal_all", "leftovers", "outlook"]


def create(*, run_id: str, directory: Path, seed: int) -> NetnsDeployment:
    """Prepare; nothing runs before ``start``. ``directory`` takes the nodes' disks, traces and logs."""
    return NetnsDeployment(run_id, directory.absolute(), seed)


def check(nodes: Sequence[NodeSpec], *, demands: Demands) -> None:
    """Raise :class:`chaos.errors.MachineError` where this machine gives no namespaces, or lacks what the faults need in
    them."""
    trial.check(demands)
    power_cuts.check(nodes, demands)


class NetnsDeployment(CutsPower, NetworkDeployment):
    """Implements ``Deployment`` and all powers."""

    NAME = "netns"

    def __init__(self, run_id: str, directory: Path, seed: int) -> None:
        fleet = NetnsFleet(run_id, directory, seed)
        super().__init__(directory, seed, fleet, RealLinks(run_id, seed, fleet.run_as_root, fleet.open))
        self._local = fleet
