"""What a run may have to undo by itself alone: no process or container that carries its mark would show it.

It is kept in the run's mark, in the user's state folder, and undone from there. A copy stands in the run's directory,
for people and for ``stormproof heal RUN --trust``. The names of keys, of files of known hosts and of variables that
hold secrets are in the mark alone: nobody takes them from a run, so that no run can have a secret sent to a host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Strict, TypeAdapter

from chaos import guarded
from chaos.errors import ChaosError, DeploymentError
from chaos.experiment.inventory import Inventory
from chaos.history import manifest
from chaos.history.directory import uncleared, write_json
from chaos.machines import procfs
from chaos.machines.healing import marks, state


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a run says of itself that nobody vouches for. ``lines``: what would be done about it, in sentences, in which
    any character may stand. ``left``: as in a :class:`chaos.machines.healing.marks.Mark`."""

    lines: Sequence[str] = ()
    left: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """``harness``: the process that drives the run, ``PID:START``. ``cleared``: nothing is left there any more."""

    FILE: ClassVar[str]
    DEPLOYMENT: ClassVar[str]

    harness: str
    cleared: Annotated[bool, Strict()] = False

    def check(self) -> None:
        """Raise ``ValueError`` for what can't have been written."""

    def public(self, inventory: Inventory = ()) -> Self:
        """Return the same without what no run may name, or with what this inventory says of the same hosts."""
        return self

    def lines(self) -> list[str]:
        """Return what healing would do, in sentences."""
        raise NotImplementedError

    def write(self, directory: Path) -> None:
        """Write it into the run's mark, and then into its directory. Raises :class:`chaos.errors.MachineError`."""
        if not self.cleared:
            marks.keep(directory, self.DEPLOYMENT, self.FILE, asdict(self))
        if directory.is_dir():
            write_json(directory / self.FILE, asdict(self.public()))
        if self.cleared:
            marks.remove(directory)

    @classmethod
    def read(cls, directory: Path) -> Self | None:
        """Return what is left, None when nothing is. Raises :class:`DeploymentError` when something may be, and no mark
        says what."""
        mark, path = marks.read(directory), directory / cls.FILE
        if mark is not None and cls.FILE in mark.left:
            try:
                return cls._parsed(mark.left[cls.FILE])
            except ValueError as error:
                raise DeploymentError(f"the mark of {directory} is not what was written: {error}") from error
        if not uncleared(path):
            return None
        why = state.problem() or f"no mark of it is in {state.place()}"
        raise DeploymentError(
            f"{path} says that run {directory.name} has left something, and nothing says that this user made it here:"
            f" {why}; if it is yours, `stormproof heal {directory} --trust` first lists what it would do"
        )

    @classmethod
    def claim(cls, directory: Path, inventory: Inventory = ()) -> Claim:
        """Return what the run's own file says. Raises :class:`DeploymentError` for one that isn't what was written."""
        path = directory / cls.FILE
        if not uncleared(path):
            return Claim()
        try:
            if problem := manifest.altered(directory, manifest.read(directory), cls.FILE, newest=2):
                raise ValueError(problem)
            left = cls._parsed(guarded.read_json(path)).public(inventory)
        except (ChaosError, OSError, ValueError) as error:
            raise DeploymentError(f"{path} is not what a run writes there: {error}") from error
        return Claim(lines=left.lines(), left={cls.FILE: asdict(left)})

    @classmethod
    def below(cls, root: Path) -> list[tuple[Path, Self]]:
        """Return what is left of all runs of this user in this folder and below it, by the run's directory."""
        return [(run, left) for run in cls._marked(root) if (left := cls.read(run))]

    @classmethod
    def runs(cls, root: Path) -> list[Path]:
        """Return the runs in this folder of which something is left, by their marks or as they say themselves."""
        within, claiming = root.resolve(), (file.parent for file in root.glob(f"*/{cls.FILE}") if uncleared(file))
        here = [run for run in map(Path.resolve, claiming) if run.is_relative_to(within)]  # a link may lead elsewhere
        return sorted({*cls._marked(root), *here})

    @classmethod
    def _marked(cls, root: Path) -> list[Path]:
        return [] if state.problem() else [mark.directory for mark in marks.below(root) if cls.FILE in mark.left]

    def driven(self, run: Path) -> list[str]:
        """Return the sentence for a run whose harness still lives: it will heal itself."""
        process = procfs.living(self.harness)
        return [f"run {run.name} is still driven by process {process}; stop that first"] if process else []

    @classmethod
    def _parsed(cls, fields: object) -> Self:
        """Return what these fields of JSON say. Raises ``ValueError``."""
        left: Self = TypeAdapter(cls).validate_python(fields)
        left.check()
        return left
