"""``stormproof install``: systems by others, to put under test."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.errors import BadInput
from stormproof.commands import _console


@click.command()
@click.argument("systems", nargs=-1, metavar="[NAME[@VERSION]]...")
@click.option("--from", "source", type=click.Path(path_type=Path), metavar="DIR",
              help="Copy the one system named from this folder, which holds what would be built.")  # fmt: skip
def install(systems: tuple[str, ...], source: Path | None) -> None:
    """Build the programs of systems that others wrote, once for each version; without a name, list them.

    A driver says how its system is built and from which registry. The programs go to the user's cache folder, where
    the driver finds them.
    """
    from stormproof.install import install as follow
    from stormproof.install import offers, recipe_for

    if source is not None and len(systems) != 1:
        raise BadInput(f"--from {source}: name the one system that it holds, as NAME@VERSION")
    if not systems:
        for recipe in offers():
            _console.say(f"{recipe.system}@{recipe.version}  {recipe.folder if recipe.installed else 'not installed'}")
        return
    for recipe in [recipe_for(system) for system in systems]:
        _console.say(follow(recipe, lambda sentence: _console.err().print(sentence, markup=False), source))
