"""How fast the simulator is: virtual seconds per second of real time.

The cluster is the reference system: three controllers, a name server, three brokers and an object store, with 100
operations per second, every trace row recorded. With ``--system split`` it is the split one: three meta nodes, a name
server, three stores with eight groups, two brokers and an object store. ``python -m benchmarks.sim_speed [--json]``
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from benchmarks._common import Figure, parser, show
from chaos.deployments import sim
from chaos.experiment.model import Experiment, PluginUse
from chaos.history.recorder import Recorder
from chaos.plugins import PluginKind, load
from chaos.run import runner

DURATION_S = 60.0
#: By system: how it is set up, and how fast its simulation is to be.
SYSTEMS: Mapping[str, tuple[Mapping[str, int], float]] = {
    "reference": ({"controllers": 3, "nameservers": 1, "brokers": 3}, 50.0),
    "split": ({"metas": 3, "nameservers": 1, "stores": 3, "groups": 8, "brokers": 2}, 15.0),
}
BATCH_ROWS = 8_192


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """``virtual_s`` covers the whole run, from the start of the servers to their end; ``cpu_s`` is this process's own
    share of ``seconds``, which says more on a busy machine."""

    virtual_s: float
    seconds: float
    cpu_s: float
    rows: int
    virtual_s_per_s: float
    recovered: bool


def use(kind: PluginKind, name: str, **options: object) -> PluginUse:
    return PluginUse(kind=kind, name=name, options=load(kind, name).Options(**options))


def measure(system: str, duration_s: float, seed: int) -> Speed:
    """Run once, without faults."""
    experiment = Experiment(
        name="sim_speed",
        system=use(PluginKind.DRIVER, system, **SYSTEMS[system][0]),
        duration_s=duration_s,
        workloads=(use(PluginKind.WORKLOAD, "queue", rate_per_s=100.0),),
    )
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        deployment = sim.create(run_id="sim_speed", directory=directory, seed=seed)
        with closing(Recorder(directory, deployment.now_ns, batch_rows=BATCH_ROWS, batch_ns=None)) as recorder:
            began, began_cpu = time.perf_counter(), time.process_time()
            summary = runner.run(
                experiment,
                deployment=deployment,
                driver=experiment.system.build(),
                directory=directory,
                seed=seed,
                recorder=cast(Any, recorder),
            )
            seconds, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
            rows = len(recorder)
    virtual_s = deployment.now_ns() / 1e9
    return Speed(
        virtual_s=round(virtual_s, 3),
        seconds=round(seconds, 3),
        cpu_s=round(cpu_s, 3),
        rows=rows,
        virtual_s_per_s=round(virtual_s / seconds, 1),
        recovered=summary.recovered,
    )


def main() -> int:
    arguments = parser("sim_speed", __doc__)
    arguments.add_argument(
        "--duration-s", type=float, default=DURATION_S, help="seconds of load (default: %(default)s)"
    )
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--system", choices=[*SYSTEMS], default="reference")
    given = arguments.parse_args()
    speed = measure(given.system, given.duration_s, given.seed)
    figures = [
        Figure(
            name="virtual_s_per_s",
            value=speed.virtual_s_per_s,
            unit="",
            aim=SYSTEMS[given.system][1],
            more_is_better=True,
        ),
        Figure(name="virtual_s_per_cpu_s", value=round(speed.virtual_s / speed.cpu_s, 1), unit=""),
        Figure(name="virtual", value=speed.virtual_s, unit="s"),
        Figure(name="wall", value=speed.seconds, unit="s"),
        Figure(name="processor", value=speed.cpu_s, unit="s"),
        Figure(name="rows", value=speed.rows, unit=""),
    ]
    show("sim_speed", figures, as_json=given.json)
    return 0 if speed.recovered else 1


if __name__ == "__main__":
    sys.exit(main())
