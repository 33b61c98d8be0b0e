"""What ``up``, ``down`` and ``heal`` share: clusters whose nodes can outlive the command that started them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import click

from chaos import plugins
from chaos.errors import BadInput
from chaos.history import directory
from chaos.plugins import PluginKind

#: The deployment of runs that don't tell theirs, and of `up`.
DEFAULT = "process"
HEAL, HEAL_ALL = "heal", "heal_all"

Healer = Callable[[Path], list[str]]


def healers(function: str) -> Mapping[str, Healer]:
    """This function of each deployment whose nodes can outlive the command that started them; a broken one has none."""
    found: dict[str, Healer] = {}
    for name in plugins.names(PluginKind.DEPLOYMENT):
        try:
            healer = getattr(plugins.load(PluginKind.DEPLOYMENT, name), function, None)
        except BadInput:
            continue
        if healer is not None:
            found[name] = healer
    return found


def heal_run(run: Path) -> list[str]:
    heal = healers(HEAL).get(directory.read_meta(run).get("deployment", DEFAULT))
    return heal(run) if heal is not None else []


def show(where: Path, done: list[str]) -> None:
    for sentence in done:
        click.echo(sentence)
    if not done:
        click.echo(f"{where}: nothing to heal")
