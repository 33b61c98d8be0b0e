"""A judged run in words: what the report's first screen says, for terminals, tests and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import DamagedHistory
from chaos.history.directory import read_verdict
from chaos.history.history import History
from chaos.history.stream import SCHEMA
from chaos.verdict import RunVerdict
from reports.run_report.causes import Cause, group
from reports.run_report.story import calm, sentence
from reports.summary import Story, summarise
from reports.timeline.from_run import timelines

#: So many rows behind an anomaly are looked at for each cause, as in the report.
WITNESS_ROWS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """A judged run, read once: its history, ``verdict.json``, what the report draws of the rows, and the causes of the
    violations, in the report's order."""

    history: History
    verdict: RunVerdict
    story: Story
    causes: Sequence[Cause]


def read(run: Path) -> JudgedRun:
    """Read a judged run. Raises :class:`chaos.errors.BadInput` if it was not judged, or is not a run."""
    verdict, history = read_verdict(run), _readable(run)
    drawn = summarise(history, (index for anomaly in verdict.findings for index in anomaly.rows[:WITNESS_ROWS]))
    broken = verdict.violations
    causes = group(history, drawn.faults, broken, alone=timelines(history, broken))
    return JudgedRun(history=history, verdict=verdict, story=drawn, causes=causes)


def _readable(run: Path) -> History:
    """Return the history of a run; an empty one, with the damage, where no row can be read."""
    history = History.open(run)
    _ = history.meta  # without this it is not a run
    try:
        _ = history.table
    except DamagedHistory as error:
        return history.with_rows(SCHEMA.empty_table(), [str(error)])
    return history


def story(run: Path) -> str:
    """Return a judged run in one sentence. Raises as :func:`read` does."""
    return story_of(read(run))


def story_of(run: JudgedRun) -> str:
    """Return the first cause of the violations, with the number of the others; without violations why the run is
    UNKNOWN, or what it went through."""
    if run.causes:
        more = len(run.causes) - 1
        return sentence(run.causes[0]) + (f" (and {more} more cause{'s' if more > 1 else ''})" if more else "")
    return "; ".join(run.verdict.why) or calm(run.story)
