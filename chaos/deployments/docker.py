"""Nodes in containers on this machine: each with a network of its own, cut by the kernel's packet filter.

Needs Docker's engine and the image that ``stormproof image`` builds. The links between nodes are real: a network
without a way out, which only this machine can reach, and rules of the packet filter in each node's own network stack.
Clients stand behind a proxy in the harness, which knows them apart, so that rules can hold for some of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from chaos.deployment import CanLimitDescriptors, CanLimitMemory, Demands
from chaos.errors import BadInput
from chaos.machines.docker import trial
from chaos.machines.docker.engine import connect_for
from chaos.machines.docker.fleet import DockerFleet
from chaos.machines.docker.heal import claimed, heal, heal_all, leftovers
from chaos.machines.lifecycle.network import NetworkDeployment
from chaos.machines.real_links import RealLinks
from chaos.node import NodeSpec

__all__ = ["DockerDeployment", "check", "claimed", "create", "heal", "heal_all", "leftovers"]


def create(*, run_id: str, directory: Path, seed: int) -> DockerDeployment:
    """Prepare; nothing runs before ``start``. ``directory`` takes the nodes' disks, traces and logs."""
    return DockerDeployment(run_id, directory.resolve(), seed)


def check(nodes: Sequence[NodeSpec], *, demands: Demands) -> None:
    """Raise :class:`chaos.errors.MachineError` where nothing could be started, as no engine answers or an image is
    missing, or where the faults need what the kernel lacks. Raise :class:`BadInput` for a node that needs what is
    outside of the cluster: the run's network leads nowhere."""
    if (outside := next((spec for spec in nodes if spec.outside), None)) is not None:
        raise BadInput(
            f"containers of a run reach only each other, and node {outside.name} needs what is outside of the cluster"
            f" ({outside.outside}): use `--on process` or `--on ssh`"
        )
    with closing(connect_for(nodes)) as client:
        trial.check(client, demands)


class DockerDeployment(NetworkDeployment):
    """Implements ``Deployment`` and all powers."""

    NAME = "docker"
    PROGRAM_LACKS = dict.fromkeys(
        (CanLimitMemory, CanLimitDescriptors),
        ("an image of others may lack what limits a process from within", "`memory_mb` of the program, or `cpu`"),
    )

    def __init__(self, run_id: str, directory: Path, seed: int) -> None:
        fleet = DockerFleet(run_id, directory)
        super().__init__(directory, seed, fleet, RealLinks(run_id, seed, fleet.run_as_root))
