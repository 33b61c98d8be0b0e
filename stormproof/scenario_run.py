"""Runs one seed of a scenario and judges it, in this process; says in words what was not expected of it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from chaos.errors import BadInput, ChaosError
from chaos.experiment import inventory
from chaos.experiment.reader import load
from chaos.history import directory as store
from chaos.judging.outcome import judge, violation
from chaos.judging.run import ExaminedRun, examine_run
from chaos.packages import hidden
from chaos.verdict import Engine, Validity
from reports.printable import document, printable
from stormproof.cli import OURS
from stormproof.launch import SIM, Launch, start
from stormproof.outcome import in_words
from stormproof.scenarios import Scenario, ScenarioRun

#: Held by the one run at a time that is not simulated.
LOCK = ".lock"
#: So many reasons why a run is UNKNOWN are named.
REASONS = 3


def execute(asked: Scenario, file: Path, seed: int, out: Path, lock: Path) -> ScenarioRun:
    """Run ``file`` into a new directory in ``out``, and judge it. A run that is not simulated waits until no other one
    holds the ``lock``.

    Raises :class:`chaos.errors.ChaosError` when the harness could not bring it to a verdict, ``KeyboardInterrupt``
    after Ctrl-C, when everything is healed.
    """
    for package in OURS:
        if wrong := hidden(package):
            raise BadInput(wrong)
    experiment = load(file, deployment=asked.on, mutant=asked.mutant)
    launch = Launch(
        experiment=experiment,
        file=shortest(file),
        deployment=asked.on,
        seed=seed,
        mutant=asked.mutant,
        out=out,
        inventory=inventory.load(asked.inventory) if asked.inventory is not None else (),
        inventory_file=asked.inventory,
        no_loss_by_policy=asked.no_loss_by_policy,
    )
    with _alone(lock, needed=asked.on != SIM):
        prepared = recorded(launch)
    (verdict,) = judge([prepared], engine=Engine.LOCAL)
    if prepared.meta.ended is not None and prepared.meta.ended.interrupted:
        raise KeyboardInterrupt
    return ScenarioRun(directory=prepared.directory, seed=seed, verdict=verdict, replay=launch.replay)


def recorded(launch: Launch) -> ExaminedRun:
    """Run it; a run that could not go on is to be judged all the same if what it recorded breaks a law. Raises
    :class:`ChaosError` when it doesn't."""
    begun: list[Path] = []
    try:
        return examine_run(start(launch, on_directory=begun.append))
    except ChaosError:
        broken = violation(begun[0]) if begun and begun[0].exists() else None
        if broken is None:
            raise
        return broken


@contextmanager
def _alone(lock: Path, *, needed: bool) -> Iterator[None]:
    if not needed:
        yield
        return
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def shortest(path: Path) -> Path:
    """Return a path as people type it: from the working directory where it is below that, else whole."""
    here = Path(os.getcwd())
    return path.relative_to(here) if path.is_relative_to(here) else path


def is_expected(asked: Scenario, run: ScenarioRun) -> bool:
    """Return whether the verdict is the one that the test asked for."""
    return str(run.verdict.validity) == asked.expect and (not asked.violates or asked.violates in run.violated)


def failure(asked: Scenario, run: ScenarioRun) -> str:
    """Return what a test says of a run whose verdict is not the expected one: the story, the replay command, where to
    read."""
    wanted = f"a violation of {asked.violates}" if asked.violates else asked.expect
    but = "" if wanted == Validity.VALID else f", but {wanted} was expected"
    return summary(run, but)


def summary(run: ScenarioRun, remark: str = "") -> str:
    """Return the verdict with a remark, the run in one sentence, the replay command, and where to read on."""
    laws = f" ({', '.join(run.violated)})" if run.violated else ""
    report = run.directory / "report.html"
    where = f"report: {shortest(report)}" if report.exists() else f"run: {shortest(run.directory)}"
    verdict = "; ".join((f"{run.verdict.validity}{laws}", *run.verdict.qualifiers))
    story = printable(_story(run))
    return f"{verdict}{remark}, seed {run.seed}: {story}\nreplay: {printable(run.replay)}\n{printable(where)}"


def _story(run: ScenarioRun) -> str:
    why = run.verdict.why
    if run.verdict.validity is Validity.UNKNOWN and why:
        more = len(why) - REASONS
        return "; ".join(why[:REASONS]) + (f"; and {more} more reasons in the report" if more > 0 else "")
    return run.story()


def render(run: ScenarioRun) -> None:
    """Write the report of a run, if one can be written; the verdict stands without it."""
    from reports import render as write

    with suppress(ChaosError):
        write(run.directory)


def error_of(error: Exception) -> str:
    """Return an error of the harness, in words."""
    return document(in_words(error))


def forget(folder: Path) -> None:
    """Remove the runs in a folder, but not those that are going on or may have left something on hosts; then the
    folder, if nothing is left in it."""
    store.clean(folder, keep_failed=False)
    try:
        folder.rmdir()
    except OSError:  # there is something left, or it isn't there
        pass
