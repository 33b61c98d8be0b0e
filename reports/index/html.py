"""A static page over a folder of runs: a table that links to the reports, and what was violated how often."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from chaos import guarded
from chaos.errors import BadInput, MachineError
from chaos.verdict import Validity
from reports.index.overview import RunLine, readable, sweeps, turned
from reports.printable import argument
from reports.run_report.headlines import of_violations
from reports.templates import REPORT, link, style, template
from reports.timeline.page import digest

PAGE = "index.html"
#: So many experiments can be chosen.
FILTERS = 12
#: How our own pages begin; what begins otherwise is somebody else's, and stays.
OURS = b'<!doctype html>\n<html lang="en" data-page="stormproof-runs">'


def _story(run: RunLine) -> str:
    """Say what happened in a run: of many laws the worst violation."""
    if not run.anomalies:
        return run.found
    return "; ".join(filter(None, (of_violations(run.anomalies), run.by_policy)))


def write(parent: Path, lines: Sequence[RunLine]) -> Path:
    """Write ``index.html`` into the folder of these runs, the newest first, and return its path. Raises
    :class:`BadInput` when there is an ``index.html`` of somebody else, ``MachineError`` when it can't be written."""
    path = parent / PAGE
    try:
        if path.exists() and not guarded.read(path).startswith(OURS):
            raise BadInput(f"{path} is there already, and is not a page over runs; it is left as it is")
    except OSError as error:
        raise MachineError(f"cannot read {path}: {error.strerror or error}") from error
    return guarded.write(path, page(readable(parent.resolve().name), lines, sweeps(parent)))


def page(title: str, lines: Sequence[RunLine], swept: Sequence[str] = (), *, compared_at: str = "") -> str:
    """Return the page's text. Links are relative, to runs that have a report, and to the pages of sweeps (their
    folders). ``compared_at``: the address that answers with two of them side by side; without it the page names the
    command."""
    verdicts = sorted(Counter(one.verdict for one in lines).items())
    experiments = Counter(one.experiment for one in lines if one.experiment).most_common(FILTERS)
    script = Markup((Path(__file__).parent / "index.js").read_text("utf-8"))
    return template("index/index.html.j2").render(
        title=title,
        script=script,
        script_hash=digest(script),
        compared_at=compared_at,
        turned=turned(lines),
        style=style(),
        runs=[
            (one, link(one.directory.parent, one.directory / REPORT), _story(one), shlex.quote(argument(one.name)))
            for one in reversed(lines)
        ],
        sweeps=[(readable(name), f"{quote(os.fsencode(name), safe='')}/{PAGE}") for name in reversed(swept)],
        colours={str(value): str(value) for value in (Validity.VALID, Validity.INVALID, Validity.UNKNOWN)},
        chips=[
            ("verdict", {name: (place, count) for place, (name, count) in enumerate(verdicts)}),
            ("experiment", {name: (place, count) for place, (name, count) in enumerate(experiments)}),
        ],
        violated=Counter(law for one in lines for law in one.violated).most_common(),
    )
