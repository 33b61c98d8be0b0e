"""``stormproof export``: a run in the format of another program."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.history import directory, opening
from stormproof.commands import _console
from stormproof.commands._options import json_option, out_option


class Format(click.ParamType):
    """One of the modules in ``reports/exports``, which is looked at only when a format is asked for."""

    name = "format"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from reports import exports

        if value not in exports.formats():
            self.fail(f"{value!r} is none of {', '.join(exports.formats())}", param, ctx)
        return str(value)


class _Command(click.Command):
    """Names the formats at the end of its help."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from reports import exports

        with formatter.section("Formats"):
            formatter.write_dl([(name, exports.about(name)) for name in exports.formats()])


@click.command(cls=_Command)
@click.argument("run", default=directory.LATEST)
@click.option("--to", "to", type=Format(), required=True, metavar="FORMAT", help="One of the formats below.")
@out_option
@json_option
def export(run: str, to: str, out: Path, as_json: bool) -> None:
    """Write a RUN (default: the latest) in the format of another program, into its directory; print where it is."""
    from reports import exports

    written = [(found, exports.write(found, to)) for found in opening.resolve(run, out)]
    if as_json:
        _console.print_json([{"run": str(found), "file": str(file)} for found, file in written])
        return
    for _, file in written:
        _console.say(file)
