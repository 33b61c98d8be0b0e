"""Runs seeds of examples under the trace, and reduces each run to what it reached."""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.coverage import page
from benchmarks.coverage.branches import Branch, sources, taken, tracing
from benchmarks.coverage.moments import Meeting, meetings
from chaos.experiment.reader import load
from chaos.history.history import History
from chaos.judging.goals import look, names
from chaos.law import RunContext
from stormproof.launch import SIM, Launch, start
from stormproof.shipped import of_reference

ROOT = Path(__file__).parents[2]
EXPERIMENTS = of_reference(ROOT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one run reached."""

    example: str
    seed: int
    branches: frozenset[Branch]
    meetings: frozenset[Meeting]
    goals: frozenset[str]


def run_all(jobs: Sequence[tuple[str, int]], workers: int) -> page.Totals:
    """Run all jobs and count, in how many runs each thing was seen."""
    totals = page.Totals(runs=len(jobs), examples=tuple(dict.fromkeys(name for name, _ in jobs)))
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers, maxtasksperchild=1) as pool:
        for done, seen in enumerate(pool.imap_unordered(run, jobs), start=1):
            totals.branches.update(seen.branches)
            totals.meetings.update(seen.meetings)
            totals.goals.update(seen.goals)
            print(f"{done} of {len(jobs)}: {seen.example} {seen.seed}", file=sys.stderr, flush=True)
    totals.goals.update(dict.fromkeys(names(), 0))
    return totals


def run(job: tuple[str, int]) -> Seen:
    """Run one seed of an example under the trace."""
    name, seed = job
    file = EXPERIMENTS[name]
    with tempfile.TemporaryDirectory(prefix="stormproof-coverage-") as folder:
        launch = Launch(
            experiment=load(file, deployment=SIM), file=file, deployment=SIM, seed=seed, mutant="", out=Path(folder)
        )
        with tracing(ROOT) as lines:
            directory = start(launch)
        history = History.open(directory)
        table, meta = history.table, history.meta
    context = RunContext(run=name, seed=seed, meta=meta)
    return Seen(
        example=name,
        seed=seed,
        branches=frozenset(
            branch for file_, path in sources(ROOT).items() for branch in taken(file_, path.read_text("utf-8"), lines)
        ),
        meetings=frozenset(meetings(table, meta)),
        goals=frozenset(one.goal for one in look([table], names(), context) if one.times),
    )
