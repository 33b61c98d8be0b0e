"""How long faults take to be injected and to be healed, what shows that included: the journal, the act, the probe.

Each fault strikes a cluster that is whole: on processes, or with ``--on`` in namespaces, in containers, or on the hosts
of an inventory; without one, on the hosts that the tests use, which are containers of their own. What a fault waits
because an option says so (until bytes are old) is not counted.
``python -m benchmarks.faults [--json] [--on DEPLOYMENT] [--inventory FILE] [--rounds N] [--only FAULT,…]``
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks._common import Figure, parser, percentile, show
from chaos import plugins
from chaos.deployment import Deployment
from chaos.draws import Draws
from chaos.driver import ClusterView
from chaos.experiment import inventory
from chaos.experiment.inventory import Inventory
from chaos.experiment.model import FaultSpec, PluginUse, Schedule
from chaos.plugins import PluginKind
from chaos.run.journal import Journal
from chaos.run.nemesis_runner import NemesisRunner
from chaos.run.runner import bring_up
from drivers.reference.driver import Options, Reference
from stormproof.catalogue import entries

ROUNDS = 5
#: Seconds, for both, of 95 faults in 100.
AIM_S = 1.0
AIMS_S = {"netns": 0.5}
LASTS_S = 1.0
WHOLE_S = 60.0
POLL_S = 0.1


class Stopwatch:
    """A recorder that only notes how long each injection took."""

    def __init__(self) -> None:
        self.injected_s: list[float] = []
        self._began_s = 0.0

    def __call__(self, kind: str, **columns: Any) -> int:
        now_s = time.perf_counter()
        if columns["type"] == "invoke":
            self._began_s = now_s
        elif columns["type"] == "ok" and columns["value"]["phase"] == "inject":
            self.injected_s.append(now_s - self._began_s)
        return 0


async def whole(deployment: Deployment, driver: Reference) -> ClusterView:
    """Wait until every replica is in sync."""
    async with asyncio.timeout(WHOLE_S):
        while not (view := await driver.view(deployment)).settled:
            await asyncio.sleep(POLL_S)
    return view


async def measure(
    deployment: Deployment, directory: Path, faults: Sequence[str], rounds: int, found: dict[str, list[list[float]]]
) -> int:
    """Fill in seconds to inject and seconds to heal, by fault."""
    driver = Reference(Options())
    try:
        await bring_up(deployment, driver)
        for number in range(rounds):
            for name in faults:
                view = await whole(deployment, driver)
                watch = Stopwatch()
                options = plugins.options_class(plugins.load(PluginKind.FAULT, name))()
                waits_s = getattr(options, "age_s", 0.0)
                use = PluginUse(kind=PluginKind.FAULT, name=name, options=options)
                nemesis = NemesisRunner(
                    [FaultSpec(use=use, schedule=Schedule(at_s=(0.0,)))],
                    deployment=deployment,
                    driver=driver,
                    record=watch,
                    journal=Journal(directory, durable=True),
                    view=lambda view=view: view,  # type: ignore[misc]
                    draws=Draws(number),
                )
                await nemesis.run(LASTS_S)
                began_s = time.perf_counter()
                await nemesis.heal()
                times = found.setdefault(name, [[], []])
                times[0] += [max(0.0, seconds - waits_s) for seconds in watch.injected_s]
                times[1] += [time.perf_counter() - began_s] if watch.injected_s else []
    finally:
        await deployment.stop()
    return 0


@contextmanager
def hosts(on: str, file: Path | None, folder: Path) -> Iterator[dict[str, Inventory]]:
    """Yield what a deployment on hosts is given besides; those of the tests are gone afterwards."""
    if on != "ssh":
        yield {}
    elif file is not None:
        yield {"inventory": inventory.load(file)}
    else:
        from chaos.machines.docker.engine import connect
        from tests.chaos.deployments import ssh_hosts

        engine = connect()
        made = ssh_hosts.start(engine, folder, ssh_hosts.COUNT)
        try:
            yield {"inventory": made.inventory()}
        finally:
            made.remove()
            engine.close()


def main() -> int:
    arguments = parser("faults", __doc__)
    arguments.add_argument(
        "--on", choices=["process", "netns", "docker", "ssh"], default="process", help="where (default: process)"
    )
    arguments.add_argument("--rounds", type=int, default=ROUNDS, help="of each fault (default: %(default)s)")
    arguments.add_argument("--inventory", type=Path, help="the hosts of --on ssh")
    arguments.add_argument("--only", default="", help="these faults, with commas between them (default: all)")
    given = arguments.parse_args()
    faults = [one.name for one in entries() if one.deployments.get(given.on) == "" and one.undo]
    wanted = [*filter(None, given.only.split(","))]
    if unknown := [name for name in wanted if name not in faults]:
        arguments.error(f"--only: {given.on} has no fault {', '.join(unknown)}; it has {', '.join(faults)}")
    faults = [name for name in faults if name in wanted or not wanted]
    found: dict[str, list[list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        module = plugins.load(PluginKind.DEPLOYMENT, given.on)
        with hosts(given.on, given.inventory, directory) as options:
            deployment = module.create(run_id=directory.name, directory=directory, seed=1, **options)
            deployment.execute(measure(deployment, directory, faults, given.rounds, found))
    figures = []
    for place, what in enumerate(("inject", "heal")):
        for name, times in found.items():
            if times[place]:
                figures.append(Figure(name=f"{what} {name}, longest", value=round(max(times[place]), 3), unit="s"))
        every = [seconds for times in found.values() for seconds in times[place]]
        aim = AIMS_S.get(given.on, AIM_S)
        p95_s = round(percentile(every, 95), 3)
        figures.append(Figure(name=f"{what} ({len(every)} times), p95", value=p95_s, unit="s", aim=aim))
    show("faults", figures, as_json=given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
