"""``stormproof summary``: judged runs as Markdown, for the page of a CI job."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.history import directory, opening
from stormproof.commands import _console
from stormproof.commands._options import json_option, out_option


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@out_option
@json_option
def summary(runs: tuple[str, ...], out: Path, as_json: bool) -> None:
    """Print judged RUNs (default: all in --out) as Markdown: how many of each verdict, then what happened in those that
    are not VALID, each with its replay command. As JSON: an object for each run, the worst first.

    Exit code 0, whatever the verdicts are: the command that judged them has reported them.
    """
    from reports.markdown import summary as markdown
    from reports.markdown import tell

    found = [run for word in runs for run in opening.resolve(word, out)] if runs else directory.runs(out)
    if as_json:
        _console.print_json(tell(found))
    else:
        _console.say_document(markdown(found))
