"""One task of a sweep: simulate one seed and judge it in this process, and leave one row.

The row is a file of its own that is there as a whole or not at all, so that a process that is killed loses one seed at
most, and a task that is tried again, wherever, has nothing left to do. Nothing heavy is imported before it is needed:
an executor that lacks a library must be able to say so.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import time
import traceback
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos.errors import ChaosError, MachineError
from stormproof.campaign.task import Done
from stormproof.sweeping.plan import RUNS, Plan, read, row_path

if TYPE_CHECKING:
    from chaos.experiment.model import Experiment
    from chaos.history.history import History
    from chaos.judging.run import Prepared
    from chaos.verdict import RunVerdict
    from reports.sweeps.row import Failure, Row, Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Run this seed of this file of the sweep in ``directory``, an absolute path. ``reports``: write the page of a run
    that is not VALID."""

    directory: str
    file: int
    seed: int
    reports: bool = True

    @property
    def key(self) -> tuple[int, int]:
        return self.file, self.seed

    @property
    def row(self) -> Path:
        return row_path(Path(self.directory), self.key)

    def do(self) -> Done:
        """Make the row, unless it is there. Never raises but for what ends the process."""
        if self.row.exists():
            return Done(key=self.key)
        try:
            return _do(self)
        except ImportError as error:
            where = f"{socket.gethostname()}, {os.path.realpath(sys.executable)}"
            return Done(key=self.key, error=f"an executor ({where}) can't simulate: {error}", hopeless=True)
        except OSError as error:
            what = error.filename or self.directory
            return Done(key=self.key, error=f"cannot write {what}: {error.strerror or error}", hopeless=True)
        except MachineError as error:
            return Done(key=self.key, error=str(error), hopeless=True)


def _do(task: Task) -> Done:
    from reports.sweeps.row import write

    directory = Path(task.directory)
    plan = _plan(directory)
    own = directory / RUNS / f"{task.file}-{task.seed}"
    if own.exists():  # of a try that was killed
        shutil.rmtree(own)
    row = _ran(task, plan, Path(plan.beside) if plan.beside else own)
    if not plan.beside and not row.run:
        shutil.rmtree(own, ignore_errors=True)
    write(task.row, row)
    return Done(key=task.key)


@cache
def _plan(directory: Path) -> Plan:
    return read(directory)


@cache
def _experiment(path: Path, mutant: str) -> Experiment:
    from chaos.experiment.reader import load
    from stormproof.launch import SIM

    return load(path, deployment=SIM, mutant=mutant)


def _ran(task: Task, plan: Plan, out: Path) -> Row:
    from chaos.judging.outcome import violation
    from chaos.judging.run import examine, prepare
    from stormproof.launch import SIM, Launch, start

    directory, file = Path(task.directory), plan.files[task.file]
    launch = Launch(
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
        start(launch, on_directory=begun.append)
        simulated_s = time.perf_counter() - began
        return _judged(task, plan, examine(prepare(begun[0], at_once=True)), simulated_s)
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


def _error(task: Task, text: str, run: Path | None, simulated_s: float) -> Row:
    from reports.sweeps.row import ERROR, Row
    from stormproof.outcome import ExitCode, error_object

    return Row(
        file=task.file,
        seed=task.seed,
        verdict=ERROR,
        code=ExitCode.ERROR,
        run=_relative(run, task) if run is not None else "",
        told=error_object(task.seed, text, run),
        simulated_s=round(simulated_s, 3),
    )


def _judged(task: Task, plan: Plan, run: Prepared, simulated_s: float) -> Row:
    from chaos.history.directory import trim
    from chaos.history.verdict_json import verdict_json
    from chaos.judging.outcome import judge
    from chaos.verdict import Engine, Validity
    from reports.sweeps.row import Row
    from stormproof.outcome import exit_code

    began = time.perf_counter()
    (verdict,) = judge([run], engine=Engine.LOCAL)
    failures, seen = _observed(run, verdict)
    kept = plan.keep_all or verdict.validity is not Validity.VALID
    summary = {name: value for name, value in verdict_json(verdict).items() if name != "laws"}
    if verdict.validity is not Validity.VALID and task.reports:
        _render(run.directory)
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


def _observed(run: Prepared, verdict: RunVerdict) -> tuple[tuple[Failure, ...], Seen]:
    """Return how a run failed and what it went through; nothing of one that can't be read."""
    from chaos.history.history import History
    from reports.sweeps.observed import observe
    from reports.sweeps.row import Seen

    if run.damage:
        return (), Seen()
    history = History.open(run.directory)
    return _failures(history, verdict), observe(history)


def _failures(history: History, verdict: RunVerdict) -> tuple[Failure, ...]:
    from reports.sweeps.observed import faults_before, first_row_s
    from reports.sweeps.row import Failure
    from stormproof.shrinking.signature import failing

    found: dict[Any, Failure] = {}
    for signature, cause in failing(history, verdict):
        lost_s = [tail.at_s for tail in cause.tails]
        shown = [one.anomaly.rows for one in cause.violations if one.law == signature.law]
        at_s = min(lost_s) if lost_s else first_row_s(history, shown)
        failure = Failure(
            law=signature.law,
            anomalies=signature.anomalies,
            origin=str(signature.origin),
            at_s=round(at_s, 6),
            faults=faults_before(history, at_s),
        )
        if signature not in found or failure.at_s < found[signature].at_s:
            found[signature] = failure
    return tuple(found.values())


def _render(run: Path) -> None:
    """Write the report of a run; one whose history can't be read has none."""
    from reports import render

    try:
        render(run)
    except MachineError:
        raise
    except ChaosError:
        pass


def _relative(run: Path, task: Task) -> str:
    """Return a run's directory as seen from the sweep's."""
    return os.path.relpath(run.resolve(), task.directory)
