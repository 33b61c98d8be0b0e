"""Runs in the formats of other programs: a file for each format, and nothing else knows its name.

A module here has ``FILE``, the name of what it writes into the run's directory; ``export(run)``, which returns its
bytes; and a docstring whose first line says what the format is for.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from chaos import guarded


def formats() -> list[str]:
    """Return the names of the formats, in alphabetical order."""
    return sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))


def about(name: str) -> str:
    """Say what a format is for, in a line."""
    return (import_module(f"{__name__}.{name}").__doc__ or "").partition("\n")[0]


def write(run: Path, name: str) -> Path:
    """Write a run in the format of this name into its directory, and return the file's path. Raises
    :class:`chaos.errors.BadInput` for what is not a run, :class:`chaos.errors.MachineError` when the disk is full."""
    module = import_module(f"{__name__}.{name}")
    return guarded.write(run / module.FILE, module.export(run))
