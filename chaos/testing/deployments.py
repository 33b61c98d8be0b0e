"""Does a deployment keep to what :mod:`chaos.deployment` asks of it? To be called from a test.

from chaos.testing import check_deployment

def test_the_deployment(tmp_path: Path) -> None:
    check_deployment(racks.create, tmp_path, heal=racks.heal)
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Awaitable, Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from chaos.deployment import (
    CanKill,
    CanPause,
    CanProbe,
    CanReadFiles,
    CanRuleLinks,
    CanTerminate,
    CanWipe,
    Deployment,
)
from chaos.errors import ChaosError
from chaos.testing._deployments import powers
from chaos.testing._deployments.world import NODES, SAYS, ZERO, World, cluster

#: So long a harness may take to bring two nodes up, until it is killed.
BEGIN_S = 120.0
#: The folders of the two runs: the whole check, and the one whose harness is killed.
RUNS = ("check", "healed")
#: Each power, and what shows that it does what it promises, in this order. Links between nodes that are programs are
#: ruled only where ``PROGRAM_LINKS`` says so.
CHECKS: Sequence[tuple[type, Callable[[World, Any], Awaitable[None]]]] = (
    (CanPause, powers.paused),
    (CanKill, powers.killed),
    (CanTerminate, powers.terminated),
    (CanWipe, powers.wiped),
    (CanRuleLinks, powers.client_cut),
    (CanRuleLinks, powers.nodes_cut),
    (CanReadFiles, powers.files_read),
)


class Create(Protocol):
    """What a deployment's module calls ``create``; with other arguments bound, where it has any."""

    def __call__(self, *, run_id: str, directory: Path, seed: int) -> Deployment: ...


def check_deployment(
    create: Create, directory: Path, *, heal: Callable[[Path], list[str]] | None = None
) -> tuple[str, ...]:
    """Start two small servers, which are programs, use each power of the deployment on them, and stop.

    ``directory`` takes the two runs of the check, in folders of their own. What is looked at:

    * ``start`` returns when the nodes serve, at the addresses that templates name; ``stop`` ends them, may be
      repeated, and leaves their logs (``logs/NODE.log``) and the files to keep (``kept/NODE/``) in the directory;
    * pause, kill, terminate, wipe, cuts of links, and reading of files: what each does is seen from outside, it
      concerns no other node, and it raises ``NotNow`` where it has to;
    * what :class:`chaos.deployment.CanProbe` says agrees with that, before, meanwhile and after;
    * every undo works, may be repeated, and does nothing where there is nothing to undo;
    * with ``heal``: a harness that was killed in a fault leaves nothing that it does not end. ``create`` must be a
      function that another process can import, or a ``functools.partial`` of one.

    Raises ``AssertionError`` with everything that is wrong. Returns the powers that this deployment doesn't have.
    """
    for name in RUNS:
        (directory / name).mkdir(parents=True)
    host = create(run_id=RUNS[0], directory=directory / RUNS[0], seed=1)
    world = World(host)

    async def main() -> int:
        try:
            await host.start(cluster(), lambda row: None)
            await _use_powers(world)
        finally:
            for _ in range(2):
                await host.stop()
        return 0

    host.execute(main())
    _check_files(world, directory / RUNS[0])
    if heal is None:
        world.unchecked.append("heal")
    else:
        _check_heal(world, create, directory / RUNS[1], heal)
    if world.problems:
        listed = "\n".join(f"- {problem}" for problem in world.problems)
        raise AssertionError(f"the deployment {host.name} has {len(world.problems)} problems:\n{listed}")
    return tuple(world.unchecked)


async def _use_powers(world: World) -> None:
    await powers.started(world)
    if not isinstance(world.it, CanProbe):
        world.unchecked.append(CanProbe.__name__)
    for power, check in CHECKS:
        if not isinstance(world.it, power):
            world.unchecked.append(power.__name__)
        elif check is powers.nodes_cut and not getattr(world.it, "PROGRAM_LINKS", False):
            world.unchecked.append("links between nodes that are programs")
        else:
            try:
                await check(world, world.it)
            except (ChaosError, OSError, TimeoutError) as error:
                world.require(False, f"{check.__name__}: {type(error).__name__}: {error}")
                return  # what comes after it would only show the same
    if crashes := getattr(world.it, "crashes", ()):
        world.require(False, f"it says that nodes died of an error of their own: {', '.join(map(str, crashes))}")


def _check_files(world: World, directory: Path) -> None:
    """Check what must be left of a run that has ended."""
    for node in NODES:
        log = directory / "logs" / f"{node}.log"
        world.require(log.is_file() and SAYS in log.read_text("utf-8"), f"logs/{node}.log lacks what {node} has said")
        kept = directory / "kept" / node / "conf" / "others.json"
        world.require(kept.is_file() and NODES[1] in kept.read_text("utf-8"), f"kept/{node} lacks conf/others.json")


def _check_heal(world: World, create: Create, directory: Path, heal: Callable[[Path], list[str]]) -> None:
    """Kill a harness while a node is held still, then heal what it has left."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    harness = context.Process(target=_abandon, args=(create, directory, sender))
    harness.start()
    sender.close()
    try:
        begun = receiver.recv() if receiver.poll(BEGIN_S) else ""
    except EOFError:
        begun = ""
    if begun:
        world.require(
            "still" in " ".join(heal(directory)), "heal does not say that a living harness still drives the run"
        )
    harness.kill()
    harness.join()
    world.require(begun, "a second run of it did not come up, so heal was not checked")
    done = heal(directory)
    world.require(done or not begun, "heal says that it has done nothing, though a harness was killed in a fault")
    world.require(heal(directory) == [], "heal finds something to do again after it has healed")


def _abandon(create: Create, directory: Path, sender: Connection) -> None:
    """Be the harness that is killed, once it has brought nodes up and holds one of them still."""
    host = create(run_id=directory.name, directory=directory, seed=1)

    async def main() -> int:
        await host.start(cluster(), lambda row: None)
        if isinstance(host, CanPause):
            await host.pause(ZERO)
        sender.send("paused")
        await asyncio.sleep(BEGIN_S)
        return 0

    host.execute(main())
