"""How small planted bugs become: ``python -m benchmarks.shrinking [MUTANT…] [--seed N] [--within S]``.

Each mutant (all those of the quickstart, unless some are named) fails in its scenario with the seed, and the failure is
shrunk. Prints a row of the table in ``docs/shrink.md`` for each; what fails the aims is marked.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path

from benchmarks.mutants import EXAMPLES, QUICKSTART, scenario
from chaos.errors import BadInput
from chaos.experiment.reader import load
from reference.mutants import MUTANTS, Planted
from stormproof.judge import Engine, judge
from stormproof.launch import SIM, Launch
from stormproof.shrinking import minimal
from stormproof.shrinking.shrink import replayed, shrink
from stormproof.shrinking.trial import record

HEAD = """\
| mutant | signature | operations | faults | nodes | load, s | tried | took, s | of processors, s |
|---|---|---|---|---|---|---|---|---|
"""
#: The aim: at least this share of the operations is gone.
AIM = 0.8
WITHIN_S = 300.0


def row(planted: Planted, seed: int, within_s: float, out: Path) -> str:
    """Run one mutant, shrink its failure by the law that it was planted for, and say what became of it."""
    file = EXAMPLES / f"{scenario(planted)}.yaml"
    experiment = load(file, deployment=SIM, mutant=planted.name)
    launch = Launch(experiment=experiment, file=file, deployment=SIM, seed=seed, mutant=planted.name, out=out)
    run = record(launch)
    judge([run], engine=Engine.LOCAL)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            case = replayed(run.directory, Path(scratch), planted.law)
        except BadInput as error:
            return f"| `{planted.name}` | {error} |\n"
        began, busy = time.monotonic(), processor_s()
        place = minimal.make(run.directory)
        best = shrink(
            case,
            Path(scratch),
            within_s=within_s,
            on_better=lambda document, trial: minimal.write(place, case, document, trial),
        )
    told = minimal.finish(place, case, best)
    before, after = told["before"], told["after"]
    missed = "" if after["operations"] <= (1 - AIM) * before["operations"] and after["faults"] <= 1 else " (!)"
    cells = (
        f"`{planted.name}`{missed}",
        str(case.wanted),
        *(f"{before[name]:,g} → {after[name]:,g}" for name in ("operations", "faults", "nodes", "seconds")),
        str(best.tried),
        f"{time.monotonic() - began:.0f}",
        f"{processor_s() - busy:.0f}",
    )
    return f"| {' | '.join(cells)} |\n"


def processor_s() -> float:
    """What this process and those that it has ended have used of the processors; other load does not change it much."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shrinking", description=__doc__)
    parser.add_argument("mutants", nargs="*", help="names of mutants; without any, all of the quickstart")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--within", type=float, default=WITHIN_S, help="seconds for each")
    parser.add_argument("--out", type=Path, help="keep the runs and what is left of them here")
    options = parser.parse_args()
    wanted = [one for one in MUTANTS if one.name in options.mutants or not options.mutants]
    print(f"load average of the machine: {os.getloadavg()[0]:.1f}, cores: {len(os.sched_getaffinity(0))}", flush=True)
    print(HEAD, end="", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for planted in wanted:
            if options.mutants or scenario(planted) == QUICKSTART:
                told = row(planted, options.seed, options.within, options.out or Path(folder))
                print(told, end="", flush=True)


if __name__ == "__main__":
    main()
