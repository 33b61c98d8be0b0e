"""A judged run in words: what the report's first screen says, for terminals, tests and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from chaos.errors import DamagedHistory
from chaos.history.directory import read_meta, read_verdict
from chaos.history.recorder import SCHEMA, read_rows
from chaos.history.run_meta import RunMeta
from chaos.verdict import RunVerdict
from reports.rows import RunRows
from reports.run_report.causes import Cause, group, queue_groups
from reports.run_report.story import calm, sentence
from reports.summary import Story, summarise
from reports.timeline.from_run import timelines

#: So many rows behind an anomaly are looked at for each cause, as in the report.
WITNESS_ROWS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """A judged run, read once: ``run.json``, ``verdict.json``, the rows, what the report draws of them, and the causes
    of the violations, in the report's order. ``damage``: what could not be read, a sentence each."""

    directory: Path
    meta: RunMeta
    verdict: RunVerdict
    rows: RunRows
    story: Story
    causes: Sequence[Cause]
    damage: Sequence[str] = ()


def read(run: Path) -> JudgedRun:
    """Read a judged run. Raises :class:`chaos.errors.BadInput` if it was not judged, or is not a run."""
    verdict, meta = read_verdict(run), read_meta(run)
    table, damage = _rows(run)
    drawn = summarise(table, (index for anomaly in verdict.findings for index in anomaly.rows[:WITNESS_ROWS]))
    broken = verdict.violations
    rows = RunRows(table)
    alone = timelines(table, broken, drawn.zero_ns)
    causes = group(rows, drawn.faults, broken, groups=queue_groups(meta), alone=alone)
    return JudgedRun(
        directory=run, meta=meta, verdict=verdict, rows=rows, story=drawn, causes=causes, damage=tuple(damage)
    )


def _rows(run: Path) -> tuple[pa.Table, list[str]]:
    try:
        return read_rows(run)
    except DamagedHistory as error:
        return SCHEMA.empty_table(), [str(error)]


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
