"""``stormproof heal``: undo and end what a killed harness left behind."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.errors import BadInput
from chaos.history import directory as store
from chaos.machines.healing import each
from stormproof.commands._healing import HEAL_ALL, heal_run, healers, show
from stormproof.commands._options import out_option


@click.command()
@click.argument("run", required=False)
@click.option(
    "--all", "everything", is_flag=True, help="Everything that runs left here; on hosts, only the runs in --out."
)
@out_option
def heal(run: str | None, everything: bool, out: Path) -> None:
    """Undo the faults of a killed harness and end what it left: processes, containers, and what is on hosts. Give one
    RUN (default: the latest), or --all.

    A cluster that `stormproof up` left running is ended too.
    """
    if everything and run:
        raise BadInput("give a RUN or --all, not both")
    if everything:
        show(out, each(lambda heal: heal(out), dict.fromkeys(healers(HEAL_ALL).values())))
    else:
        directory = store.resolve(run or store.LATEST, out)
        show(directory, heal_run(directory))
