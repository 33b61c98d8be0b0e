"""From a judged run directory to what people and machines read: ``report.html`` and ``junit.xml``."""

from __future__ import annotations

from pathlib import Path


def render(run: Path) -> Path:
    """Write ``report.html`` and ``junit.xml`` into a judged run directory; return the page's path.

    Raises :class:`chaos.errors.BadInput` if the run was not judged yet, ``MachineError`` when the disk is full.
    """
    from chaos.errors import MachineError
    from chaos.history.directory import read_meta, read_verdict
    from reports.run_report import html, junit

    verdict, meta = read_verdict(run), read_meta(run)
    try:
        junit.write(run, verdict, meta)
        return html.write(run, verdict, meta)
    except OSError as error:
        raise MachineError(f"cannot write the report in {run}: {error.strerror or error}") from error
