"""``python -m benchmarks.mutation [--system NAME] [--sample N] [--seeds K]``: measure the mutation score."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import takewhile
from pathlib import Path

from benchmarks.mutation import page, score
from benchmarks.mutation.campaign import CACHE, Job, carry_out, left, stoppable
from benchmarks.mutation.mutants import ROOT, Drawn, Mutant, all_mutants, draw
from benchmarks.mutation.reach import Place, Reach
from benchmarks.mutation.state import State, code_version, commit, opened, read_only
from benchmarks.mutation.systems import SYSTEMS, System
from benchmarks.mutation.trial import Result, Trial
from chaos.errors import BadInput, ChaosError

#: So many seeds the swarm has at least, however many examples there are.
DRAWN_STORMS = 20
SAY_EVERY_S = 60.0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mutation",
        description="Change a system a little, in many ways, and count what the laws and storms find.",
        epilog="Ctrl-C stops it; the same command goes on where it was, as long as the code is the same.",
    )
    parser.add_argument("--system", choices=SYSTEMS, default="reference", help="which one (default: %(default)s)")
    parser.add_argument("--sample", type=int, help="mutants to draw (default: as published)")
    parser.add_argument("--seeds", type=int, help="run each with so many at most (default: as published)")
    parser.add_argument("--draw", type=int, help="the seed that draws mutants (default: as published)")
    parser.add_argument(
        "--experiment",
        action="append",
        metavar="NAME",
        help="an example's name, or a file of the project; with several, the seeds take turns"
        " (default: each example has a seed, and the swarm has the others)",
    )
    parser.add_argument("--only", action="append", metavar="ID", help="run this mutant, in the place of a sample")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="processes at a time")
    parser.add_argument("--state", type=Path, help="what is known (default: a file in .cache for each system)")
    parser.add_argument("--publish", action="store_true", help="run nothing; report what is known, also of a part")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(words)
    system = SYSTEMS[options.system]
    path = options.state or system.state(CACHE, "mutation")
    try:
        open_state = read_only if options.publish else opened
        with stoppable(), open_state(path, code_version(ROOT, system.elsewhere)) as state:
            measured = measure(_completed(options, system), state, system)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        return 130
    except ChaosError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    print("\n".join(score.summary(measured)), end="\n\n")
    for sentence in measured.outdated:
        print(f"warning: {sentence}")
    for fate in measured.survivors:
        print(score.survivor(fate))
    if options.write:
        (page.RESULTS / system.page).write_text(page.text(measured, system), "utf-8")
    return 0


def _completed(options: argparse.Namespace, system: System) -> argparse.Namespace:
    """Return the options with what the system is published for, where they say nothing."""
    published = {"sample": system.sample, "seeds": system.seeds, "draw": system.draw}
    given = {name: value for name, value in vars(options).items() if value is not None}
    return argparse.Namespace(**{**vars(options), **published, **given})


def measure(options: argparse.Namespace, state: State, system: System) -> score.Score:
    """Run what is not known yet. Raises :class:`ChaosError`; what is known then stays so."""
    known = all_mutants(ROOT, system)
    drawn = _chosen(known, options.only) if options.only else draw(known, options.draw, options.sample)
    plan = _plan(options.experiment, options.seeds, system)
    print(f"{len(drawn.mutants)} of {len(known)} mutants, {options.seeds} seeds", file=sys.stderr)
    ruled = score.rulings(system)
    if options.publish:
        plan = [place for place in plan if ("", *place) in state.known]
    sound = _sound(plan, state, options.workers, system, run=not options.publish)
    reach = Reach(sound, state.known)
    if not options.publish:
        _mutants(drawn.mutants, reach, state, options, ruled, system)
    fates = [_fate(mutant, reach, state, ruled) for mutant in drawn.mutants]
    return score.Score(
        fates=list(takewhile(lambda fate: fate.begun, fates)),
        drawn=len(drawn.mutants),
        trivial=len(drawn.trivial),
        there_are=len(known),
        draw=options.draw,
        seeds=len(plan),
        experiments=list(dict.fromkeys(experiment for experiment, _ in plan)),
        commit=commit(ROOT),
        code=state.code,
        skipped=sorted({seed for _, seed in plan} - {seed for _, seed in sound}),
        outdated=score.outdated(ruled, known),
    )


def _plan(experiments: Sequence[str] | None, seeds: int, system: System) -> list[Place]:
    """Return the experiment of each seed. Unless experiments are named, each example has one seed, since it reaches a
    corner that a drawn storm seldom does; the others are the swarm's, whose storms are all different. So there may be
    more of them than a mutant runs with, and each runs with those that promise most."""
    if experiments:
        return [(experiments[(seed - 1) % len(experiments)], seed) for seed in range(1, seeds + 1)]
    examples = [name for name in system.experiments(ROOT) if name != system.swarm]
    storms = max(DRAWN_STORMS, seeds - len(examples))
    return [(experiment, seed) for seed, experiment in enumerate([*examples, *[system.swarm] * storms], start=1)]


def _mutants(
    drawn: Sequence[Mutant],
    reach: Reach,
    state: State,
    options: argparse.Namespace,
    ruled: Mapping[str, score.Ruling],
    system: System,
) -> None:
    """Run each mutant with one seed, then each with two, four, and so on: most are found early, so what is known says
    much at any time. Those ruled equivalent have one seed at first, and the others last of all."""
    orders = {mutant.id: reach.order(mutant)[: options.seeds] for mutant in drawn}
    most = max(map(len, orders.values()), default=0)
    equivalent = {one for one, ruling in ruled.items() if ruling.verdict == score.EQUIVALENT}
    passes = [1 << power for power in range(most.bit_length())] + [most]
    for few, last in [*((one, False) for one in passes), (most, True)]:
        jobs = [
            _job(mutant, orders[mutant.id], few, state)
            for mutant in drawn
            if last or few == 1 or mutant.id not in equivalent
        ]
        _run(f"mutants, up to {few} seeds", jobs, state, options.workers, system)


def _job(mutant: Mutant, order: Sequence[Place], few: int, state: State) -> Job:
    """Run a mutant until it has had this many seeds. Those that it has had come first."""
    had = [place for place in order if (mutant.id, *place) in state.known]
    places = [*had, *(place for place in order if place not in had)][: max(few, len(had))]
    trials = [Trial(mutant=mutant, experiment=e, seed=s, correct=state.known["", e, s]) for e, s in places]
    return Job(trials=tuple(trials), until_found=True)


def _chosen(known: Sequence[Mutant], ids: Sequence[str]) -> Drawn:
    by_id = {mutant.id: mutant for mutant in known}
    if unknown := [one for one in ids if one not in by_id]:
        raise BadInput(f"there is no mutant {', '.join(unknown)}")
    return Drawn(mutants=tuple(by_id[one] for one in ids))


def _sound(plan: Sequence[Place], state: State, workers: int, system: System, *, run: bool) -> list[Place]:
    """Return the seeds with which the correct system is VALID. Raises :class:`ChaosError` when one is worse than
    UNKNOWN."""
    trials = [Trial(mutant=None, experiment=experiment, seed=seed) for experiment, seed in plan]
    if run:
        jobs = [Job(trials=(trial,), until_found=False, watched=True) for trial in trials]
        _run("seeds of the correct system", jobs, state, workers, system)
    results = {(experiment, seed): state.known["", experiment, seed] for experiment, seed in plan}
    wrong = [
        f"{e} seed {s}: {one.result} {', '.join(one.laws)} {one.why}"
        for (e, s), one in results.items()
        if one.result.finds
    ]
    if wrong:
        raise ChaosError("the correct system failed, so no score means anything:\n" + "\n".join(wrong))
    return [place for place in plan if results[place].result is Result.VALID]


def _run(what: str, jobs: Sequence[Job], state: State, workers: int, system: System) -> None:
    """Do what is left, and say now and then how far it is."""
    said = time.monotonic()
    runs = 0
    with closing(carry_out(jobs, state, workers, system)) as outcomes:
        for outcome in outcomes:
            runs += 1
            if outcome.result.finds:
                print(f"{outcome.result:<10} {outcome.mutant} {outcome.experiment} {outcome.seed}", file=sys.stderr)
            if time.monotonic() - said > SAY_EVERY_S:
                said = time.monotonic()
                done = sum(left(job, state) is None for job in jobs)
                print(f"{what}: {done} of {len(jobs)} done, {runs} runs", file=sys.stderr, flush=True)


def _fate(mutant: Mutant, reach: Reach, state: State, ruled: Mapping[str, score.Ruling]) -> score.Fate:
    order = reach.order(mutant)
    outcomes = tuple(state.known[mutant.id, *place] for place in order if (mutant.id, *place) in state.known)
    return score.Fate(
        mutant=mutant, outcomes=outcomes, reaching=len(order), correct=state.known, ruling=ruled.get(mutant.id)
    )


if __name__ == "__main__":
    sys.exit(main())
