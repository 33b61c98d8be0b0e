"""What stands beside the figures: the controllers under faults, judged, and the planted bugs that were found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.exploration.scopes import BUGS, LONG, SCOPES, explored
from benchmarks.mutants import EXPERIMENTS, run, scenario
from chaos.errors import ChaosError
from chaos.experiment.reader import load
from chaos.verdict import RunVerdict
from reference.mutants import MUTANTS, Planted
from stormproof.launch import SIM

#: Seeds of each example, from 1 on.
SEEDS = 5
#: Examples about controllers that show no planted bug.
_OTHERS = ("classic_controllers", "controllers_change", "lock")
_LAW = "linearizable"
INTERRUPTED = "the run was interrupted"

Result = Mapping[str, Any]


def planted() -> list[Planted]:
    """Return the bugs that are planted in controllers."""
    return [one for one in MUTANTS if "controller" in one.parts]


def examples() -> list[str]:
    """Return the experiments that show them, and others in which controllers suffer."""
    return sorted({*map(scenario, planted()), *_OTHERS})


def judge_seeds(example: str) -> Result:
    """Judge the correct system in one example, seed by seed."""
    faults = load(EXPERIMENTS[example], deployment=SIM).faults
    return {
        "example": example,
        "faults": sorted({_words(one.use.name, one.use.options) for one in faults}),
        "runs": [_judged(example, seed) for seed in range(1, SEEDS + 1)],
    }


def explore(most_states: int = LONG) -> Result:
    """All that three members can do within bounds, and the planted bugs that this finds."""
    return {
        "scopes": [asdict(explored(scope.name, most_states=most_states)) for scope in SCOPES],
        "bugs": [{"bug": bug, **asdict(explored(scope, bug, most_states))} for bug, scope in BUGS.items()],
    }


def found_bugs(page: str) -> list[Sequence[str]]:
    """Return the rows of the controllers' bugs in ``benchmarks/results/mutants.md``: bug, law, example, first seed that
    finds it, share of the seeds that do, other laws, what it stands for."""
    names = {f"`{one.name}`" for one in planted()}
    rows = (line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `"))
    return [row for row in rows if row[0] in names]


def _judged(example: str, seed: int) -> Result:
    """Judge the correct system in one example with one seed. Raises ``KeyboardInterrupt`` when somebody ends the run:
    it says nothing then."""
    try:
        verdict = run(example, "", seed)
    except ChaosError as error:
        return {"seed": seed, "validity": "ERROR", "why": str(error), "operations": 0, "unclear": 0}
    if INTERRUPTED in verdict.why:
        raise KeyboardInterrupt
    broken = [law.law for law in verdict.laws if law.anomalies]
    counts = _counts(verdict)
    return {
        "seed": seed,
        "validity": str(verdict.validity),
        "why": ", ".join([*verdict.why, *broken]),
        "operations": counts.get("completed", 0),
        "unclear": counts.get("unclear", 0),
    }


def _counts(verdict: RunVerdict) -> Mapping[str, int]:
    return next((law.counts for law in verdict.laws if law.law == _LAW), {})


def _words(name: str, options: Any) -> str:
    """Return the words for a fault, its shape if it has one, and whom it meets."""
    shape, target = getattr(options, "shape", ""), getattr(options, "target", "")
    return " ".join(str(part) for part in (name, shape, f"({target})" if target else "") if part)
