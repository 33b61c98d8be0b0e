"""All mutants of a system, how they are drawn, and what each looks like."""

from __future__ import annotations

import difflib
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

from benchmarks.mutation.operators import Change, Operator, changes
from benchmarks.mutation.systems import REFERENCE, System

ROOT = Path(__file__).parents[2]
#: Where the names of mutants begin.
_CODE = "reference/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A change of one file. ``id`` holds the module, the function, the operator, and a digest of the statement and of
    what becomes of it, so that it means the same change after edits elsewhere. ``path`` begins at the root of the
    project, with ``/``."""

    id: str
    path: str
    change: Change

    @property
    def module(self) -> str:
        return module_of(self.path)

    @property
    def operator(self) -> Operator:
        return self.change.operator

    def source(self, root: Path = ROOT) -> str:
        """Return the whole file, changed."""
        data = (root / self.path).read_bytes()
        return (data[: self.change.start] + self.change.new.encode() + data[self.change.end :]).decode()

    def diff(self, root: Path = ROOT) -> str:
        """Return the change as a unified diff with one line around it."""
        before = (root / self.path).read_text("utf-8").splitlines()
        lines = difflib.unified_diff(before, self.source(root).splitlines(), self.path, self.path, n=1, lineterm="")
        return "\n".join(list(lines)[2:])


def module_of(path: str) -> str:
    """Return the name of the module in a file, whose path begins at the root of the project."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def all_mutants(root: Path = ROOT, system: System = REFERENCE) -> list[Mutant]:
    """Return every mutant of the system, in the order of files and places."""
    return [mutant for path in files(root, system) for mutant in _mutants_of(path.relative_to(root).as_posix(), path)]


def files(root: Path = ROOT, system: System = REFERENCE) -> Iterator[Path]:
    """Yield the files of the system that are changed."""
    for path in sorted((root / system.folder).rglob("*.py")):
        if not path.relative_to(root).as_posix().startswith(system.left_out):
            yield path


def _mutants_of(name: str, path: Path) -> Iterator[Mutant]:
    seen: Counter[str] = Counter()
    stem = name.removeprefix(_CODE).removesuffix(".py")
    for change in changes(path.read_text("utf-8")):
        what = "\0".join((change.statement, change.old, change.new))
        text = f"{stem}:{change.place}:{change.operator}:{hashlib.sha256(what.encode()).hexdigest()[:6]}"
        seen[text] += 1  # the same change of the same statement may be possible twice in a function
        yield Mutant(id=text if seen[text] == 1 else f"{text}.{seen[text]}", path=name, change=change)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A sample, in the order in which it was drawn. ``trivial`` were drawn on the way and left out."""

    mutants: tuple[Mutant, ...]
    trivial: tuple[Mutant, ...] = ()


def draw(mutants: Iterable[Mutant], seed: int, count: int, root: Path = ROOT) -> Drawn:
    """``count`` of the mutants, each as likely as any other, always the same for one seed. A larger sample begins with
    the smaller one, and an edit of the system changes the sample only where it changes mutants. Those that are no
    change at all (:func:`is_trivial`) don't count."""

    def rank(mutant: Mutant) -> bytes:
        return hashlib.sha256(f"{seed}/{mutant.id}".encode()).digest()

    kept: list[Mutant] = []
    trivial: list[Mutant] = []
    for mutant in sorted(mutants, key=rank):
        if len(kept) == count:
            break
        (trivial if is_trivial(mutant, root) else kept).append(mutant)
    return Drawn(mutants=tuple(kept), trivial=tuple(trivial))


def is_trivial(mutant: Mutant, root: Path = ROOT) -> bool:
    """Return whether the interpreter makes the same program of the changed source."""
    sources = ((root / mutant.path).read_text("utf-8"), mutant.source(root))
    before, after = (_program(compile(source, mutant.path, "exec")) for source in sources)
    return before == after


def _program(code: CodeType) -> CodeType:
    """Without the lines that its instructions come from."""
    inner = tuple(_program(one) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_consts=inner, co_linetable=b"", co_firstlineno=1)
