"""Runs of which none comes again as it was, such as those on processes: each document is run several times, and the
rate at which it fails says whether it still does."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, replace
from pathlib import Path

from chaos import plugins
from chaos.errors import BadInput
from chaos.experiment.model import Experiment
from chaos.experiment.reader import load
from chaos.history import directory as store
from chaos.history.history import History
from chaos.plugins import PluginKind
from stormproof.replay import named
from stormproof.shrinking.again import failed
from stormproof.shrinking.signature import Signature, signatures
from stormproof.shrinking.trial import Size, Trial, size, try_out

#: A deployment that asks for one of these runs on machines, or in a system, of somebody else.
ELSEWHERE = {"inventory", "attach"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Often:
    """How a document is tried: up to ``times`` on this deployment, until ``enough`` runs have failed in the wanted way,
    or that can't be reached any more; ``all_of_them``: that often in any case."""

    deployment: str
    mutant: str
    wanted: Signature
    times: int
    enough: int = 1
    all_of_them: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A recorded failure on a deployment whose runs don't come again: what was run, and how it failed."""

    experiment: Experiment
    seed: int
    before: Size
    often: Often


def failed_once(run: Path, law: str, times: int) -> Failed:
    """Read a run that failed elsewhere than in the simulator; nothing is run. Raises :class:`BadInput` when it can't be
    shrunk."""
    deployment = store.read_meta(run).deployment
    if asked := ELSEWHERE & inspect.signature(plugins.load(PluginKind.DEPLOYMENT, deployment).create).parameters.keys():
        raise BadInput(
            f"{run}: it ran on {deployment}, which needs {' and '.join(sorted(asked))}; only what runs on this machine"
            f" alone is run again and again"
        )
    meta, verdict = failed(run)
    mutant = meta.mutant
    history = History.open(run)
    failures = signatures(history, verdict)
    wanted = next((failure for failure in failures if law in ("", failure.law)), None)
    if wanted is None:
        broken = ", ".join(dict.fromkeys(failure.law for failure in failures)) or "none"
        raise BadInput(f"{run}: it does not break {f'the law {law!r}' if law else 'any law'}; broken: {broken}")
    experiment = load(run / store.EXPERIMENT, deployment=deployment, mutant=mutant)
    return Failed(
        experiment=named(run, experiment, meta),
        seed=meta.seed,
        before=size(history),
        often=Often(deployment=deployment, mutant=mutant, wanted=wanted, times=times),
    )


def measured(run: Path, text: str, seed: int, often: Often, scratch: Path) -> tuple[Trial, Often]:
    """Find the rate at which the whole document fails, and with it how often a smaller one has to. Raises
    :class:`BadInput` when it never does."""
    trial = try_often(text, seed, replace(often, all_of_them=True), scratch)
    if not trial.failures:
        why = f"; {trial.error}" if trial.error else ""
        raise BadInput(
            f"{run}: its failure did not come again in {often.times} runs; more may show it (`--times`){why}"
        )
    return trial, replace(often, enough=max(1, math.ceil(trial.rate[0] / 2)))


def try_often(text: str, seed: int, often: Often, scratch: Path) -> Trial:
    """Run the experiment of this text several times; the first run that failed in the wanted way stands for all, with
    their rate. Without failures when too few did."""
    trial, kept, runs = Trial(), list[Trial](), 0
    for number in range(often.times):
        trial = try_out(text, seed, often.mutant, scratch.with_name(f"{scratch.name}-{number}"), often.deployment)
        runs += 1
        kept += [trial] if often.wanted.kept_by(trial.failures) else []
        decided = len(kept) >= often.enough or len(kept) + often.times - runs < often.enough
        if decided and not often.all_of_them:
            break
    if len(kept) < often.enough:
        return replace(trial, failures=(), rate=(len(kept), runs))
    return replace(kept[0], rate=(len(kept), runs))
