"""``stormproof clean``: remove recorded runs, and sweeps."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.history import directory
from stormproof.commands import _console
from stormproof.commands._options import out_option


@click.command()
@click.option("--keep", type=click.Choice(["failed"]), help="Keep what wasn't judged VALID, or not judged at all.")
@out_option
def clean(keep: str | None, out: Path) -> None:
    """Remove runs and sweeps, except those that may still be going on, and runs that have left something on hosts.

    With --keep failed, a sweep stays where a seed was not VALID, or has not been run yet.
    """
    from stormproof.sweeping import removal

    gone = directory.clean(out, keep_failed=keep == "failed")
    _console.say(f"{len(gone)} runs removed, {len(directory.runs(out))} kept")
    removed, kept = removal.clean(out, keep_failed=keep == "failed")
    if removed or kept:
        _console.say(f"{len(removed)} sweeps removed, {len(kept)} kept")
