"""What healers have in common on all deployments: which run is meant, and going on after one that can't be healed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from chaos.errors import ChaosError, DeploymentError
from chaos.history import directory, manifest

T = TypeVar("T")


def made_in(run: Path) -> Path:
    """Where a run was made, by which its processes and containers are known: elsewhere if it was moved since. A
    ``run.json`` that isn't what was written is not believed: it might name another run's directory."""
    here = run.resolve()
    try:
        told = directory.read_meta(run).get("directory")
        damage = manifest.altered(run, manifest.read(run), directory.META, newest=2)
    except ChaosError:  # torn: it is looked for where it is
        return here
    made = Path(str(told)) if told and not damage else here
    return here if made.exists() else made  # what is there still is the original of a copy


def each(heal: Callable[[T], list[str]], items: Iterable[T]) -> list[str]:
    """Heal all of them, whatever one meets, and tell what was done. Raises :class:`DeploymentError` after the last one:
    with what was done too, for that would be told nowhere else."""
    done: list[str] = []
    problems: list[str] = []
    for item in items:
        try:
            done += heal(item)
        except ChaosError as error:
            problems.append(str(error))
    if problems:
        raise DeploymentError("\n".join([*done, *problems]))
    return done
