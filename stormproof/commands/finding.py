"""``stormproof finding``: an older name of ``stormproof report --as finding``."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.errors import BadInput
from chaos.history import directory, opening
from stormproof.commands._options import json_option, out_option
from stormproof.commands.report import show_finding


@click.command(hidden=True)
@click.argument("run", default=directory.LATEST)
@click.option("--cause", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
              help="Which cause, in the order of the report.")  # fmt: skip
@click.option("--markdown", is_flag=True, help="Print it as Markdown instead, without the picture.")
@out_option
@json_option
def finding(run: str, cause: int, markdown: bool, out: Path, as_json: bool) -> None:
    """Write a page about one cause of the violations of a judged RUN, as `report --as finding` does."""
    if markdown and as_json:
        raise BadInput("only one of --markdown and --json can be asked for")
    show_finding(opening.resolve(run, out), cause, as_markdown=markdown, as_json=as_json)
