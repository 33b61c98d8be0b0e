"""``stormproof compose``: a file that starts the servers in containers, by hand."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from chaos.driver import promising
from chaos.errors import BadInput
from stormproof import shipped
from stormproof.commands import _console
from stormproof.commands._options import ExperimentFile


@click.command(hidden=True)
@click.argument("file", type=ExperimentFile())
@click.option("--bug", "--mutant", "mutant", default="", metavar="NAME", help="Plant this bug.")
def compose(file: Path, mutant: str) -> None:
    """Print a docker-compose.yml with the servers of the experiment in FILE, for experiments by hand."""
    from chaos.experiment.reader import load
    from stormproof.compose import compose as write

    experiment = load(file, deployment="docker", mutant=mutant)
    driver = promising(experiment.system.build(), experiment.profile)
    words = ["stormproof", "compose", shipped.word_for(file), *(["--bug", mutant] if mutant else [])]
    cluster = driver.cluster(mutant)
    if programs := [node.name for node in cluster.nodes if node.program is not None]:
        raise BadInput(f"node {programs[0]} is a program of others: write the compose file of its system by hand")
    _console.say_document(write(experiment.name, cluster, driver.queues()[0].topic, shlex.join(words)))
