"""From a judged run directory to what people and machines read: ``report.html`` and ``junit.xml``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaos.history.pieces import Readable
    from chaos.judging.summary import Summary


def page_summary(pieces: Sequence[Readable]) -> Summary:
    """Return what makes of a large run, while it is judged, what its page needs."""
    from reports.run_report.run_summary import RunSummary

    return RunSummary.of(pieces)


def render(run: Path, summarised: Any = None) -> Path:
    """Write ``report.html`` and ``junit.xml`` into a judged run directory; return the page's path. ``summarised``: what
    came of :func:`page_summary` when the run was judged.

    Raises :class:`chaos.errors.BadInput` if the run was not judged yet, ``MachineError`` when the disk is full.
    """
    from chaos.errors import MachineError
    from chaos.history.directory import read_meta, read_verdict
    from reports.run_report import html, junit
    from reports.run_report.first_screen import first_screen
    from reports.run_report.judged import judged_run

    verdict, meta = read_verdict(run), read_meta(run)
    try:
        junit.write(run, verdict, meta)  # a server shows the verdict, whatever becomes of the page
        judged = judged_run(run, verdict, summarised)
        screen = first_screen(judged)
        junit.write(run, verdict, meta, screen)
        return html.write(run, judged, screen)
    except OSError as error:
        raise MachineError(f"cannot write the report in {run}: {error.strerror or error}") from error
