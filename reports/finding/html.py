"""A finding as one self-contained page."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from chaos import guarded
from reports.finding.model import Finding
from reports.run_report import strip_svg
from reports.templates import template


def write(run: Path, finding: Finding) -> Path:
    """Write ``finding-N.html`` into the run's directory and return its path. Raises
    :class:`chaos.errors.MachineError` when the disk is full."""
    page = template("finding/finding.html.j2").render(
        finding=finding,
        style=Markup((Path(__file__).parent / "finding.css").read_text("utf-8")),
        picture=strip_svg.draw(finding.strip, finding.number) if finding.strip is not None else None,
    )
    return guarded.write(run / f"finding-{finding.number}.html", page)
