"""``stormproof image``: what containers are started from."""

from __future__ import annotations

import click

from stormproof.commands import _console


@click.command(hidden=True)
@click.option(
    "--base", default="", metavar="IMAGE", help="Build upon this image instead of the default for this machine."
)
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
