"""A judged run in words: what the report's first screen says, for terminals, tests and Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reports.run_report.first_screen import FirstScreen
from reports.run_report.first_screen import first_screen as _first_screen
from reports.run_report.judged import JudgedRun, judged_run
from reports.run_report.story import calm, sentence


def story(run: Path) -> str:
    """Return a judged run in one sentence. Raises as :func:`judged_run` does."""
    return story_of(judged_run(run))


def first_screen(run: Path) -> FirstScreen:
    """Return what the first screen of a judged run's report says, as data. Raises as :func:`judged_run` does."""
    return _first_screen(judged_run(run))


def as_object(run: JudgedRun) -> dict[str, Any]:
    """Return what ``--json`` says of a judged run besides its verdict."""
    faults = [
        {"fault": one.name, "targets": one.targets, "start_s": round(one.start_s, 3), "end_s": round(one.end_s, 3)}
        for one in run.story.faults
        if one.effective == "yes"
    ]
    return {
        **_first_screen(run).json,
        "replay_command": run.history.meta.replay_command or None,
        "story": story_of(run),
        "effective_faults": faults,
    }


def story_of(run: JudgedRun) -> str:
    """Return the first cause of the violations, with the number of the others; without violations why the run is
    UNKNOWN, or what it went through."""
    if run.causes:
        more = len(run.causes) - 1
        return sentence(run.causes[0].first) + (f" (and {more} more cause{'s' if more > 1 else ''})" if more else "")
    return "; ".join(run.verdict.why) or calm(run.story)
