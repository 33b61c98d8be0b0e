"""Options that several commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from chaos.errors import BadInput, meant
from stormproof import shipped


class ExperimentFile(click.Path):
    """The path of an experiment's file, or the name of one that comes with Stormproof."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if path.suffix or path.exists():
            return path
        known = shipped.experiments()
        if path.as_posix() not in known and (hint := meant(path.as_posix(), known)):
            raise BadInput(f"there is no file and no experiment {path}; {hint}")
        return known.get(path.as_posix(), path)


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


def _use_state(context: click.Context, parameter: click.Parameter, value: Path | None) -> None:
    from chaos.machines.healing import state

    if value is not None:
        context.with_resource(state.using(value))


state_option = click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    metavar="DIR",
    expose_value=False,
    callback=_use_state,
    help="Folder of yours in which runs note what they may leave behind; also STORMPROOF_STATE."
    "  [default: ~/.local/state/stormproof]",
)
verbose_option = click.option(
    "-v", "--verbose", is_flag=True, help="Show the table of all promises, and what was not judged."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON; all else goes to stderr.")
