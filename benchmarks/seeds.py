"""The correct system through every example, with many seeds: no run may be INVALID, and each goal must be reached.

``python -m benchmarks.seeds [EXAMPLE...] [--system NAME] [--seeds N] [--storms M]`` shares N seeds among all that the
simulator can run of the system's experiments (unless some are named), and gives M more to its swarm (without M the
swarm has its share). It judges each run, and prints what became of them, an example a line, and how many runs reached
each goal. Ctrl-C stops it; the same command goes on where it was, as long as the code is the same. Ends with 1 when a
run was INVALID or could not be carried out, when an example had no VALID run, or none of its runs reached one of its
goals.

If the system takes profiles, a third of the seeds of the examples that name none run under weaker ones, each in turn:
laws must excuse what such a profile explains, and find nothing else.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.mutation.campaign import CACHE, Job, carry_out, left, stoppable
from benchmarks.mutation.mutants import ROOT
from benchmarks.mutation.state import State, code_version, commit, opened
from benchmarks.mutation.systems import SYSTEMS, System
from benchmarks.mutation.trial import WITH, Outcome, Result, Trial
from chaos.errors import ChaosError

#: Seeds that one process runs, one after the other.
TOGETHER = 5
#: Each weakness alone, and in pairs.
WEAKER = (
    *("{flush: async}", "{acks: master}", "{unclean: true}", "{acks: 2}", "{min_in_sync: 1}"),
    *("{flush: async, acks: master}", "{flush: async, unclean: true}", "{flush: async, min_in_sync: 1}"),
    *("{acks: 2, unclean: true}", "{acks: master, min_in_sync: 1}", "{unclean: true, min_in_sync: 1}"),
    *("{flush: async, acks: 2}", "{acks: master, unclean: true}"),
)
#: One in so many seeds runs under a weaker profile.
ONE_IN = 3


def main(words: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(words)
    system = SYSTEMS[options.system]
    path = options.state or system.state(CACHE, "seeds")
    try:
        files = system.experiments(ROOT)
        names = sorted(set(options.examples)) or [*files]
        if unknown := sorted(set(names) - set(files)):
            parser.error(f"no example is called {', '.join(unknown)}")
        share = shares(names, *_counts(options, system))
        with stoppable(), opened(path, code_version(ROOT, system.elsewhere)) as state:
            outcomes = run(share, experiments(share, files, system), state, options.workers, system)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        return 130
    except ChaosError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    print("\n".join([*table(names, outcomes), *goals(outcomes)]))
    wrong = problems(names, outcomes)
    print("\n".join(wrong) or f"no run was INVALID; commit {commit(ROOT) or '?'}")
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.seeds", description=__doc__)
    runs = ", ".join(f"{name} {system.runs}" for name, system in SYSTEMS.items())
    storms = ", ".join(f"{name} {system.storms}" for name, system in SYSTEMS.items() if system.storms)
    parser.add_argument("examples", nargs="*", metavar="EXAMPLE", help="names of examples (default: all)")
    parser.add_argument("--system", choices=SYSTEMS, default="reference", help="whose examples (default: %(default)s)")
    parser.add_argument("--seeds", type=int, help=f"runs in all (default: {runs})")
    parser.add_argument("--storms", type=int, help=f"runs of the swarm beside them (default: {storms})")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="processes at a time")
    parser.add_argument("--state", type=Path, help="what is known (default: a file in .cache for each system)")
    return parser


def _counts(options: argparse.Namespace, system: System) -> tuple[int, Mapping[str, int]]:
    """Return how many seeds are shared, and how many which experiment has of its own."""
    seeds = system.runs if options.seeds is None else options.seeds
    storms = system.storms if options.storms is None else options.storms
    return seeds, {system.swarm: storms} if storms else {}


def shares(names: Sequence[str], seeds: int, own: Mapping[str, int]) -> dict[str, range]:
    """Return the seeds of each experiment, from 1 on: as many as it has of its ``own``; all others as many as each
    other, but for what is left over."""
    sharing = [name for name in names if name not in own]
    each, more = divmod(seeds, max(1, len(sharing)))
    counts = {name: each + (at < more) for at, name in enumerate(sharing)} | dict(own)
    return {name: range(1, counts[name] + 1) for name in names}


def experiments(share: Mapping[str, range], files: Mapping[str, Path], system: System) -> dict[tuple[str, int], str]:
    """Return (example, seed) → what is run: the example as it is or, of those that name no profile, with a weaker
    one."""
    found = {}
    for place, (name, seeds) in enumerate(share.items()):
        own = not system.takes_profiles or "\nprofile:" in files[name].read_text("utf-8")
        for seed in seeds:
            weaker = WEAKER[(place + seed // ONE_IN) % len(WEAKER)]
            found[name, seed] = name if own or seed % ONE_IN else f"{name}{WITH}{weaker}"
    return found


def run(
    share: Mapping[str, range], what: Mapping[tuple[str, int], str], state: State, workers: int, system: System
) -> list[Outcome]:
    """Run what is not known yet, all examples in turns; returns all outcomes asked for."""
    jobs = [
        Job(
            trials=tuple(
                Trial(mutant=None, experiment=what[name, seed], seed=seed) for seed in seeds[at : at + TOGETHER]
            ),
            until_found=False,
        )
        for at in range(0, max(map(len, share.values()), default=0), TOGETHER)
        for name, seeds in share.items()
        if seeds[at:]
    ]
    known = sum(left(job, state) is None for job in jobs) * TOGETHER
    with closing(carry_out(jobs, state, workers, system)) as outcomes:
        for done, outcome in enumerate(outcomes, start=known + 1):
            if outcome.result is not Result.VALID:
                why = outcome.why or ", ".join(outcome.laws)
                print(f"{outcome.experiment} {outcome.seed}: {_WORD[outcome.result]}: {why}", file=sys.stderr)
            if done % 50 == 0:
                print(f"{done} of {sum(map(len, share.values()))}", file=sys.stderr, flush=True)
    return [state.known["", experiment, seed] for (_, seed), experiment in what.items()]


#: What each result is called where nobody has planted a bug.
_WORD = {
    Result.VALID: "VALID",
    Result.UNKNOWN: "UNKNOWN",
    Result.LAW: "INVALID",
    Result.CRASH: "node died",
    Result.NO_SERVICE: "ERROR",
    Result.NO_END: "no end",
}


def table(names: Sequence[str], outcomes: Sequence[Outcome]) -> list[str]:
    """How many runs of each example ended how."""
    weaker = "under weaker profiles"
    counts = Counter(((weaker if WITH in one.experiment else one.experiment), one.result) for one in outcomes)
    names = [*names, *([weaker] if any(WITH in one.experiment for one in outcomes) else [])]
    results = [result for result in Result if any(counts[name, result] for name in names)]
    wide = max(map(len, names))
    rows = [(name, [str(counts[name, result]) for result in results]) for name in names]
    rows.append(("all", [str(sum(counts[name, result] for name in names)) for result in results]))
    head = ("", [_WORD[result] for result in results])
    return [f"{name:<{wide}}" + "".join(f"{cell:>11}" for cell in cells) for name, cells in (head, *rows)]


def goals(outcomes: Sequence[Outcome]) -> list[str]:
    """How many runs of each example reached which of its goals."""
    runs = Counter(outcome.experiment for outcome in outcomes)  # goals are of the examples as they are
    return [f"{name}: {goal}: {reached} of {runs[name]} runs" for (name, goal), reached in _reached(outcomes).items()]


def _reached(outcomes: Sequence[Outcome]) -> dict[tuple[str, str], int]:
    """By example and goal, the number of runs that reached it."""
    found: dict[tuple[str, str], int] = {}
    for outcome in (one for one in outcomes if WITH not in one.experiment):
        for goal, times in outcome.goals.items():
            place = outcome.experiment, goal
            found[place] = found.get(place, 0) + (times > 0)
    return found


def problems(names: Sequence[str], outcomes: Sequence[Outcome]) -> list[str]:
    """Why the correct system, or an example, doesn't pass; a sentence each."""
    wrong = [
        f"{outcome.experiment}, seed {outcome.seed}: {_WORD[outcome.result]} {', '.join(outcome.laws)} {outcome.why}"
        for outcome in outcomes
        if outcome.result.finds
    ]
    sound = {outcome.experiment for outcome in outcomes if outcome.result is Result.VALID}
    tried = {outcome.experiment for outcome in outcomes}
    wrong += [f"{name}: no seed was VALID" for name in names if name in tried - sound]
    return wrong + [f"{name}: no seed reached: {goal}" for (name, goal), runs in _reached(outcomes).items() if not runs]


if __name__ == "__main__":
    sys.exit(main())
