"""One run of one mutant, in a process of its own: loads the changed source, runs, judges, and says how it was found.

The changed source goes from memory into the interpreter; nothing is written into the tree. Before the statement that
was changed stands a call that counts how often it was reached.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.machinery
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from importlib.abc import MetaPathFinder
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from benchmarks.mutation.mutants import Mutant
from chaos.errors import ChaosError
from chaos.experiment.reader import load
from chaos.history.recorder import STREAM
from chaos.shell.node_process import die_with
from chaos.verdict import RunVerdict, Validity
from stormproof.judge import Engine, judge, prepare
from stormproof.launch import SIM, Launch, start

#: What a process may take: a mutant that collects for ever ends by this, and not by the machine's end.
MEMORY_BYTES = 6 << 30
#: Processor time that one run may take; the correct system takes some seconds. It doesn't depend on the machine's load.
PROCESSOR_S = 120.0
_REACHED = "__reached__"


class Result(StrEnum):
    """How a run ended. The first two find nothing."""

    VALID = "VALID"
    UNKNOWN = "UNKNOWN"
    LAW = "law"
    CRASH = "crash"
    NO_SERVICE = "no service"
    NO_END = "no end"

    @property
    def finds(self) -> bool:
        return self not in (Result.VALID, Result.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What to run: a mutant (None: the correct system) through one experiment with one seed. ``experiment``: the name
    of an example, or the path of a file below the root of the project."""

    mutant: Mutant | None
    experiment: str
    seed: int

    def file(self, root: Path) -> Path:
        return root / (self.experiment if "/" in self.experiment else f"examples/{self.experiment}.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a trial. ``laws`` were broken; ``why`` is the first reason for UNKNOWN, or the error. ``history``
    is a digest of every row that was recorded, traces included: equal to the correct system's, the change had no effect
    in this run. ``reached``: how often the changed statement was; ``goals``: how often the run came to each goal of its
    experiment."""

    mutant: str
    experiment: str
    seed: int
    result: Result
    laws: tuple[str, ...] = ()
    why: str = ""
    history: str = ""
    reached: int = 0
    goals: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0


def run_all(pipe: Connection, trials: Sequence[Trial], root: Path, work: Path, until_found: bool) -> None:
    """The body of a worker process: run the trials, all of one mutant, in order, and send each one's :class:`Outcome`.
    A run that takes too long ends the process by SIGPROF. Only the parent hears Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with(os.getppid())  # the server of forks, which ends with the parent
    parent = multiprocessing.parent_process()
    if parent is None or not parent.is_alive():
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    reached = Counter[str]()
    mutant = trials[0].mutant
    if mutant is not None:
        _plant(mutant, root, reached)
    for trial in trials:
        reached.clear()
        signal.setitimer(signal.ITIMER_PROF, PROCESSOR_S)
        outcome = attempt(trial, trial.file(root), work, reached)
        pipe.send(outcome)
        if until_found and outcome.result.finds:
            break
    pipe.close()


def attempt(trial: Trial, file: Path, work: Path, reached: Mapping[str, int]) -> Outcome:
    """Run the experiment in ``file`` with the system as this process has it, and keep nothing."""
    began = time.monotonic()
    found: dict[str, Any]
    with tempfile.TemporaryDirectory(dir=work) as out:
        try:
            found = _judged(*_run(file, trial.seed, Path(out)))
        except Exception as error:  # whatever a mutant makes of the run, the command would end with it
            text = str(error) if isinstance(error, ChaosError) else f"{type(error).__name__}: {error}"
            found = {"result": Result.NO_SERVICE, "why": text[:300]}
    return Outcome(
        mutant=trial.mutant.id if trial.mutant else "",
        experiment=trial.experiment,
        seed=trial.seed,
        reached=reached.get(_REACHED, 0),
        seconds=round(time.monotonic() - began, 2),
        **found,
    )


def _run(file: Path, seed: int, out: Path) -> tuple[RunVerdict, str]:
    experiment = load(file, deployment=SIM)
    directory = start(Launch(experiment=experiment, file=file, deployment=SIM, seed=seed, mutant="", out=out))
    history = hashlib.sha256((directory / STREAM).read_bytes()).hexdigest()[:16]
    return judge([prepare(directory)], engine=Engine.LOCAL)[0], history


def _judged(verdict: RunVerdict, history: str) -> dict[str, Any]:
    """A crash counts only where no law has found anything: the law says more."""
    laws = tuple(sorted(str(law.law) for law in verdict.laws if law.validity is Validity.INVALID))
    crashes = [why for why in verdict.why if why.startswith(CRASHED)]
    if verdict.validity is Validity.INVALID:
        result = Result.LAW
    elif crashes:
        result = Result.CRASH
    else:
        result = Result(verdict.validity)
    why = (crashes or list(verdict.why) or [""])[0]
    return {"result": result, "laws": laws, "why": why[:300], "history": history, "goals": dict(verdict.reached)}


#: How the reason of a verdict begins when a node has died of its own exception.
CRASHED = "a node died of its own error"


# The changed source


def _plant(mutant: Mutant, root: Path, reached: Counter[str]) -> None:
    """Have the mutant's module loaded with the change from now on. It must not have been imported before."""
    if mutant.module in sys.modules:
        raise RuntimeError(f"{mutant.module} was imported before it could be changed")
    sys.meta_path.insert(0, _Planting(mutant.module, code_of(mutant, root), partial(reached.update, (_REACHED,))))


def code_of(mutant: Mutant, root: Path) -> CodeType:
    """The changed file, compiled, with the call that counts before the changed statement."""
    tree = ast.parse(mutant.source(root))
    _count(tree, mutant.change.line)
    return compile(ast.fix_missing_locations(tree), str(root / mutant.path), "exec")


def _count(tree: ast.AST, line: int) -> None:
    """Put the call before the innermost statement that holds the line."""
    block, at = _place(tree, line)
    call = ast.Expr(ast.Call(func=ast.Name(_REACHED, ast.Load()), args=[], keywords=[]))
    block.insert(at, ast.copy_location(call, block[at]))


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


class _Planting(MetaPathFinder):
    """Finds one module where it always is, and gives it other code."""

    def __init__(self, name: str, code: CodeType, count: Callable[[], None]) -> None:
        self._name = name
        self._code = code
        self._count = count

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        if fullname != self._name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert spec is not None and spec.origin is not None
        spec.loader = _Loader(fullname, spec.origin, self._code, self._count)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, code: CodeType, count: Callable[[], None]) -> None:
        super().__init__(name, path)
        self._changed = code
        self._count = count

    def get_code(self, fullname: str) -> CodeType:
        return self._changed

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__[_REACHED] = self._count
        super().exec_module(module)
