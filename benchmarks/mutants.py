"""Which promises notice each planted bug, in which scenario, and how many seeds that takes.

``python -m benchmarks.mutants [--system NAME] [--seeds N] [--write]`` runs every mutant of a system with the seeds 1..N
in the simulator, judges the runs where they ran, and prints the matrix; ``--write`` puts it into
``benchmarks/results``. The page depends on the code and N alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutation import systems
from benchmarks.mutation.systems import System
from chaos.experiment.reader import load
from chaos.judging.outcome import judge
from chaos.verdict import Engine, RunVerdict, Validity
from reference.mutants import MUTANTS, Planted
from reference.split.mutants import MUTANTS as OF_SPLIT
from reports import render
from stormproof.launch import SIM, Launch
from stormproof.scenario_run import recorded
from stormproof.shipped import experiments, of_reference

ROOT = Path(__file__).parent.parent
EXPERIMENTS = of_reference(ROOT)
_ALL = experiments(ROOT)
PAGE = ROOT / "benchmarks" / "results" / "mutants.md"
QUICKSTART = "quickstart"
#: Seeds of the published matrix: 1 to this.
SEEDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedBugs:
    """All planted bugs of a system, and the page that says what finds them."""

    system: System
    planted: Sequence[Planted]
    page: Path

    def scenario(self, planted: Planted) -> str:
        """Return the name of the experiment that shows the mutant."""
        return self.system.prefix + (planted.scenario or QUICKSTART)

    @property
    def introduction(self) -> str:
        """What stands above the rows of its page."""
        return f"""\
# Planted bugs: which laws find them

Made by `python -m benchmarks.mutants{self.system.option} --write`: for each
[planted bug](../../docs/concepts.md#planted-bugs) the scenario that shows it, the first seed from 1 on with which its
law finds it, the number of seeds from 1 to {SEEDS} with which that happens, and the other laws that notice.

| mutant | law | scenario | first seed | found | other laws that notice | stands for |
|---|---|---|---|---|---|---|
"""


REFERENCE = PlantedBugs(system=systems.REFERENCE, planted=MUTANTS, page=PAGE)
SPLIT = PlantedBugs(system=systems.SPLIT, planted=OF_SPLIT, page=PAGE.with_name("split_mutants.md"))
BY_SYSTEM = {bugs.system.name: bugs for bugs in (REFERENCE, SPLIT)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run of one mutant ("": the correct system): the laws that it broke."""

    mutant: str
    seed: int
    validity: Validity
    laws: tuple[str, ...]


def scenario(planted: Planted) -> str:
    """Return the name of the example that shows a mutant of the reference system."""
    return REFERENCE.scenario(planted)


def run(example: str | Path, mutant: str, seed: int, *, draws: bool = False) -> RunVerdict:
    """Run an example, by its name or its file, in the simulator, judge it in this process, and keep nothing on disk.
    ``draws``: draw the page, too, which may break by itself. Raises as :func:`stormproof.scenario_run.recorded`."""
    file = example if isinstance(example, Path) else _ALL[example]
    experiment = load(file, deployment=SIM, mutant=mutant)
    with tempfile.TemporaryDirectory() as out:
        launch = Launch(experiment=experiment, file=file, deployment=SIM, seed=seed, mutant=mutant, out=Path(out))
        run = recorded(launch)
        verdict = judge([run], engine=Engine.LOCAL)[0]
        if draws:
            render(run.directory)
        return verdict


def attempt(what: tuple[str, str, int]) -> Trial:
    name, mutant, seed = what
    verdict = run(name, mutant, seed, draws=True)
    broken = tuple(str(law.law) for law in verdict.laws if law.validity is Validity.INVALID)
    return Trial(mutant=mutant, seed=seed, validity=verdict.validity, laws=broken)


def row(planted: Planted, trials: Sequence[Trial], bugs: PlantedBugs = REFERENCE) -> str:
    """One line of the table."""
    found = [trial.seed for trial in trials if planted.law in trial.laws]
    others = sorted({law for trial in trials for law in trial.laws} - {planted.law})
    cells = (
        f"`{planted.name}`",
        planted.law,
        bugs.scenario(planted),
        str(min(found)) if found else "–",
        f"{len(found)}/{len(trials)}",
        ", ".join(others) or "–",
        planted.stands_for.replace("|", "\\|"),
    )
    return f"| {' | '.join(cells)} |\n"


def page(trials: Iterable[Trial], bugs: PlantedBugs = REFERENCE) -> str:
    by_mutant: dict[str, list[Trial]] = {}
    for trial in trials:
        by_mutant.setdefault(trial.mutant, []).append(trial)
    return bugs.introduction + "".join(row(one, by_mutant[one.name], bugs) for one in bugs.planted)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("--system", choices=BY_SYSTEM, default="reference", help="whose mutants to run (reference)")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"run the seeds 1 to this ({SEEDS})")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    bugs = BY_SYSTEM[options.system]
    seeds = range(1, options.seeds + 1)
    jobs = [(bugs.scenario(planted), planted.name, seed) for planted in bugs.planted for seed in seeds]
    with multiprocessing.get_context("spawn").Pool(len(os.sched_getaffinity(0))) as pool:
        text = page(pool.imap(attempt, jobs), bugs)
    if options.write:
        bugs.page.write_text(text, "utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
