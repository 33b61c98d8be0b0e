"""A cluster that runs already and that Stormproof did not start.

It is the containers of a Docker Compose project, or programs on hosts behind SSH. The experiment's ``attach`` says
which project it is, and which of its services is which node of the driver; or which host has which node, and how its
program is found and started there. Nodes are killed, paused and cut off, and are then as they were: nothing is removed,
wiped, limited or added, and when the run has ended the cluster runs on. Containers are found by Compose's labels; links
are cut in each container's own network, by a helper beside it, so that nothing needs to be installed in it. On hosts
they are cut by chains of our own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from chaos.deployment import (
    CanAddNodes,
    CanHarmDisks,
    CanLimitDescriptors,
    CanLimitMemory,
    CanReplaceNodes,
    CanRollBackDisks,
    CanSlowProcessors,
    CanWipe,
)
from chaos.driver import (
    CanAddBrokers,
    CanBreakTier,
    CanChangeControllers,
    CanDrain,
    CanRemoveBrokers,
    ClusterSpec,
    OnTrace,
)
from chaos.effects.links import Drop, Reset, Stall, Throttle
from chaos.errors import BadInput, DeploymentError, HostLost
from chaos.experiment.attached import Attach
from chaos.experiment.inventory import Inventory
from chaos.machines import real_links
from chaos.machines.attach import host_left, left
from chaos.machines.attach.fleet import AttachedFleet
from chaos.machines.attach.host_fleet import HostFleet, placed
from chaos.machines.attach.project import find
from chaos.machines.docker.engine import connect
from chaos.machines.healing.left import Claim
from chaos.machines.healing.runs import each
from chaos.machines.lifecycle.deployment import MachineDeployment
from chaos.machines.machine import Links
from chaos.machines.real_links import RealLinks
from chaos.node import NodeSpec
from chaos.program import Answers, Program

__all__ = ["HEALS_BY_MARK", "AttachDeployment", "check", "claimed", "create", "heal", "heal_all", "leftovers"]

HEALS_BY_MARK = True

_DISK = "it is not ours: nothing of its disk is wiped or changed", "`kill`, or `--on docker`, which starts a copy"
_LIMITS = "it is not ours, and its limits are its owner's", "`pause`, or `--on docker`, which starts a copy"
_MEMBERS = "it is not ours: no node is added, removed or replaced", "`kill`, or `--on docker`, which starts a copy"
#: What stands for the command of a node, which only its owner knows.
ITS_OWNERS = "as its owner has started it"
#: A node that runs already is ready soon, or it isn't well.
READY_S = 10.0


def check(nodes: Sequence[NodeSpec], *, attach: Attach, inventory: Inventory = ()) -> None:
    """Raise :class:`BadInput`, before anything is written, with all that keeps a run from attaching to it. On hosts it
    is known only once they are reached whether the programs run."""
    if attach.programs:
        placed(attach, _programs(nodes), inventory)
        return
    with closing(connect()) as client:
        find(client, attach, _programs(nodes), cuts=False)


def create(
    *, run_id: str, directory: Path, seed: int, attach: Attach | None = None, inventory: Inventory = ()
) -> AttachDeployment:
    """Prepare; nothing is touched before ``start``."""
    directory, attach = directory.resolve(), attach or Attach()
    on_hosts = bool(attach.programs)
    fleet = HostFleet(run_id, directory, attach, inventory) if on_hosts else AttachedFleet(run_id, directory, attach)
    return AttachDeployment(directory, seed, fleet)


def heal(run_directory: Path) -> list[str]:
    """Have the cluster be as it was before a killed harness hurt it; what was done, in sentences."""
    return [*left.heal(run_directory), *host_left.heal(run_directory)]


def heal_all(runs_root: Path) -> list[str]:
    """Heal every run in this folder and below it, as :func:`heal` does."""
    return each(lambda heal_runs: heal_runs(runs_root), [left.heal_all, host_left.heal_all])


def leftovers(runs_root: Path) -> list[str]:
    """Return what :func:`heal_all` would do, in sentences."""
    found = [*left.ProjectLeft.below(runs_root), *host_left.ProgramsLeft.below(runs_root)]
    return [line for _, one in found for line in one.lines()]


def claimed(run_directory: Path, made: Path, inventory: Inventory) -> Claim:
    """Return what healing this run would do if what it says of itself is true, with the keys of this inventory."""
    run = run_directory.resolve()
    one, other = left.ProjectLeft.claim(run), host_left.ProgramsLeft.claim(run, inventory)
    return Claim(lines=[*one.lines, *other.lines], left={**one.left, **other.left})


class AttachDeployment(MachineDeployment):
    """Implements ``Deployment`` and the powers to kill, pause and cut links. ``losses`` is what others did to the
    nodes meanwhile, and when hosts could not be reached."""

    NAME = "attach"
    #: Nothing is started here: nodes must be programs of others, and `up` has nothing to do.
    STARTS = False
    PROGRAM_LINKS = True
    LINK_ACTIONS: frozenset[type] = frozenset({Drop, Reset, Stall, Throttle})
    CLIENT_LINK_ACTIONS = real_links.CLIENT_LINK_ACTIONS
    PROGRAM_LACKS = {
        **dict.fromkeys((CanWipe, CanHarmDisks, CanRollBackDisks), _DISK),
        **dict.fromkeys((CanSlowProcessors, CanLimitMemory, CanLimitDescriptors), _LIMITS),
        **dict.fromkeys(
            (CanAddNodes, CanAddBrokers, CanRemoveBrokers, CanChangeControllers, CanDrain, CanReplaceNodes), _MEMBERS
        ),
        CanBreakTier: ("a harness that is killed could not undo it", "faults on its links"),
    }

    def __init__(self, directory: Path, seed: int, fleet: AttachedFleet | HostFleet) -> None:
        self._attached = fleet
        self._real_links = RealLinks(fleet.tag, seed, fleet.run_as_root)
        links: Links = self._real_links
        super().__init__(directory, seed, fleet, links)
        self._settling = asyncio.Lock()
        self._taken: dict[str, str] = {}
        fleet.on_life = self._settle

    def expect_link_actions(self, actions: frozenset[type]) -> None:
        self._attached.cuts = bool(actions)
        self._real_links.expect(actions)

    async def start(self, cluster: ClusterSpec, on_trace: OnTrace) -> None:
        programs = _programs(cluster.nodes)
        taken = [replace(spec, program=_running(programs[spec.name])) for spec in cluster.nodes]
        await super().start(replace(cluster, nodes=taken), on_trace)

    async def _first_life(self, name: str) -> None:
        """Wait until a node, which lives already, is ready."""
        program = self._programs.of(name)
        assert program is not None, "checked before"
        self._incarnations[name] = 1
        if not await self._program_begun(name, program):
            raise DeploymentError(f"node {name} ended while the run attached to it")

    async def _program_begun(self, name: str, program: Program) -> bool:
        with suppress(HostLost):  # it has ended at once, or was removed: that is seen in its life
            await self._settle(name)
        return await super()._program_begun(name, program)

    async def _settle(self, name: str) -> None:
        """Take in a node that has begun a life: it has another network, perhaps another address, and the rules that
        stand must hold for it again. Raises :class:`HostLost` while it is down."""
        async with self._settling:
            machine = self._attached.machines[name]
            seat = await self._off(self._attached.seat, name)
            if self._taken.get(name) == machine.life:
                return
            self._seats[name] = seat
            assert seat.address is not None
            with machine.settling():
                await self._real_links.move(name, seat.address, seat.endpoint)
            await self._programs.serve(name)
            self._taken[name] = machine.life

    async def add(self, spec: NodeSpec) -> Mapping[str, object]:
        raise DeploymentError("a cluster that was attached gets no nodes of ours")

    async def wipe(self, node: str) -> Mapping[str, object]:
        raise DeploymentError("nothing of a cluster that was attached is wiped")


def _programs(nodes: Sequence[NodeSpec]) -> dict[str, Program]:
    """Return the program of each node. Raises :class:`BadInput` for nodes that only Stormproof itself can start."""
    if ours := [spec.name for spec in nodes if spec.program is None]:
        raise BadInput(
            f"attach takes programs that run already, and node {ours[0]} is a Python package that a deployment hosts"
        )
    return {spec.name: spec.program for spec in nodes if spec.program is not None}


def _running(program: Program) -> Program:
    """Return the program as it is found: its log may have lost the line that said that it is ready, its command and its
    files are its owner's, and nothing need be installed here."""
    ready = program.ready if isinstance(program.ready, Answers) else None
    return replace(program, argv=(ITS_OWNERS,), files={}, env={}, ready=ready, keep=(), recipe=None, begin_s=READY_S)
