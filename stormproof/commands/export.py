"""``stormproof export``: an older name of ``stormproof report --as``, for the formats of other programs."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.history import directory, opening
from stormproof.commands._options import json_option, out_option
from stormproof.commands.report import show_export


class Format(click.ParamType):
    """One of the modules in ``reports/exports``, which is looked at only when a format is asked for."""

    name = "format"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from reports import exports

        if value not in exports.formats():
            self.fail(f"{value!r} is none of {', '.join(exports.formats())}", param, ctx)
        return str(value)


@click.command(hidden=True)
@click.argument("run", default=directory.LATEST)
@click.option("--to", "to", type=Format(), required=True, metavar="FORMAT", help="One that `report --help` lists.")
@out_option
@json_option
def export(run: str, to: str, out: Path, as_json: bool) -> None:
    """Write a RUN (default: the latest) in the format of another program, as `report --as` does."""
    show_export(opening.resolve(run, out), to, as_json=as_json)
