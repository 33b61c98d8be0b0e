"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.errors import BadInput
from chaos.experiment import inventory
from chaos.experiment.durations import EXPECTED, parse_duration
from chaos.experiment.inventory import Inventory
from stormproof.launch import SSH


class Duration(click.ParamType):
    """``30s``, ``200ms``, ``1m30s``; becomes seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        seconds = parse_duration(str(value))
        if seconds is None or seconds <= 0:
            self.fail(f"{EXPECTED}, got {value!r}", param, ctx)
        return seconds


DURATION = Duration()


def hosts_of(file: Path | None, deployment: str) -> Inventory:
    """Read the inventory, if one is given. Raises :class:`BadInput`, also where no deployment would use it."""
    if file is not None and deployment != SSH:
        raise BadInput(f"--inventory is for --on {SSH}, and this is --on {deployment}")
    return inventory.load(file) if file is not None else ()


engine_option = click.option(
    "--engine",
    type=click.Choice(["spark", "local"]),
    default="spark",
    show_default=True,
    help="Where the checkers run; local needs no Java.",
)
out_option = click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runs"),
    show_default=True,
    metavar="DIR",
    help="Folder of the runs; each run gets a new subfolder in it.",
)
inventory_option = click.option(
    "--inventory",
    type=click.Path(path_type=Path),
    default=None,
    metavar="FILE",
    help="With --on ssh: the hosts, in the place of those of the experiment.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON; all else goes to stderr.")
