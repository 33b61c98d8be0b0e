"""``stormproof init``: examples to start from."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click

from chaos.errors import BadInput, MachineError
from stormproof.commands import _console
from stormproof.shipped import EXAMPLES


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
def init(directory: Path) -> None:
    """Copy the examples to DIRECTORY, to start from; files that exist are never overwritten.

    They stand in folders by purpose, those for a system by others in `systems`.
    """
    with resources.as_file(resources.files(EXAMPLES)) as examples:
        sources = {path.relative_to(examples): path for path in sorted(examples.rglob("*.yaml"))}
        present = [str(name) for name in sources if (directory / name).exists()]
        if present:
            raise BadInput(f"{directory} already has {', '.join(present)}; choose another folder")
        try:
            for name, source in sources.items():
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                (directory / name).write_bytes(source.read_bytes())
                _console.say(directory / name)
        except OSError as error:
            raise MachineError(f"cannot write to {directory}: {error.strerror or error}") from error
