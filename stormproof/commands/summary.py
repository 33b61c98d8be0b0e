"""``stormproof summary``: an older name of ``stormproof report --as markdown``."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.history import directory
from stormproof.commands._options import json_option, out_option
from stormproof.commands.report import resolved, show_summary


@click.command(hidden=True)
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@out_option
@json_option
def summary(runs: tuple[str, ...], out: Path, as_json: bool) -> None:
    """Print judged RUNs (default: all in --out) as Markdown, as `report --as markdown` does."""
    show_summary(resolved(runs, out) if runs else directory.runs(out), as_json=as_json)
