"""``stormproof up``: a cluster that stays, for experiments by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from chaos.errors import BadInput
from chaos.history import directory as store
from chaos.history.run_meta import UP
from stormproof.commands import _console
from stormproof.commands._healing import DEFAULT, HEAL, healers
from stormproof.commands._hosts import hosts_of, inventory_option
from stormproof.commands._options import ExperimentFile, out_option, state_option
from stormproof.commands._single import say_unmarked


@click.command()
@click.argument("file", type=ExperimentFile())
@click.option(
    "--on",
    "where",
    default=DEFAULT,
    show_default=True,
    metavar="NAME",
    help="Deployment (see `stormproof list deployments`).",
)
@click.option("--bug", "--mutant", "mutant", default="", metavar="NAME", help="Plant this bug.")
@inventory_option
@out_option
@state_option
def up(file: Path, where: str, mutant: str, inventory: Path | None, out: Path) -> None:
    """Start the system of FILE, leave it running, and print its addresses. `stormproof down` ends it."""
    from chaos.experiment.capabilities import deployment_class
    from chaos.experiment.powers import starts
    from chaos.experiment.reader import load
    from chaos.run.runner import bring_up
    from stormproof.launch import Launch, build, deploy, describe, mark

    lasting = [name for name in healers(HEAL) if starts(deployment_class(name))]
    if where not in lasting:
        raise BadInput(f"--on {where}: expected a deployment whose nodes can stay: {', '.join(lasting)}")
    hosts = hosts_of(inventory, where)
    experiment = replace(load(file, deployment=where, mutant=mutant, injects=False), faults=())
    launch = Launch(experiment=experiment, file=file, deployment=where, seed=0, mutant=mutant, out=out, inventory=hosts)
    driver = build(launch)
    say_unmarked(where)
    directory = store.new_run(out, f"{experiment.name}-{UP}", 0)
    store.write_meta(directory, describe(launch, driver, directory))
    mark(launch, directory)
    deployment: Any = deploy(launch, directory)  # those whose nodes can outlive this command can also expose them
    addresses: dict[str, str] = {}

    async def start() -> int:
        try:
            view = await bring_up(deployment, driver, mutant=mutant)
        except BaseException:
            await deployment.stop()
            raise
        for node in (*view.controllers, *view.others, *view.brokers, *view.tier):
            host, port = deployment.expose(UP, node)
            addresses[node] = f"{host}:{port}"
        return 0

    try:
        deployment.execute(start())
        store.update_meta(directory, state=UP, addresses=addresses)
    except BaseException:
        store.update_meta(directory, state="failed")
        raise
    for node, address in addresses.items():
        _console.say(f"{node:<16} {address}")
    _console.err().print(f"running in {directory}; `stormproof down` ends it", markup=False)
