"""``stormproof clean``: remove recorded runs."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.history import directory
from stormproof.commands._options import out_option


@click.command()
@click.option("--keep", type=click.Choice(["failed"]), help="Keep runs that weren't judged VALID.")
@out_option
def clean(keep: str | None, out: Path) -> None:
    """Remove runs, except runs that may still be going on or have left something on hosts."""
    gone = directory.clean(out, keep_failed=keep == "failed")
    click.echo(f"{len(gone)} runs removed, {len(directory.runs(out))} kept")
