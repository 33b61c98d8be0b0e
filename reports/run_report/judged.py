"""A judged run as its page, the terminal and Markdown tell it, read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.history.directory import read_verdict
from chaos.history.history import History
from chaos.verdict import RunVerdict
from reports.explanation.subject import WITNESSES
from reports.faults import fault_lines
from reports.run_report.cause_groups import CauseGroup, grouped
from reports.run_report.causes import group
from reports.run_report.explained import DRAWN, Explained, explanations, subjects
from reports.run_report.gathered import Gathered, gather, with_details
from reports.run_report.run_summary import Summarised
from reports.summary import Story, summarise
from reports.timeline.from_run import timelines
from reports.timeline.model import ObjectTimeline

#: A page quotes at most this many rows behind one anomaly.
WITNESS_ROWS = 12
#: So many causes have a strip of their own.
STRIPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """``causes``: of the violations, each once, in the report's order. ``history`` holds the rows that are drawn and
    quoted; ``explained``: what the page explains, by number of the cause; ``objects``: of violations of linearizability
    all calls on their objects, by place of the violation."""

    verdict: RunVerdict
    found: Gathered
    history: History
    story: Story
    causes: Sequence[CauseGroup]
    explained: Mapping[int, Explained]
    objects: Mapping[int, ObjectTimeline]

    @property
    def all_rows(self) -> History:
        """All that can be read of the run."""
        return self.found.whole if self.found.summarised else self.found.drawn


def judged_run(run: Path, verdict: RunVerdict | None = None, summarised: Summarised | None = None) -> JudgedRun:
    """Read a judged run. ``summarised``: what a large one came to when it was judged. Raises
    :class:`chaos.errors.BadInput` if it was not judged, or is not a run."""
    verdict = verdict or read_verdict(run)
    broken = verdict.violations
    quoted = {index for anomaly in verdict.findings for index in anomaly.rows[:WITNESS_ROWS]}
    followed = {index for anomaly in broken for index in anomaly.rows[:WITNESSES]}
    found = gather(run, quoted | followed, broken, summarised)
    drawn = found.drawn
    objects = timelines(drawn, broken)
    separate = group(drawn, fault_lines(drawn), broken, alone=objects)
    history = with_details(found, separate[:STRIPS], subjects(separate, drawn))
    causes = grouped(separate, explanations(separate, broken, history))
    shown = enumerate(causes[:DRAWN], 1)
    explained = {at: Explained(cause=at, explanation=one.explanation) for at, one in shown if one.explanation}
    rows = quoted.union(*(one.rows for one in explained.values()))
    story = summarise(history, rows, found.operations)
    return JudgedRun(
        verdict=verdict, found=found, history=history, story=story, causes=causes, explained=explained, objects=objects
    )
