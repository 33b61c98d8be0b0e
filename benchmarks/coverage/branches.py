"""Branches of the reference system's policy, from its source; and which of them a run took, by tracing its lines.

A branch is one outcome of an ``if`` (or of an ``elif``): the condition held, or it didn't. Conditions within an
expression (``a if b else c``, ``and``, comprehensions) are not distinguished: they share a line.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

#: Where the policy stands; what only packs, unpacks and answers people is left out.
FOLDERS = ("broker", "controller", "tier", "objectstore")
#: Where a frame goes that leaves its function.
LEFT = -1
#: Frames within a line: of a comprehension, or of a function without a name.
WITHIN = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>")


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Branch:
    """``file`` from the top of the tree; ``line`` and ``condition`` are those of the ``if``."""

    file: str
    line: int
    held: bool
    condition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _If:
    """The lines of a condition, and those of what is done when it holds."""

    line: int
    test: range
    body: range
    condition: str


@dataclass(slots=True)
class Lines:
    """Steps from line to line, by file: what a run did."""

    steps: dict[str, set[tuple[int, int]]] = field(default_factory=dict)


def sources(root: Path) -> Mapping[str, Path]:
    """Return the files of the policy, by their path from the top of the tree."""
    found = [path for folder in FOLDERS for path in sorted((root / "reference" / folder).glob("*.py"))]
    return {path.relative_to(root).as_posix(): path for path in found}


def branches(file: str, text: str) -> Iterator[tuple[Branch, _If]]:
    """Both outcomes of each ``if`` of a file, in the order of its lines."""
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.If)]
    for node in sorted(found, key=lambda node: node.lineno):
        if "TYPE_CHECKING" in (condition := ast.unparse(node.test)):
            continue
        one = _If(
            line=node.lineno,
            test=range(node.test.lineno, (node.test.end_lineno or node.test.lineno) + 1),
            body=range(node.body[0].lineno, (node.body[-1].end_lineno or node.body[-1].lineno) + 1),
            condition=condition,
        )
        for held in (True, False):
            yield Branch(file=file, line=node.lineno, held=held, condition=condition), one


def taken(file: str, text: str, lines: Lines) -> set[Branch]:
    """Which branches of a file these steps took."""
    steps = lines.steps.get(file, set())
    into = {
        where: {after for before, after in steps if before in where and after not in where}
        for where in {one.test for _, one in branches(file, text)}
    }
    return {
        branch
        for branch, one in branches(file, text)
        if any((after in one.body) is branch.held for after in into[one.test])
    }


@contextmanager
def tracing(root: Path) -> Iterator[Lines]:
    """Collect the steps that this thread takes in the policy's files. It slows them down tenfold."""
    names = {str(path): file for file, path in sources(root).items()}
    lines = Lines()

    def entered(frame: FrameType, event: str, value: Any) -> Any:
        file = names.get(frame.f_code.co_filename)
        if file is None or frame.f_code.co_name in WITHIN:
            return None
        steps, last = lines.steps.setdefault(file, set()), [frame.f_lineno]

        def stepped(frame: FrameType, event: str, value: Any) -> Any:
            if event == "line":
                steps.add((last[0], frame.f_lineno))
                last[0] = frame.f_lineno
            elif event == "return":
                steps.add((last[0], LEFT))
            return stepped

        return stepped

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        yield lines
    finally:
        sys.settrace(before)
