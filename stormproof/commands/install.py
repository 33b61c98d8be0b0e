"""``stormproof install``: systems by others, to put under test."""

from __future__ import annotations

import click

from stormproof.commands import _console


@click.command()
@click.argument("systems", nargs=-1, metavar="[NAME[@VERSION]]...")
def install(systems: tuple[str, ...]) -> None:
    """Build the programs of systems that others wrote, once for each version; without a name, list them.

    A driver says how its system is built and from which registry. The programs go to the user's cache folder, where
    the driver finds them.
    """
    from stormproof.install import install as follow
    from stormproof.install import offers, recipe_for

    if not systems:
        for recipe in offers():
            click.echo(f"{recipe.system}@{recipe.version}  {recipe.folder if recipe.installed else 'not installed'}")
        return
    for recipe in [recipe_for(system) for system in systems]:
        click.echo(follow(recipe, lambda sentence: _console.err().print(sentence, markup=False)))
