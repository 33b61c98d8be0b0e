"""``stormproof summary``: judged runs as Markdown, for the page of a CI job."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.history import directory
from stormproof import archives
from stormproof.commands._options import out_option


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@out_option
def summary(runs: tuple[str, ...], out: Path) -> None:
    """Print judged RUNs (default: all in --out) as Markdown: how many of each verdict, then what happened in those that
    are not VALID, each with its replay command.

    Exit code 0, whatever the verdicts are: the command that judged them has told.
    """
    from reports.markdown import summary as markdown

    found = [run for word in runs for run in archives.resolve(word, out)] if runs else directory.runs(out)
    click.echo(markdown(found), nl=False)
