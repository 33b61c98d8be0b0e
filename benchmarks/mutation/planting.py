"""Has modules of a system loaded with other code: a mutant's, or one that counts its statements.

The changed source goes from memory into the interpreter; nothing is written into the tree. A module must not have been
imported before.
"""

from __future__ import annotations

import ast
import importlib.machinery
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from benchmarks.mutation.mutants import Mutant, files, module_of
from benchmarks.mutation.systems import System

#: The name that counted code has its counts by: a list, with an entry for each line of the file.
_HITS = "__hits__"


@dataclass(frozen=True, slots=True)
class Hits:
    """How often statements ran: for each file a list by the line that a statement begins at."""

    by_file: Mapping[str, list[int]]

    def clear(self) -> None:
        for counts in self.by_file.values():
            counts[:] = [0] * len(counts)

    def seen(self) -> dict[str, dict[str, int]]:
        """Return what ran at all: by file and line, as JSON would have it."""
        by_file = {
            name: {str(line): times for line, times in enumerate(counts) if times}
            for name, counts in self.by_file.items()
        }
        return {name: lines for name, lines in by_file.items() if lines}


def plant(mutant: Mutant, root: Path) -> Hits:
    """Have the mutant's module loaded with the change from now on, and count how often its statement runs."""
    source = mutant.source(root)
    counts = _counts(source)
    _load({mutant.module: (code_of(mutant, root), counts)})
    return Hits({mutant.path: counts})


def watch(root: Path, system: System) -> Hits:
    """Have every statement of the system's functions counted from now on."""
    hits: dict[str, list[int]] = {}
    planted: dict[str, tuple[CodeType, list[int]]] = {}
    for path in files(root, system):
        name, source = path.relative_to(root).as_posix(), path.read_text("utf-8")
        hits[name] = _counts(source)
        planted[module_of(name)] = (counting(source, str(path)), hits[name])
    _load(planted)
    return Hits(hits)


def code_of(mutant: Mutant, root: Path) -> CodeType:
    """Return the changed file, compiled, with the count before the changed statement."""
    tree = ast.parse(mutant.source(root))
    block, at = _place(tree, mutant.change.line)
    block.insert(at, _count(block[at]))
    return compile(ast.fix_missing_locations(tree), str(root / mutant.path), "exec")


def counting(source: str, path: str) -> CodeType:
    """Return a file, compiled, with a count before each statement that stands in a function."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    blocks = {id(block): block for function in functions for node in ast.walk(function) for block in _blocks(node)}
    for block in blocks.values():
        block[:] = [one for statement in block for one in (_count(statement), statement)]
    return compile(ast.fix_missing_locations(tree), path, "exec")


def statement_line(source: str, line: int) -> int:
    """Return the line that the innermost statement begins at which holds this line: where its runs are counted."""
    block, at = _place(ast.parse(source), line)
    return block[at].lineno


def _counts(source: str) -> list[int]:
    return [0] * (source.count("\n") + 2)


def _count(statement: ast.stmt) -> ast.stmt:
    line = ast.Subscript(ast.Name(_HITS, ast.Load()), ast.Constant(statement.lineno), ast.Store())
    return ast.copy_location(ast.AugAssign(line, ast.Add(), ast.Constant(1)), statement)


def _place(tree: ast.AST, line: int) -> tuple[list[ast.stmt], int]:
    found: tuple[list[ast.stmt], int] | None = None
    for node in ast.walk(tree):  # from the outside to the inside
        for block in _blocks(node):
            for at, statement in enumerate(block):
                if statement.lineno <= line <= (statement.end_lineno or 0):
                    found = (block, at)
    assert found is not None, f"no statement at line {line}"
    return found


def _blocks(node: ast.AST) -> Iterable[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            yield block


def _load(planted: Mapping[str, tuple[CodeType, list[int]]]) -> None:
    if early := sorted(planted.keys() & sys.modules.keys()):
        raise RuntimeError(f"{', '.join(early)} was imported before it could be changed")
    sys.meta_path.insert(0, _Planting(planted))


class _Planting(MetaPathFinder):
    """Finds modules where they always are, and gives them other code."""

    def __init__(self, planted: Mapping[str, tuple[CodeType, list[int]]]) -> None:
        self._planted = planted

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        if fullname not in self._planted:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert spec is not None and spec.origin is not None
        spec.loader = _Loader(fullname, spec.origin, *self._planted[fullname])
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, code: CodeType, counts: list[int]) -> None:
        super().__init__(name, path)
        self._changed = code
        self._counts = counts

    def get_code(self, fullname: str) -> CodeType:
        return self._changed

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__[_HITS] = self._counts
        super().exec_module(module)
