"""``stormproof heal``: undo and end what a killed harness left behind."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.errors import BadInput
from chaos.history import directory as store
from stormproof.commands import _console
from stormproof.commands._healing import (
    HEAL_ALL,
    heal_below,
    heal_machine,
    heal_run,
    heal_trusted,
    healers,
    latest,
    show,
)
from stormproof.commands._options import out_option, state_option


@click.command()
@click.argument("run", required=False)
@click.option("--all", "everything", is_flag=True, help="Every run in --out.")
@click.option("--machine", is_flag=True, help="Every run of yours on this machine: lists all, and asks.")
@click.option("--trust", is_flag=True, help="A RUN that was moved, or made elsewhere: lists all, and asks.")
@click.option("--yes", is_flag=True, help="With --machine or --trust: list, and do not ask.")
@click.option(
    "--inventory",
    type=click.Path(path_type=Path),
    default=None,
    metavar="FILE",
    help="With --trust: your own hosts; no key, known hosts or password is taken from a run.",
)
@out_option
@state_option
def heal(
    run: str | None, everything: bool, machine: bool, trust: bool, yes: bool, inventory: Path | None, out: Path
) -> None:
    """Undo the faults of a killed harness and end what it left: processes, containers, and what is on hosts. Give one
    RUN (default: the latest in --out that you made here and that has not ended), --all or --machine.

    A cluster that `stormproof up` left running is ended too. What is done on hosts and to clusters of others stands in
    your state folder, never in a run: docs/security.md.
    """
    if bool(run) + everything + machine > 1 or (trust and not run):
        raise BadInput("give a RUN, --all or --machine, one of them; --trust needs a RUN")
    if (yes and not (trust or machine)) or (inventory is not None and not trust):
        raise BadInput("--yes is for --machine and --trust, --inventory for --trust")
    if machine:
        show("this machine", heal_machine(yes=yes))
    elif everything:
        show(out, heal_below(out, healers(HEAL_ALL)))
    elif trust:
        from chaos.experiment import inventory as inventories

        own = inventories.load(inventory) if inventory is not None else ()
        trusted = store.resolve(str(run), out)
        show(trusted, heal_trusted(trusted, own, yes=yes))
    elif found := store.resolve(run, out) if run and run != store.LATEST else latest(out):
        show(found, heal_run(found))
    else:
        show(out, [])
        if store.runs(out):
            _console.err().print(
                f"no run in {out} is one of yours that has not ended; `heal RUN` and `heal --all` look at others, too",
                markup=False,
            )
