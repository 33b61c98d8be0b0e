"""``stormproof init``: examples to start from."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click

from chaos.errors import BadInput, MachineError


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
def init(directory: Path) -> None:
    """Copy the examples to DIRECTORY, to start from; files that exist are never overwritten."""
    sources = sorted(
        (entry for entry in resources.files("stormproof.examples").iterdir() if entry.name.endswith(".yaml")),
        key=lambda entry: entry.name,
    )
    present = [source.name for source in sources if (directory / source.name).exists()]
    if present:
        raise BadInput(f"{directory} already has {', '.join(present)}; choose another folder")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for source in sources:
            (directory / source.name).write_bytes(source.read_bytes())
            click.echo(directory / source.name)
    except OSError as error:
        raise MachineError(f"cannot write to {directory}: {error.strerror or error}") from error
