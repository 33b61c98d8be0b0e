"""Reads an experiment from YAML and checks all of it before anything starts: every mistake at once, with its line."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from chaos.errors import BadInput
from chaos.experiment import source as yaml
from chaos.experiment.checks import Setting, name_of
from chaos.experiment.forms import validated
from chaos.experiment.model import Experiment, File, Replay
from chaos.experiment.profiles import KEY


def replay_of(path: Path) -> Replay:
    """Return what a file says of the run that it repeats. A mistake in that, or in the file, is left to :func:`load`,
    which reports it with all others."""
    try:
        root = yaml.read(path).root
        return TypeAdapter(Replay).validate_python(root.get("replay") if isinstance(root, dict) else None)
    except (BadInput, ValidationError):
        return Replay()


def load(path: Path, *, deployment: str, mutant: str = "", injects: bool = True) -> Experiment:
    """Read and check an experiment for this deployment; unless its faults are injected, it need not be able to.
    Raises :class:`BadInput` that holds every problem found."""
    setting = Setting(deployment=deployment, mutant=mutant, injects=injects)
    source = yaml.read(path)
    file = validated(File, source, setting, beside=setting.problems, elsewhere=setting.elsewhere)
    assert setting.driver is not None
    given = {field.name: getattr(file, field.name) for field in dataclasses.fields(File)}
    line = source.lines[KEY,] if file.promises.said else 0
    named = {"name": file.name or name_of(path), "profile": setting.driver.profile(), "profile_line": line}
    return Experiment(**{**given, **named, "source": source.text, "events": setting.events})
