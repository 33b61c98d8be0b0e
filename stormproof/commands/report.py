"""``stormproof report``: show what was found in a judged run."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from chaos.history import directory, opening
from stormproof.commands import _console
from stormproof.commands._options import json_option, out_option


@click.command()
@click.argument("run", default=directory.LATEST)
@click.option("--open", "open_it", is_flag=True, help="Open the page in a browser.")
@out_option
@json_option
def report(run: str, open_it: bool, out: Path, as_json: bool) -> None:
    """Write report.html and junit.xml of a judged RUN (default: the latest) and print where they are.

    RUN may be a ZIP archive (an artefact of a CI server): the runs in it are put into --out.
    """
    from reports import render

    written = []
    for found in opening.resolve(run, out):
        page = render(found)
        written.append({"run": str(found), "report": str(page)})
        if not as_json:
            _console.say(page)
        if open_it:
            webbrowser.open(page.absolute().as_uri())
    if as_json:
        _console.print_json(written)
