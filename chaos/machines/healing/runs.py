"""What healers have in common on all deployments: which run is meant, and going on after one that can't be healed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO, TypeVar

from chaos import guarded
from chaos.errors import BadInput, ChaosError, DeploymentError, MachineError
from chaos.machines.healing import marks, state

T = TypeVar("T")


def made_in(run: Path) -> Path:
    """Return where a run was made, by which its processes and containers are known: where it is, unless its mark says
    that the user has said otherwise. No file of a run is asked: it might name the directory of another."""
    mark = marks.read(run)
    return mark.made if mark is not None else run.resolve()


def belonging_to(root: Path) -> Callable[[str], bool]:
    """Return a function that says whether what was made in a directory belongs to the runs in this folder and below
    it."""
    within, known = root.resolve(), [] if state.problem() else marks.below(root)
    moved = {mark.made for mark in known}
    return lambda made: Path(made).is_relative_to(within) or Path(made) in moved


def added_to(path: Path) -> BinaryIO:
    """Return a file in a folder of a run, to which something is added; both are made if need be. Raises
    :class:`MachineError` where something else is in their place: who made the run may have had it lead elsewhere."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        inside = guarded.below(path.parent.parent, f"{path.parent.name}/{path.name}")
        return os.fdopen(guarded.appended(inside), "ab")
    except BadInput as error:
        raise MachineError(str(error)) from error
    except OSError as error:
        raise MachineError(f"cannot write {path}: {error.strerror or error}") from error


def each(heal: Callable[[T], list[str]], items: Iterable[T]) -> list[str]:
    """Heal all of them, whatever one meets, and return what was done. Raises :class:`DeploymentError` after the last
    one: with what was done too, for that would be reported nowhere else."""
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
