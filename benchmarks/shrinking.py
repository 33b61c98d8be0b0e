"""How small planted bugs become: ``python -m benchmarks.shrinking [MUTANT…] [--within S]`` (``make shrink``).

Each mutant (all of them, unless some are named) runs in its scenario with the seeds from 1 on until its law finds it,
and that failure is shrunk. Prints a row of the table in ``benchmarks/results/shrinking.md`` for each, and the medians;
what fails the aims is marked. What was done is kept in ``.cache/shrink``, a folder for each mutant: the same command
goes on where it was, as long as the code is the same. ``--replay 20`` then replays all results in so many new
processes, each with another order of its sets and of the files, and compares the digests.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.mutants import EXPERIMENTS, SEEDS, scenario
from benchmarks.mutation.campaign import CACHE
from benchmarks.mutation.mutants import ROOT
from benchmarks.mutation.state import code_version
from chaos.errors import ChaosError
from chaos.experiment.reader import load
from chaos.history import directory as store
from chaos.judging.outcome import judge
from chaos.judging.run import ExaminedRun
from chaos.verdict import Engine
from reference.mutants import MUTANTS, Planted
from stormproof.launch import SIM, Launch
from stormproof.shrinking import minimal
from stormproof.shrinking.shrink import Stop, replayed, shrink
from stormproof.shrinking.trial import record

HEAD = """\
| mutant | scenario, seed | law | operations | faults | nodes | load, s | tried | took, s | of processors, s |
|---|---|---|---|---|---|---|---|---|---|
"""
#: The aim: at least this share of the operations is gone.
AIM = 0.8
WITHIN_S = 300.0
#: What is known of a mutant, in its folder.
KNOWN = "row.json"
SIZES = ("operations", "faults", "nodes", "seconds")
#: Prints the digest of each experiment (file, seed, mutant), in a process of its own.
REPLAY = """
import sys
from pathlib import Path
from stormproof.shrinking.trial import try_out
scratch, *asked = sys.argv[1:]
for file, seed, mutant in zip(asked[::3], asked[1::3], asked[2::3]):
    print(mutant, try_out(Path(file).read_text("utf-8"), int(seed), mutant, Path(scratch)).digest, flush=True)
"""


def measured(
    planted: Planted, within_s: float, processor_s: float, processes: int | None, folder: Path
) -> dict[str, Any]:
    """Find the failure of one mutant and shrink it in ``folder``; what ``minimal.json`` says, with the seed that found
    it, and the seconds and processors' seconds that it took. Only an ``error`` where nothing fails or can be shrunk."""
    try:
        run = failing(planted, folder)
        if run is None:
            return {"error": f"its law finds nothing with the seeds 1 to {SEEDS}"}
        with tempfile.TemporaryDirectory() as scratch:
            began, busy = time.monotonic(), used_s()
            case = replayed(run.directory, Path(scratch), planted.law)
            place = minimal.make(run.directory)
            best = shrink(
                case,
                Path(scratch),
                within_s=within_s,
                processor_s=processor_s,
                processes=processes,
                on_better=lambda document, trial: minimal.write(place, case, document, trial),
            )
        if best.stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt
        summary = minimal.finish(place, case, best)
    except ChaosError as error:
        return {"error": str(error)}
    found_by = store.read_meta(run.directory).seed
    return {**summary, "found_by": found_by, "seconds": time.monotonic() - began, "processor_s": used_s() - busy}


def failing(planted: Planted, out: Path) -> ExaminedRun | None:
    """Return the first run, by its seed, in which the law of a mutant finds it."""
    file = EXPERIMENTS[scenario(planted)]
    experiment = load(file, deployment=SIM, mutant=planted.name)
    for seed in range(1, SEEDS + 1):
        launch = Launch(experiment=experiment, file=file, deployment=SIM, seed=seed, mutant=planted.name, out=out)
        run = record(launch)
        (verdict,) = judge([run], engine=Engine.LOCAL)
        if any(law.law == planted.law and law.anomalies for law in verdict.laws):
            return run
    return None


def reached(result: Mapping[str, Any]) -> bool:
    """Return whether a result meets the aims."""
    before, after = result["before"], result["after"]
    return bool(before["operations"] - after["operations"] >= AIM * before["operations"] and after["faults"] <= 1)


def row(planted: Planted, result: Mapping[str, Any]) -> str:
    if "error" in result:
        return f"| `{planted.name}` | {scenario(planted)} | {result['error']} |"
    cells = (
        f"`{planted.name}`{'' if reached(result) else ' (!)'}",
        f"{scenario(planted)}, {result['found_by']}",
        result["signature"]["law"],
        *(f"{result['before'][name]:,g} → {result['after'][name]:,g}" for name in SIZES),
        f"{result['tried']}{'' if result['stopped'] == Stop.DONE else ' (limit)'}",
        f"{result['seconds']:.0f}",
        f"{result['processor_s']:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def medians(results: Sequence[Mapping[str, Any]]) -> str:
    """Of those that were shrunk: which part of the operations is gone, and how long it took."""
    if not results:
        return "nothing was shrunk"
    gone = [
        1 - one["after"]["operations"] / one["before"]["operations"] for one in results if one["before"]["operations"]
    ]
    met = sum(map(reached, results))
    return (
        f"{met} of {len(results)} meet the aims; medians: {100 * median(gone):.1f} % fewer operations,"
        f" {median(one['seconds'] for one in results):.0f} s,"
        f" {median(one['processor_s'] for one in results):.0f} s of processors"
    )


def known(folder: Path, code: str) -> dict[str, Any] | None:
    """Return what an earlier call found with the same code."""
    try:
        found = json.loads((folder / KNOWN).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("code") == code else None


def replays(results: Sequence[Mapping[str, Any]], hash_seed: int) -> dict[str, str]:
    """Return the digest of each result by its mutant, all replayed in one new process."""
    first = hash_seed % len(results)
    asked = [str(one[key]) for one in (*results[first:], *results[:first]) for key in ("minimal", "seed", "mutant")]
    with tempfile.TemporaryDirectory() as scratch:
        words = [sys.executable, "-c", REPLAY, str(Path(scratch) / "run"), *asked]
        environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
        done = subprocess.run(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return dict(line.split(maxsplit=1) for line in done.stdout.splitlines())


def compared(results: Sequence[Mapping[str, Any]], processes: int) -> str:
    """How many results had their digest in each of these processes, in a sentence."""
    other: dict[str, int] = {}
    for hash_seed in range(processes):
        found = replays(results, hash_seed)
        for one in results:
            other[one["mutant"]] = other.get(one["mutant"], 0) + (found.get(one["mutant"]) != one["digest"])
        print(f"process {hash_seed + 1} of {processes}: {sum(map(bool, other.values()))} differ", flush=True)
    differing = ", ".join(f"{mutant} ({count})" for mutant, count in other.items() if count) or "none"
    return f"{len(results)} results, replayed in {processes} processes; with another digest: {differing}"


def used_s() -> float:
    """Return what this process and those that it has ended have used of the processors; other load does not change it
    much."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shrinking", description=__doc__)
    parser.add_argument("mutants", nargs="*", help="names of mutants; without any, all")
    parser.add_argument("--within", type=float, default=WITHIN_S, help="seconds for each (default: %(default)s)")
    parser.add_argument(
        "--processor-s", type=float, default=float("inf"), help="seconds of processors for each (default: no limit)"
    )
    parser.add_argument(
        "--processes", type=int, help="that try candidates (default: one for each core); 0: this one, which wastes none"
    )
    parser.add_argument("--replay", type=int, default=0, metavar="N", help="replay all results in N processes")
    parser.add_argument("--out", type=Path, default=CACHE / "shrink", help="what is known (default: %(default)s)")
    options = parser.parse_args()
    if unknown := set(options.mutants) - {one.name for one in MUTANTS}:
        print(f"error: no mutant has the name {', '.join(sorted(unknown))}", file=sys.stderr)
        return 3
    code, results = code_version(ROOT), []
    print(f"load average of the machine: {os.getloadavg()[0]:.1f}, cores: {len(os.sched_getaffinity(0))}", flush=True)
    print(HEAD, end="", flush=True)
    try:
        for planted in (one for one in MUTANTS if one.name in options.mutants or not options.mutants):
            folder = options.out / planted.name
            result = known(folder, code)
            if result is None:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                result = {
                    **measured(planted, options.within, options.processor_s, options.processes, folder),
                    "code": code,
                }
                (folder / KNOWN).write_text(json.dumps(result), "utf-8")
            results += [] if "error" in result else [result]
            print(row(planted, result), flush=True)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        return 130
    print(f"\n{medians(results)}")
    if options.replay and results:
        print(compared(results, options.replay))
    return 0


if __name__ == "__main__":
    sys.exit(main())
