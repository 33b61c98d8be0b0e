"""How a command ends that judges runs: part of the command-line contract."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from chaos.verdict import RunVerdict, Validity


class Engine(StrEnum):
    """Where the laws run."""

    SPARK = "spark"
    LOCAL = "local"


#: The anomaly that has an exit code of its own, whichever law reports it.
NOT_RECOVERED = "not-recovered"


class ExitCode:
    """How a command ends; part of the command-line contract."""

    VALID = 0
    INVALID = 1
    UNKNOWN = 2
    ERROR = 3
    NOT_RECOVERED = 4
    NOT_REACHED = 5


#: The worst first.
_ORDER = (
    *(ExitCode.INVALID, ExitCode.NOT_RECOVERED, ExitCode.ERROR, ExitCode.NOT_REACHED, ExitCode.UNKNOWN),
    ExitCode.VALID,
)


def exit_code(verdict: RunVerdict) -> int:
    """Not to recover is INVALID, but has its own code when nothing else was violated."""
    if verdict.validity is Validity.VALID:
        return ExitCode.VALID
    if verdict.validity is Validity.UNKNOWN:
        return ExitCode.UNKNOWN
    sole = set(verdict.anomaly_counts()) == {NOT_RECOVERED}
    return ExitCode.NOT_RECOVERED if sole else ExitCode.INVALID


def worst_code(codes: Sequence[int]) -> int:
    """The code of a command that judged several runs; nothing judged is UNKNOWN."""
    return min(codes, key=_ORDER.index) if codes else ExitCode.UNKNOWN


def error_object(seed: int, error: str, directory: Path | None) -> dict[str, Any]:
    """A seed that the harness could not bring to a verdict, in the fields that a verdict has too."""
    where = "" if directory is None else str(directory)
    return {"run": where, "seed": seed, "verdict": "ERROR", "anomalies": {}, "why": [error]}


def not_run_object(seed: int) -> dict[str, Any]:
    """A seed that was asked for and never begun: the time was up, or the first failure ended the sweep."""
    return {"run": "", "seed": seed, "verdict": "NOT RUN", "anomalies": {}, "why": []}
