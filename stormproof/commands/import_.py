"""``stormproof import``: make runs of histories that other tools recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stormproof import importing
from stormproof.commands import _console
from stormproof.commands._options import out_option


class Format(click.ParamType):
    """One of the modules in ``stormproof/importing``."""

    name = "format"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value not in importing.formats():
            self.fail(f"{value[:80]!r} is none of {', '.join(importing.formats())}", param, ctx)
        return value


def _help() -> str:
    """Return the help of the command, with a line for each format."""
    lines = [f"{name}: {importing.about(name)}" for name in importing.formats()]
    return "\n\n".join(
        (
            "Make a run of each FILE, a history that another tool recorded, so that `check` and `report` can read it.",
            "Nothing is written unless all files can be read; one that can't is named with the line and what was"
            " expected there (exit code 3). Prints the directory of each run. docs/imports.md says what can be judged"
            " of such a run, and what not.",
            "Formats:",
            *lines,
        )
    )


@click.command("import", help=_help())
@click.argument("format", type=Format())
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option(
    "--failures",
    type=click.Choice((importing.UNKNOWN, importing.REFUSED)),
    default=importing.UNKNOWN,
    show_default=True,
    help="What a recorded failure of a write means: it may have happened, or it surely did not.",
)
@click.option(
    "--drained",
    is_flag=True,
    help="You know that consumers had read everything in the end (their lag was 0): what never came out was lost.",
)
@out_option
def import_(format: str, files: tuple[Path, ...], failures: str, drained: bool, out: Path) -> None:
    how = importing.How(failures=failures, drained=drained)
    for run in importing.import_runs(files, format, how, out):
        _console.say(run)
    _console.say("next: stormproof check RUN, for each", err=True)
