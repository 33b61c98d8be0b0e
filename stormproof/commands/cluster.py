"""``stormproof up``, ``down`` and ``heal``: clusters that stay, and what a killed harness left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from chaos import plugins
from chaos.errors import BadInput
from chaos.history import directory as store
from chaos.history.directory import UP
from chaos.machines.healing import each
from chaos.plugins import PluginKind
from stormproof.commands import _console
from stormproof.commands._options import hosts_of, inventory_option, out_option
from stormproof.launch import Launch, build, deploy, describe

PROCESS = "process"
#: Deployments whose nodes can outlive this command.
LASTING = (PROCESS, "docker", "ssh")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--on", "where", type=click.Choice(LASTING), default=PROCESS, show_default=True, help="Where.")
@click.option("--mutant", default="", metavar="NAME", help="Plant this bug.")
@inventory_option
@out_option
def up(file: Path, where: str, mutant: str, inventory: Path | None, out: Path) -> None:
    """Start the system of FILE, leave it running, and print its addresses. `stormproof down` ends it."""
    from chaos.experiment.reader import load
    from chaos.run.runner import bring_up

    hosts = hosts_of(inventory, where)
    experiment = load(file, deployment=where, mutant=mutant)
    launch = Launch(experiment=experiment, file=file, deployment=where, seed=0, mutant=mutant, out=out, inventory=hosts)
    driver = build(launch)
    directory = store.new_run(out, f"{experiment.name}-{UP}", 0)
    store.write_meta(directory, describe(launch, driver, directory))
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
        click.echo(f"{node:<16} {address}")
    _console.err().print(f"running in {directory}; `stormproof down` ends it", markup=False)


@click.command()
@out_option
def down(out: Path) -> None:
    """End every cluster that `stormproof up` left running."""
    ended: list[Path] = []

    def end(run: Path) -> list[str]:
        if store.read_meta(run).get("state") == UP:
            ended.append(run)
            _tell(run, _heal(run))
            store.update_meta(run, state="finished")
        return []

    each(end, store.runs(out))
    if not ended:
        click.echo(f"nothing is up in {out}")


@click.command()
@click.argument("run", required=False)
@click.option("--all", "everything", is_flag=True, help="All that runs left here, and those in --out on hosts.")
@out_option
def heal(run: str | None, everything: bool, out: Path) -> None:
    """Undo the faults and end what a killed harness left, processes, containers and what it has on hosts: of one RUN
    (default: the latest), or --all.

    A cluster that `stormproof up` left running is ended too.
    """
    if everything and run:
        raise BadInput("give a RUN or --all, not both")
    if everything:
        _tell(out, each(lambda name: _healer(name, "heal_all")(out), LASTING))
    else:
        directory = store.resolve(run or store.LATEST, out)
        _tell(directory, _heal(directory))


def _heal(run: Path) -> list[str]:
    where = store.read_meta(run).get("deployment", PROCESS)
    return _healer(where, "heal")(run) if where in LASTING else []


def _healer(deployment: str, name: str) -> Callable[[Path], list[str]]:
    healer: Callable[[Path], list[str]] = getattr(plugins.load(PluginKind.DEPLOYMENT, deployment), name)
    return healer


def _tell(where: Path, done: list[str]) -> None:
    for sentence in done:
        click.echo(sentence)
    if not done:
        click.echo(f"{where}: nothing to heal")
