"""``stormproof finding``: one cause of a run's violations as a page to hand on."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.errors import BadInput
from chaos.history import directory, opening
from stormproof.commands import _console
from stormproof.commands._options import json_option, out_option


@click.command()
@click.argument("run", default=directory.LATEST)
@click.option("--cause", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
              help="Which cause, in the order of the report.")  # fmt: skip
@click.option("--markdown", is_flag=True, help="Print it as Markdown instead, without the picture.")
@out_option
@json_option
def finding(run: str, cause: int, markdown: bool, out: Path, as_json: bool) -> None:
    """Write a page about one cause of the violations of a judged RUN (default: the latest), and print where it is.

    It holds what those need who make the tested system: the picture of one example, the events that matter, what the
    nodes reported at those moments, experiment, configuration, versions, the replay command, and what is not known.
    """
    from reports.finding import as_markdown, as_object, html, model

    if markdown and as_json:
        raise BadInput("only one of --markdown and --json can be asked for")
    for found in opening.resolve(run, out):
        about = model.find(found, cause)
        if as_json:
            _console.print_json(as_object.as_object(about))
        elif markdown:
            _console.say_document(as_markdown.markdown(about))
        else:
            _console.say(html.write(found, about))
