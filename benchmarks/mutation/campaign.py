"""Runs many trials on all cores: a fresh process for each mutant, forked from one that has imported all but the
system."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from types import FrameType

from benchmarks.mutation.mutants import ROOT
from benchmarks.mutation.state import State, code_version
from benchmarks.mutation.systems import System
from benchmarks.mutation.trial import Outcome, Result, Trial, run_all
from chaos.errors import MachineError

#: Where what is known stands; git ignores it.
CACHE = ROOT / ".cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The trials of one process, in order. ``until_found``: what finds the mutant makes the others unnecessary;
    ``watched``: report which statements of the correct system run."""

    trials: tuple[Trial, ...]
    until_found: bool
    watched: bool = False


@dataclass(slots=True, kw_only=True)
class _Worker:
    process: ForkServerProcess
    job: Job
    answered: int = 0


def left(job: Job, state: State) -> Job | None:
    """Return what of a job is still to be done; None when nothing is."""
    keys = [(trial.mutant.id if trial.mutant else "", trial.experiment, trial.seed) for trial in job.trials]
    if job.until_found and any(key in state.known and state.known[key].result.finds for key in keys):
        return None
    trials = tuple(trial for trial, key in zip(job.trials, keys, strict=True) if key not in state.known)
    return replace(job, trials=trials) if trials else None


def carry_out(jobs: Sequence[Job], state: State, workers: int, system: System) -> Generator[Outcome, None, None]:
    """Do what is left of the jobs, of this system; each outcome is noted before it is yielded. Closing the iterator, or
    an error, ends all workers at once. Raises :class:`MachineError` when the code is edited meanwhile, or a worker is
    killed."""
    shutil.rmtree(state.work, ignore_errors=True)  # what a killed run has left
    state.work.mkdir(parents=True)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["benchmarks.mutation.trial", "benchmarks.mutation.warm", "stormproof.sweeping.judged"]
    )
    waiting = iter([some for job in jobs if (some := left(job, state)) is not None])
    under_way: dict[Connection, _Worker] = {}
    try:
        while True:
            while len(under_way) < workers and (job := next(waiting, None)) is not None:
                if code_version(ROOT, system.elsewhere) != state.code:
                    raise MachineError("the code was changed while mutants were running; begin again")
                ours, theirs = context.Pipe(duplex=False)
                what = (theirs, job.trials, ROOT, state.work, job.until_found, system if job.watched else None)
                process = context.Process(target=run_all, args=what)
                process.start()
                theirs.close()
                under_way[ours] = _Worker(process=process, job=job)
            if not under_way:
                return
            for pipe in wait(list(under_way)):
                assert isinstance(pipe, Connection)
                worker = under_way[pipe]
                outcome = _received(pipe, worker)
                if outcome is None:
                    del under_way[pipe]
                if outcome is None and (outcome := _ended(worker)) is None:
                    continue
                state.add(outcome)
                yield outcome
    finally:
        for worker in under_way.values():
            worker.process.kill()
        for worker in under_way.values():
            worker.process.join()
        shutil.rmtree(state.work, ignore_errors=True)


def _received(pipe: Connection, worker: _Worker) -> Outcome | None:
    """Return the next outcome; None once the worker has ended."""
    try:
        outcome = pipe.recv()
    except (EOFError, ConnectionResetError):
        pipe.close()
        return None
    worker.answered += 1
    assert isinstance(outcome, Outcome)
    return outcome


def _ended(worker: _Worker) -> Outcome | None:
    """Return what the end of a worker says of the run that it was at, if it was at one."""
    worker.process.join()
    code = worker.process.exitcode or 0
    if code == 0:
        return None
    if code not in (-signal.SIGPROF, -signal.SIGABRT, -signal.SIGSEGV):
        raise MachineError(f"a worker ended with {code}; the same command goes on")
    trial = worker.job.trials[worker.answered]
    why = "processor time" if code == -signal.SIGPROF else "memory"
    return Outcome(
        mutant=trial.mutant.id if trial.mutant else "",
        experiment=trial.experiment,
        seed=trial.seed,
        result=Result.NO_END,
        why=f"the run exceeded its limit of {why}",
    )


@contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGTERM end what follows as Ctrl-C does."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
