"""The option that names the hosts of a run."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.errors import BadInput
from chaos.experiment import inventory
from chaos.experiment.inventory import Inventory
from stormproof.launch import SSH

inventory_option = click.option(
    "--inventory",
    type=click.Path(path_type=Path),
    default=None,
    metavar="FILE",
    help="With --on ssh: the hosts, instead of those in the experiment.",
)


def hosts_of(file: Path | None, deployment: str) -> Inventory:
    """Read the inventory, if one is given. Raises :class:`BadInput`, also where no deployment would use it."""
    if file is not None and deployment != SSH:
        raise BadInput(f"--inventory is for --on {SSH}, and this is --on {deployment}")
    return inventory.load(file) if file is not None else ()
