"""Errors that a person can act on: what was expected, what came, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ChaosError(Exception):
    """Base of all errors that end a command with exit code 3 and one clear message instead of a traceback."""


class BadInput(ChaosError):
    """Something that the user gave is wrong. ``problems`` holds one line per fault found, all of them at once."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class DeploymentError(ChaosError):
    """Nodes could not be started, reached or stopped."""


class HostLost(DeploymentError):
    """A host that nodes run on can't be reached, or not for now."""


class MachineError(ChaosError):
    """The machine lacks something (Java, a port, disk space); the message says what to install or free."""


class KernelLacks(MachineError):
    """A kernel can't do something to links between nodes. ``actions``: what, classes of
    :data:`chaos.effects.links.ACTIONS`."""

    def __init__(self, message: str, actions: frozenset[type]) -> None:
        super().__init__(message)
        self.actions = actions


class DamagedHistory(ChaosError):
    """A recorded run can't be read to its end; what can be read is still judged, and the verdict is UNKNOWN at best."""


class Overtaken(DamagedHistory):
    """What was read of a run that goes on became a segment meanwhile, or was put elsewhere: read again, it is there."""


def meant(name: str, known: Iterable[str]) -> str:
    """Return a hint for a misspelt name: the nearest known one, such as one that it begins; "" when none is near."""
    names = sorted(known)
    longer = sorted((one for one in names if name and one.startswith(f"{name}_")), key=len)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.8) or longer
    close = close or difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else ""
