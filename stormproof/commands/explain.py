"""``stormproof explain``: which messages, syncs, decisions and faults a violation hangs on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from chaos.errors import BadInput
from chaos.history import directory
from stormproof import archives
from stormproof.commands import _console
from stormproof.commands._options import json_option, out_option

if TYPE_CHECKING:
    from reports.explanation.sequence import Explanation


@click.command()
@click.argument("run", default=directory.LATEST)
@click.argument("anomaly", default="1")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print it as Markdown, with a command for each arrow.")
@click.option("--svg", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Write it as a picture, and print where it is.")  # fmt: skip
@out_option
@json_option
def explain(run: str, anomaly: str, as_markdown: bool, svg: Path | None, out: Path, as_json: bool) -> None:
    """Show what one violation of an INVALID RUN (default: the latest) hangs on, as a sequence.

    ANOMALY is the number of the violation in the order of the verdict (default: 1), or the name of its kind, such as
    `lost`. The sequence goes back from the rows that the law names, through messages, syncs, decisions of controllers,
    crashes and faults, as far as rows link them; each line names its rows, and the method of the nodes' code that
    decided it, where that is known. Exit codes: 0, or 3 for bad input.
    """
    from reports.explanation.as_text import as_object, markdown, text
    from reports.explanation.sequence import explain as find

    if sum((as_markdown, as_json, svg is not None)) > 1:
        raise BadInput("only one of --markdown, --json and --svg can be asked for")
    told = find(archives.resolve_one(run, out), anomaly)
    if as_json:
        _console.print_json(as_object(told))
    elif as_markdown:
        click.echo(markdown(told), nl=False)
    elif svg is not None:
        click.echo(_write(svg, told))
    else:
        for line in text(told):
            click.echo(_console.printable(line))


def _write(file: Path, told: Explanation) -> Path:
    from reports.explanation.diagram import write

    return write(file, told)
