"""The row of one seed of a sweep: simulates it, judges it in this process, and notes how it failed and what it went
through."""

from __future__ import annotations

import os
import shutil
import time
import traceback
from functools import cache
from pathlib import Path
from typing import Any

from chaos.errors import ChaosError, MachineError
from chaos.experiment.model import Experiment
from chaos.experiment.reader import load
from chaos.history.directory import trim
from chaos.history.history import History
from chaos.history.verdict_json import verdict_json
from chaos.judging.outcome import judge, violation
from chaos.judging.run import ExaminedRun, examine_run
from chaos.verdict import Engine, RunVerdict, Validity
from reports import render
from reports.in_words import as_object
from reports.run_report.judged import JudgedRun, judged_run
from reports.run_report.story import sentence
from reports.sweeps.observed import faults_before, first_row_s, observe
from reports.sweeps.row import ERROR, Failure, Row, Seen, write
from reports.templates import REPORT
from stormproof import launch
from stormproof.launch import SIM, Launch
from stormproof.outcome import ExitCode, error_object, exit_code
from stormproof.shrinking.signature import Signature, of_cause
from stormproof.sweeping.plan import RUNS, Asked, Plan, read


def make_row(task: Asked) -> None:
    """Make the row of a run. Raises :class:`MachineError` and ``OSError`` when this machine lacks something; all else
    that goes wrong is in the row."""
    directory = Path(task.directory)
    plan = _plan(directory)
    own = directory / RUNS / f"{task.file}-{task.seed}"
    if own.exists():  # of a try that was killed
        shutil.rmtree(own)
    row = _ran(task, plan, Path(plan.beside) if plan.beside else own)
    if not plan.beside and not row.run:
        shutil.rmtree(own, ignore_errors=True)
    write(task.row, row)


@cache
def _plan(directory: Path) -> Plan:
    return read(directory)


@cache
def _experiment(path: Path, mutant: str) -> Experiment:
    return load(path, deployment=SIM, mutant=mutant)


def _ran(task: Asked, plan: Plan, out: Path) -> Row:
    directory, file = Path(task.directory), plan.files[task.file]
    asked = Launch(
        experiment=_experiment(directory / file.copy, plan.mutant),
        file=Path(file.path),
        deployment=SIM,
        seed=task.seed,
        mutant=plan.mutant,
        out=out,
        no_loss_by_policy=plan.no_loss_by_policy,
    )
    began = time.perf_counter()
    begun: list[Path] = []
    try:
        launch.start(asked, on_directory=begun.append)
        simulated_s = time.perf_counter() - began
        return _judged(task, plan, examine_run(begun[0]), simulated_s)
    except (MachineError, ImportError, OSError):
        raise
    except ChaosError as error:
        text = str(error)
    except Exception as error:  # a bug that one seed meets must not take the other seeds' results with it
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})"
    simulated_s = time.perf_counter() - began
    broken = violation(begun[0]) if begun and begun[0].exists() else None
    if broken is not None:
        return _judged(task, plan, broken, simulated_s)
    return _error(task, text, begun[0] if begun else None, simulated_s)


def _error(task: Asked, text: str, run: Path | None, simulated_s: float) -> Row:
    return Row(
        file=task.file,
        seed=task.seed,
        verdict=ERROR,
        code=ExitCode.ERROR,
        run=_relative(run, task) if run is not None else "",
        told=error_object(task.seed, text, run),
        simulated_s=round(simulated_s, 3),
    )


def _judged(task: Asked, plan: Plan, run: ExaminedRun, simulated_s: float) -> Row:
    began = time.perf_counter()
    (verdict,) = judge([run], engine=Engine.LOCAL)
    failures, seen, story = _observed(run, verdict)
    kept = plan.keep_all or verdict.validity is not Validity.VALID
    summary = {name: value for name, value in verdict_json(verdict).items() if name != "laws"} | story
    if verdict.validity is not Validity.VALID and task.reports:
        render_readable(run.directory)
        report = run.directory / REPORT
        summary["report"] = str(report) if report.exists() else None
    elif not kept and plan.beside:
        trim(run.directory)
    elif not kept:
        summary["run"] = ""
    return Row(
        file=task.file,
        seed=task.seed,
        verdict=str(verdict.validity),
        code=exit_code(verdict),
        run=_relative(run.directory, task) if kept else "",
        digest=verdict.digest,
        told=summary,
        failures=failures,
        seen=seen,
        simulated_s=round(simulated_s, 3),
        judged_s=round(run.seconds + time.perf_counter() - began, 3),
    )


def _observed(run: ExaminedRun, verdict: RunVerdict) -> tuple[tuple[Failure, ...], Seen, dict[str, Any]]:
    """Return how a run failed, what it went through, and what JSON says of one that failed; nothing of one that can't
    be read."""
    if run.damage:
        return (), Seen(), {}
    if verdict.validity is Validity.VALID:
        return (), observe(History.open(run.directory)), {}
    judged = judged_run(run.directory, verdict)
    return _failures(judged), observe(judged.all_rows), as_object(judged)


def _failures(run: JudgedRun) -> tuple[Failure, ...]:
    """Return each failure once, as it came first."""
    found: dict[Signature, Failure] = {}
    history = run.all_rows
    for group in run.causes:
        for cause in (*group.occurrences, *group.signs):
            for signature in of_cause(cause):
                lost_s = [tail.at_s for tail in cause.tails]
                shown = [one.anomaly.rows for one in cause.violations if one.law == signature.law]
                at_s = min(lost_s) if lost_s else first_row_s(history, shown)
                failure = Failure(
                    law=signature.law,
                    anomalies=signature.anomalies,
                    origin=str(signature.origin),
                    at_s=round(at_s, 6),
                    faults=faults_before(history, at_s),
                    decided_by=" or ".join(group.decided),
                    title=group.title,
                    story=sentence(group.first),
                    chain=tuple(step.json for step in group.chain),
                )
                if signature not in found or failure.at_s < found[signature].at_s:
                    found[signature] = failure
    return tuple(found.values())


def render_readable(run: Path) -> None:
    """Write the report of a run; one whose history can't be read has none."""
    try:
        render(run)
    except MachineError:
        raise
    except ChaosError:
        pass


def _relative(run: Path, task: Asked) -> str:
    """Return a run's directory as seen from the sweep's."""
    return os.path.relpath(run.resolve(), task.directory)
