"""``stormproof rows``: an older name of ``stormproof explain RUN --rows``."""

from __future__ import annotations

from pathlib import Path

import click

from stormproof.commands._options import json_option, out_option
from stormproof.commands._rows import show_rows


@click.command(hidden=True)
@click.argument("run")
@click.argument("which", nargs=-1, required=True, metavar="N|A..B...")
@out_option
@json_option
def rows(run: str, which: tuple[str, ...], out: Path, as_json: bool) -> None:
    """Print rows of a RUN's history: those with these numbers (A..B: from A to B), as `explain RUN --rows` does."""
    show_rows(run, out, which, as_json=as_json)
