"""How the programs of a system that others wrote come onto this machine.

A driver's module offers ``RECIPES``, one for each version, the preferred one first, and perhaps ``recipe(version)``,
which makes one for any other version or raises ``ValueError``; ``stormproof install NAME@VERSION`` follows it once. A
node's :class:`chaos.program.Program` names its recipe: then what was installed is brought to where the node runs. On
this machine the driver finds the programs with :meth:`Recipe.program`. Nothing but the driver knows the system.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from chaos.errors import BadInput

#: What a driver's module calls its recipes.
RECIPES = "RECIPES"
#: The name of its function that makes a recipe for a version that is not among them.
ON_DEMAND = "recipe"
#: What each sentence has that says that something must be installed first: a system, or the library of a driver.
MISSING = "is not installed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command of a recipe, run in its folder without a shell and without standard input. ``does`` says what for,
    ``mend`` what a person can do when it fails; it is killed after ``limit_s``. ``lists``: a command that prints which
    versions there are, among other words; it is asked when the step fails, which may be because there is no such
    version."""

    command: Sequence[str]
    does: str
    mend: str
    limit_s: float = 1800.0
    lists: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Builds one version of a system's programs in a folder that is empty but for ``files`` (path → text).

    ``system``: the driver's name. ``tools``: commands that must be on the PATH, and how to come by each. ``env``: added
    to the environment of all steps. ``makes``: what must be in the folder afterwards. All paths are relative.
    """

    system: str
    version: str
    tools: Mapping[str, str]
    files: Mapping[str, str]
    steps: Sequence[Step]
    makes: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.system} {self.version}"

    @property
    def folder(self) -> Path:
        """In the user's cache; another recipe for the same version has a folder of its own."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        commands = [tuple(step.command) for step in self.steps]
        digest = sha256(repr((sorted(self.files.items()), sorted(self.env.items()), commands)).encode()).hexdigest()
        return cache / "stormproof" / "systems" / f"{self.system}-{self.version}-{digest[:8]}"

    @property
    def installed(self) -> bool:
        return all((self.folder / made).exists() for made in self.makes)

    @property
    def problem(self) -> str:
        """Why its programs can't be run; "" when they are installed."""
        if self.installed:
            return ""
        return f"{self.title} {MISSING} here: `stormproof install {self.system}@{self.version}` builds it"

    def program(self, path: str) -> Path:
        """Where a file of the installation is. Raises :class:`BadInput` when it was not installed."""
        if self.problem:
            raise BadInput(self.problem)
        return self.folder / path
