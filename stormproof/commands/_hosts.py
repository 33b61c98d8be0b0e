"""The option that names the hosts of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from chaos.errors import BadInput

if TYPE_CHECKING:
    from chaos.experiment.inventory import Inventory

SSH = "ssh"

inventory_option = click.option(
    "--inventory",
    type=click.Path(path_type=Path),
    default=None,
    metavar="FILE",
    help="With --on ssh: the hosts, instead of those in the experiment.",
)


def hosts_of(file: Path | None, deployment: str) -> Inventory:
    """Read the inventory, if one is given. Raises :class:`BadInput`, also where no deployment would use it."""
    from chaos.experiment import inventory

    if file is not None and deployment != SSH:
        raise BadInput(f"--inventory is for --on {SSH}, and this is --on {deployment}")
    return inventory.load(file) if file is not None else ()
