"""How long a cluster of the reference system takes to be ready: 3 controllers, a name server and 3 brokers.

From the beginning of ``start`` until each node has begun its life, and until there is a master and every replica is in
sync. What stands before (reading the experiment) and after (clients) is not counted.
``python -m benchmarks.ready [--json] [--on DEPLOYMENT] [--rounds N]``
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from benchmarks._common import Figure, parser, percentile, show
from chaos import plugins
from chaos.deployment import Deployment
from chaos.driver import ClusterSpec, OnTrace
from chaos.plugins import PluginKind
from chaos.run.runner import bring_up
from drivers.reference.driver import Options, Reference

ROUNDS = 5
AIM_S = 3.0


async def measure(deployment: Deployment, begun_s: list[float], ready_s: list[float]) -> int:
    """Add seconds until all nodes have begun, and until the cluster is ready."""
    start, at_first_s = deployment.start, time.perf_counter()

    async def timed(cluster: ClusterSpec, on_trace: OnTrace) -> None:
        await start(cluster, on_trace)
        begun_s.append(time.perf_counter() - at_first_s)

    deployment.start = timed  # type: ignore[method-assign]
    try:
        await bring_up(deployment, Reference(Options(tier=False)))
        ready_s.append(time.perf_counter() - at_first_s)
    finally:
        await deployment.stop()
    return 0


def main() -> int:
    arguments = parser("ready", __doc__)
    arguments.add_argument(
        "--on", choices=["process", "netns", "docker"], default="netns", help="where (default: %(default)s)"
    )
    arguments.add_argument("--rounds", type=int, default=ROUNDS, help="(default: %(default)s)")
    given = arguments.parse_args()
    module = plugins.load(PluginKind.DEPLOYMENT, given.on)
    begun_s: list[float] = []
    ready_s: list[float] = []
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory() as folder:
            deployment = module.create(run_id=Path(folder).name, directory=Path(folder), seed=1)
            deployment.execute(measure(deployment, begun_s, ready_s))
    figures = [
        Figure(name="all nodes begun, p50", value=round(percentile(begun_s, 50), 2), unit="s"),
        Figure(name="ready, p50", value=round(percentile(ready_s, 50), 2), unit="s"),
        Figure(name="ready, longest", value=round(max(ready_s), 2), unit="s", aim=AIM_S),
    ]
    show("ready", figures, as_json=given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
