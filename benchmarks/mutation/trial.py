"""One run of one mutant, in a process of its own: loads the changed source, runs, judges, and says how it was found.

Runs of the correct system can be watched: then they report which statements of the system ran, and how often.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import resource
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.mutation.mutants import Mutant
from benchmarks.mutation.planting import Hits, plant, watch
from benchmarks.mutation.systems import System
from chaos.errors import ChaosError
from chaos.experiment.reader import load
from chaos.history.directory import read_meta
from chaos.history.recorder import STREAM
from chaos.history.run_meta import RunMeta
from chaos.judging.outcome import judge
from chaos.judging.run import examine_run
from chaos.shell.node_process import die_with
from chaos.verdict import Engine, RunVerdict, Validity
from stormproof.launch import SIM, Launch, start
from stormproof.shipped import experiments

#: What a process may take: a mutant that collects for ever ends by this, and not by the machine's end.
MEMORY_BYTES = 6 << 30
#: Processor time that one run may take; the correct system takes some seconds. It doesn't depend on the machine's load.
PROCESSOR_S = 60.0
#: What ``run.json`` says of the process and not of the run. No law looks at it.
_OF_THE_PROCESS = ("run", "directory", "pid", "started", "replay", "versions", "machine")


#: Between an experiment and another profile to run it under.
WITH = " with "


class Result(StrEnum):
    """How a run ended. The first two find nothing."""

    VALID = "VALID"
    UNKNOWN = "UNKNOWN"
    LAW = "law"
    CRASH = "crash"
    NO_SERVICE = "no service"
    NO_END = "no end"

    @property
    def finds(self) -> bool:
        return self not in (Result.VALID, Result.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a trial. ``laws`` were broken; ``why`` is the first reason for UNKNOWN, or the error. ``history``
    is a digest of every row that was recorded, traces included, and of what else the laws are given: equal to the
    correct system's, the change had no effect in this run. ``reached``: how often the changed statement was; ``goals``:
    how often the run came to each goal of its experiment. ``rows``: how many were recorded; ``seconds``: of processor
    time. ``lines``, where the run was watched: how often which statement ran, by file and line."""

    mutant: str
    experiment: str
    seed: int
    result: Result
    laws: tuple[str, ...] = ()
    why: str = ""
    history: str = ""
    reached: int = 0
    goals: Mapping[str, int] = field(default_factory=dict)
    rows: int = 0
    seconds: float = 0.0
    lines: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What to run: a mutant (None: the correct system) through one experiment with one seed. ``experiment``: the name
    of an example, or the path of a file below the root of the project; where it ends in " with " and a profile, as an
    experiment writes it, it is run under that one. ``correct``: what became of the correct system
    there; who has the same history is judged the same."""

    mutant: Mutant | None
    experiment: str
    seed: int
    correct: Outcome | None = None

    def file(self, root: Path) -> Path:
        name = self.experiment.partition(WITH)[0]
        return experiments(root).get(name, root / name)

    @property
    def profile(self) -> str:
        """ "" for the experiment's own."""
        return self.experiment.partition(WITH)[2]


def run_all(
    pipe: Connection, trials: Sequence[Trial], root: Path, work: Path, until_found: bool, watched: System | None
) -> None:
    """Run the trials of a worker process, all of one mutant, in order, and send each one's :class:`Outcome`.
    ``watched``: the system whose statements are counted. A run that takes too long ends the process by SIGPROF. Only
    the parent hears Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with(os.getppid())  # the server of forks, which ends with the parent
    parent = multiprocessing.parent_process()
    if parent is None or not parent.is_alive():
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    mutant = trials[0].mutant
    hits = plant(mutant, root) if mutant is not None else watch(root, watched) if watched else Hits({})
    for trial in trials:
        hits.clear()
        signal.setitimer(signal.ITIMER_PROF, PROCESSOR_S)
        outcome = attempt(trial, trial.file(root), work, hits)
        pipe.send(outcome)
        if until_found and outcome.result.finds:
            break
    pipe.close()


def attempt(trial: Trial, file: Path, work: Path, hits: Hits) -> Outcome:
    """Run the experiment in ``file`` with the system as this process has it, and keep nothing."""
    began = time.process_time()
    found: dict[str, Any]
    with tempfile.TemporaryDirectory(dir=work) as out:
        try:
            found = _run(file, trial, Path(out))
        except Exception as error:  # whatever a mutant makes of the run, the command would end with it
            text = str(error) if isinstance(error, ChaosError) else f"{type(error).__name__}: {error}"
            found = {"result": Result.NO_SERVICE, "why": text[:300]}
    ran = hits.seen()
    return Outcome(
        mutant=trial.mutant.id if trial.mutant else "",
        experiment=trial.experiment,
        seed=trial.seed,
        reached=sum(times for lines in ran.values() for times in lines.values()) if trial.mutant else 0,
        lines={} if trial.mutant else ran,
        seconds=round(time.process_time() - began, 2),
        **found,
    )


def _run(file: Path, trial: Trial, out: Path) -> dict[str, Any]:
    if trial.profile:
        file = _under(file, trial.profile, out)
    experiment = load(file, deployment=SIM)
    directory = start(Launch(experiment=experiment, file=file, deployment=SIM, seed=trial.seed, mutant="", out=out))
    meta = read_meta(directory)
    found = {"history": _digest(directory, meta), "rows": meta.rows or 0}
    if trial.correct is not None and trial.correct.history == found["history"]:
        return found | {"result": trial.correct.result, "goals": trial.correct.goals}
    return found | _judged(judge([examine_run(directory)], engine=Engine.LOCAL)[0])


def _under(file: Path, profile: str, folder: Path) -> Path:
    """Write the same experiment with this profile. It must name none itself."""
    other = folder / file.name
    other.write_text(f"{file.read_text('utf-8')}\nprofile: {profile}\n", "utf-8")
    return other


def _digest(directory: Path, meta: RunMeta) -> str:
    """Of all that a verdict depends on."""
    of_the_run = {key: value for key, value in meta.json.items() if key not in _OF_THE_PROCESS}
    digest = hashlib.sha256((directory / STREAM).read_bytes())
    digest.update(json.dumps(of_the_run, sort_keys=True).encode())
    return digest.hexdigest()[:16]


def _judged(verdict: RunVerdict) -> dict[str, Any]:
    """Return the result of a verdict. A crash counts only where no law has found anything: the law says more."""
    laws = tuple(sorted(str(law.law) for law in verdict.laws if law.validity is Validity.INVALID))
    crashes = [why for why in verdict.why if why.startswith(CRASHED)]
    if verdict.validity is Validity.INVALID:
        result = Result.LAW
    elif crashes:
        result = Result.CRASH
    else:
        result = Result(verdict.validity)
    why = (crashes or list(verdict.why) or [""])[0]
    return {"result": result, "laws": laws, "why": why[:300], "goals": dict(verdict.reached)}


#: How the reason of a verdict begins when a node has died of its own exception.
CRASHED = "a node died of its own error"
