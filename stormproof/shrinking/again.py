"""Does a failing simulated run again, and holds the replay against what was recorded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chaos.errors import BadInput, ChaosError, MachineError
from chaos.experiment.model import Experiment
from chaos.experiment.reader import load
from chaos.history import directory as store
from chaos.history import manifest
from chaos.history.run_meta import RunMeta
from chaos.verdict import RunVerdict, Validity
from chaos.version import VERSION
from stormproof.launch import SIM, Launch
from stormproof.replay import named
from stormproof.shrinking.trial import Trial, examined, record


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """A failing run whose replay has the same history: what it is a run of, and what became of the replay."""

    run: Path
    experiment: Experiment
    seed: int
    mutant: str
    trial: Trial


def done_again(run: Path, scratch: Path, verb: str) -> Again:
    """Replay a run in ``scratch``. Raises :class:`BadInput` in a sentence when it isn't a failing simulated run, or
    when its replay gives another history. ``verb``: what can't be done then, such as "shrunk"."""
    meta, verdict = failed(run)
    if meta.deployment != SIM:
        raise BadInput(
            f"{run}: it ran on {meta.deployment or 'something unknown'}; only simulated runs can be {verb}, since"
            f" no other run comes again as it was"
        )
    seed, mutant = meta.seed, meta.mutant
    file = run / store.EXPERIMENT
    experiment = named(run, load(file, deployment=SIM, mutant=mutant), meta)
    launch = Launch(experiment=experiment, file=file, deployment=SIM, seed=seed, mutant=mutant, out=scratch)
    try:
        trial = examined(record(launch))
    except (BadInput, MachineError):
        raise
    except ChaosError as error:
        raise BadInput(f"{run}: its failure did not come again: {error}") from error
    if trial.digest != verdict.digest:
        raise BadInput(_another_history(run, meta))
    return Again(run=run, experiment=experiment, seed=seed, mutant=mutant, trial=trial)


def failed(run: Path) -> tuple[RunMeta, RunVerdict]:
    """Return ``run.json`` and ``verdict.json`` of a run that failed. Raises :class:`BadInput` for any other, and for
    one in which nothing is wrong but what its profile permits."""
    meta = store.read_meta(run)
    verdict = store.read_verdict(run)
    if verdict.validity is not Validity.INVALID:
        raise BadInput(f"{run}: it was judged {verdict.validity}; only an INVALID run has a failure to keep")
    if verdict.violations and all(one.by_policy for one in verdict.violations):
        raise BadInput(
            f"{run}: nothing is wrong with it but what its profile permits, and --no-loss-by-policy forbids; there is"
            " no other failure to keep"
        )
    if problem := manifest.altered(run, manifest.read(run), store.EXPERIMENT):
        raise BadInput(f"{run}: {problem}")
    return meta, verdict


def _another_history(run: Path, meta: RunMeta) -> str:
    recorded = meta.versions.get("stormproof", "an unknown version")
    if recorded != VERSION:
        why = f"it was recorded by stormproof {recorded}, this is {VERSION}"
    else:
        why = "the code has changed since it was recorded"
    return f"{run}: its replay gives another history ({why}); do it again with `{meta.replay or 'stormproof run'}`"
