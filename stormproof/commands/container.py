"""``stormproof image`` and ``compose``: what containers are started from, and a file that starts them by hand."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from chaos.driver import promising
from stormproof.commands import _console


@click.command()
@click.option("--base", default="", metavar="IMAGE", help="Build upon this image instead of the one that fits here.")
def image(base: str) -> None:
    """Build the image of the nodes, for `run --on docker` and for docker-compose.

    It is built upon python:3.12-slim where that can be pulled, otherwise upon a minimal Debian that is made from the
    distribution's packages (which needs root and debootstrap).
    """
    from chaos.machines.docker.engine import connect
    from stormproof.image import build

    client = connect()
    try:
        build(client, lambda sentence: _console.err().print(sentence, markup=False), base=base)
    finally:
        client.close()


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--mutant", default="", metavar="NAME", help="Plant this bug.")
def compose(file: Path, mutant: str) -> None:
    """Print a docker-compose.yml with the servers of the experiment in FILE, for experiments by hand."""
    from chaos.experiment.reader import load
    from stormproof.compose import compose as write

    experiment = load(file, deployment="docker", mutant=mutant)
    driver = promising(experiment.system.build(), experiment.profile)
    words = ["stormproof", "compose", file.as_posix(), *(["--mutant", mutant] if mutant else [])]
    click.echo(write(experiment.name, driver.cluster(mutant), driver.queues()[0].topic, shlex.join(words)), nl=False)
