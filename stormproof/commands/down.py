"""``stormproof down``: end the clusters that ``stormproof up`` left running."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.history import directory
from chaos.history.run_meta import UP
from chaos.machines.healing.runs import each
from stormproof.commands import _console
from stormproof.commands._healing import heal_run, show
from stormproof.commands._options import out_option, state_option


@click.command()
@out_option
@state_option
def down(out: Path) -> None:
    """End every cluster that `stormproof up` left running, of the runs in --out."""
    ended: list[Path] = []

    def end(run: Path) -> list[str]:
        if directory.read_meta(run).state == UP:
            ended.append(run)
            show(run, heal_run(run))
            directory.update_meta(run, state="finished")
        return []

    # A run that is a link here is in another folder.
    each(end, [run for run in directory.runs(out) if run.resolve().parent == out.resolve()])
    if not ended:
        _console.say(f"nothing is up in {out}")
