"""The controller's two modes on the same machine with the same load: ``classic`` (one request at a time, on the leader
only, as RocketMQ's controller works) and ``parallel`` (the default).

Each has a cluster of three processes with real connections and real syncs. Short phases of load alternate between them:

* writes: 64 at a time, each a replica that registers again;
* reads: 64 at a time, each of one group's replicas (``parallel``: over all three controllers);
* mixed: 50 reads a second beside 32 writes at a time.

The brokers of all groups (three each) send heartbeats to each controller meanwhile: once a second up to 100 groups, and
300 a second in all where there are more. A read is linearizable in both: ``classic`` logs an entry for it.

``python -m benchmarks.controller [--groups N] [--seconds S] [--rounds N] [--json]``. ``seconds`` is how long each mode
is loaded. ``ratio_writes`` and ``ratio_reads`` are throughputs, ``ratio_p99`` the p99 of the mixed phase's reads, each
``parallel`` over ``classic``.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path

from benchmarks._common import Figure, machine, parser, percentile, show
from benchmarks.controllers.bench import INFO, MIXED, REGISTER, Bench, Phase
from benchmarks.controllers.cluster import ReferenceCluster
from reference.controller.dispatch import CLASSIC, PARALLEL

MODES = (CLASSIC, PARALLEL)
#: What the phases are called here.
PHASES = {"writes": REGISTER, "reads": INFO, "mixed": MIXED}
ROUNDS = 2
AIMS = {"ratio_writes": (10.0, True), "ratio_reads": (10.0, True), "ratio_p99": (0.2, False)}


async def _measure(groups: int, seconds: float, rounds: int, folder: Path) -> dict[str, Bench]:
    benches = {mode: Bench(ReferenceCluster(mode, folder / mode), groups) for mode in MODES}
    async with AsyncExitStack() as stack:
        for bench in benches.values():
            stack.callback(bench.end)
            await bench.begin()
        for _ in range(rounds):
            for name in PHASES.values():
                for bench in benches.values():
                    await bench.run(name, seconds / rounds / len(PHASES))
    return benches


def measure(groups: int, seconds: float, rounds: int) -> dict[str, Bench]:
    """Both modes under the same load; ``seconds`` of load each. Raises ``RuntimeError`` if a controller ends."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(groups, seconds, rounds, Path(folder)))


def figures(benches: dict[str, Bench]) -> list[Figure]:
    """Return all figures. Raises ``RuntimeError`` if nothing was answered in some phase."""
    found = []
    for mode, bench in benches.items():
        for name, phase in PHASES.items():
            found += _of_phase(f"{mode}_{name}", bench.phases[phase])
        found.append(Figure(name=f"{mode}_group_memory", value=round(bench.group_bytes / 1024, 1), unit="KiB"))
    classic, parallel = ({name: benches[mode].phases[phase] for name, phase in PHASES.items()} for mode in MODES)
    p99 = percentile(parallel["mixed"].tally.latencies_s, 99) / percentile(classic["mixed"].tally.latencies_s, 99)
    ratios = {name: parallel[name].per_s / classic[name].per_s for name in ("writes", "reads")} | {"p99": p99}
    for name, value in ratios.items():
        aim, more_is_better = AIMS[f"ratio_{name}"]
        found.append(
            Figure(name=f"ratio_{name}", value=round(value, 3), unit="", aim=aim, more_is_better=more_is_better)
        )
    return found


def _of_phase(name: str, phase: Phase) -> list[Figure]:
    if not phase.tally.latencies_s:
        raise RuntimeError(
            f"{name}: no request was answered as it should be, but with {phase.tally.refused or 'nothing'}"
        )
    made = [
        Figure(name=f"{name}_per_s", value=round(phase.per_s, 1), unit="/s"),
        Figure(name=f"{name}_refused", value=sum(phase.tally.refused.values()), unit=""),
    ]
    if not name.endswith("mixed"):  # there the writes have their share
        made.append(Figure(name=f"{name}_processor", value=round(phase.processor_us), unit="us"))
    for percent in (50, 99):
        value = round(1000 * percentile(phase.tally.latencies_s, percent), 2)
        made.append(Figure(name=f"{name}_p{percent}", value=value, unit="ms"))
    return made


def _json(found: Sequence[Figure]) -> str:
    """One object, with the ratios as members of their own."""
    ratios = {figure.name: figure.value for figure in found if figure.name in AIMS}
    rows = [{**asdict(figure), "reached": figure.reached} for figure in found]
    return json.dumps({"benchmark": "controller", "machine": machine(), **ratios, "figures": rows})


def main() -> int:
    arguments = parser("controller", __doc__)
    arguments.add_argument("--groups", type=int, default=100, help="broker groups (default: %(default)s)")
    arguments.add_argument("--seconds", type=float, default=10, help="load for each mode (default: %(default)s)")
    arguments.add_argument("--rounds", type=int, default=ROUNDS, help="slices of each phase (default: %(default)s)")
    given = arguments.parse_args()
    if given.groups < 1 or given.seconds <= 0 or given.rounds < 1:
        arguments.error("--groups and --rounds must be 1 or more, --seconds more than 0")
    found = figures(measure(given.groups, given.seconds, given.rounds))
    if given.json:
        print(_json(found))
    else:
        show("controller", found, as_json=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
