"""How many messages a second the split system acknowledges on processes, beside the replicated reference brokers.

Both run with few queues (4) and with many (64, for the split system in 64 groups), in turns, with the same pipelined
clients (:mod:`benchmarks.sends`); the figure is the ratio of the medians. Many queues have as many sends under way in
all as few, which is two in each, and then as many in each as few. A group's records are logged together if they come
together, so that the split system gains by the latter.
``python -m benchmarks.split_sends [--json] [--rounds N] [--duration-s S]``
"""

from __future__ import annotations

import sys
from statistics import median

from benchmarks._common import Figure, parser, percentile, show
from benchmarks.sends import CLIENTS, DEPTH, Bench, measure
from chaos.driver import Driver
from drivers.reference.driver import Options as ReferenceOptions
from drivers.reference.driver import Reference
from drivers.split import Options as SplitOptions
from drivers.split.driver import Split

ROUNDS, DURATION_S = 3, 6.0
#: How many queues, how many sends each client has under way, and how much of the reference system's rate is asked of
#: the split one.
LOADS = ((4, DEPTH, 0.7), (64, DEPTH, 0.5), (64, 16 * DEPTH, 0.5))
GROUPS = 64


def systems(queues: int) -> dict[str, Driver]:
    """Return what is compared, by name."""
    return {
        "reference": Reference(ReferenceOptions(queues=queues)),
        "split": Split(SplitOptions(stores=3, brokers=2, groups=GROUPS, slices=4, queues=queues)),
    }


def main() -> int:
    arguments = parser("split_sends", __doc__)
    arguments.add_argument("--rounds", type=int, default=ROUNDS, help="of each (default: %(default)s)")
    arguments.add_argument("--duration-s", type=float, default=DURATION_S, help="(default: %(default)s)")
    given = arguments.parse_args()
    figures = []
    for queues, depth, aim in LOADS:
        load = f"{queues}_queues_{CLIENTS * depth}"
        runs: dict[str, list[Bench]] = {}
        for _ in range(given.rounds):
            for name, driver in systems(queues).items():
                runs.setdefault(name, []).append(measure(driver, CLIENTS, depth, given.duration_s))
        rates = {name: median(len(run.latencies_s) / run.seconds for run in found) for name, found in runs.items()}
        ratio = round(rates["split"] / rates["reference"], 2)
        figures.append(Figure(name=f"{load}_ratio", value=ratio, unit="", aim=aim, more_is_better=True))
        for name, found in runs.items():
            latencies_s = [one for run in found for one in run.latencies_s]
            used_s = sum(run.processor_s for run in found) / len(latencies_s)
            figures += [
                Figure(name=f"{load}_{name}_per_s", value=round(rates[name]), unit=""),
                Figure(name=f"{load}_{name}_processor_per_send", value=round(used_s * 1e6), unit="µs"),
                Figure(name=f"{load}_{name}_p50", value=round(percentile(latencies_s, 50) * 1e3, 1), unit="ms"),
                Figure(name=f"{load}_{name}_p99", value=round(percentile(latencies_s, 99) * 1e3, 1), unit="ms"),
            ]
    show("split_sends", figures, as_json=given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
