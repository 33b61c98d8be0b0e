"""What ``up``, ``down`` and ``heal`` share: clusters whose nodes can outlive the command that started them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from chaos import plugins
from chaos.history import directory
from chaos.plugins import PluginKind

PROCESS = "process"
#: Deployments whose nodes can outlive the command.
LASTING = (PROCESS, "docker", "ssh")


def heal_run(run: Path) -> list[str]:
    where = directory.read_meta(run).get("deployment", PROCESS)
    return healer(where, "heal")(run) if where in LASTING else []


def healer(deployment: str, name: str) -> Callable[[Path], list[str]]:
    healer: Callable[[Path], list[str]] = getattr(plugins.load(PluginKind.DEPLOYMENT, deployment), name)
    return healer


def show(where: Path, done: list[str]) -> None:
    for sentence in done:
        click.echo(sentence)
    if not done:
        click.echo(f"{where}: nothing to heal")
