"""``stormproof schema``: what editors need to know of experiment files."""

from __future__ import annotations

import click

from stormproof.commands import _console


@click.command(hidden=True)
def schema() -> None:
    """Print the JSON Schema of experiment files, for editors."""
    from chaos.experiment.schema import schema as describe

    _console.print_json(describe())
