"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

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
no_loss_option = click.option(
    "--no-loss-by-policy",
    is_flag=True,
    help="Any loss is a violation, also one that the system's profile permits.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON; all else goes to stderr.")
