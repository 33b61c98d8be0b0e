"""Nodes on hosts that are reached through SSH, several on one host if needed: real machines, real links.

Needs an inventory (``chaos/experiment/inventory.py``) and on each host an SSH server, Python and, for faults on links,
the right to become root. A node has ports of its own on its host, one to listen at and others to dial from, so that
the packet filter knows the links of nodes apart that share a host. Clients stand behind a proxy in the harness, as with
containers. A host that can't be reached any more takes its nodes with it, but not the run: what is to be undone there
is done as soon as it is back, and the history says that it was gone.
"""

from __future__ import annotations

from pathlib import Path

from chaos.experiment.inventory import Inventory
from chaos.machines.lifecycle.network import NetworkDeployment
from chaos.machines.real_links import RealLinks
from chaos.machines.ssh.fleet import SshFleet
from chaos.machines.ssh.heal import claimed, heal, heal_all, leftovers

__all__ = ["HEALS_BY_MARK", "SshDeployment", "claimed", "create", "heal", "heal_all", "leftovers"]

HEALS_BY_MARK = True


def create(*, run_id: str, directory: Path, seed: int, inventory: Inventory = ()) -> SshDeployment:
    """Prepare; nothing runs before ``start``. ``directory`` takes the nodes' traces and logs."""
    return SshDeployment(run_id, directory.resolve(), seed, inventory)


class SshDeployment(NetworkDeployment):
    """Implements ``Deployment`` and all powers; ``losses`` are the times when a host could not be reached."""

    NAME = "ssh"

    def __init__(self, run_id: str, directory: Path, seed: int, inventory: Inventory) -> None:
        fleet = SshFleet(run_id, directory, inventory)
        super().__init__(directory, seed, fleet, RealLinks(fleet.tag, seed, fleet.run_as_root))
