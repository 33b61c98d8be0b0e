"""How a command ends that judges runs: part of the command-line contract."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from chaos.errors import ChaosError
from chaos.verdict import RunVerdict, Validity

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


#: What each exit code means.
MEANINGS = {
    ExitCode.VALID: "VALID: every promise was kept.",
    ExitCode.INVALID: "INVALID: a promise was broken.",
    ExitCode.UNKNOWN: "UNKNOWN: the evidence does not suffice.",
    ExitCode.ERROR: "Bad input, or the harness broke.",
    ExitCode.NOT_RECOVERED: "The system did not recover.",
    ExitCode.NOT_REACHED: "With --must-reach: a goal that no run reached.",
}

#: The worst first.
_ORDER = (
    *(ExitCode.INVALID, ExitCode.NOT_RECOVERED, ExitCode.ERROR, ExitCode.NOT_REACHED, ExitCode.UNKNOWN),
    ExitCode.VALID,
)


def exit_code(verdict: RunVerdict) -> int:
    """Return the exit code of a run. Not to recover is INVALID, but has its own code when nothing else was violated."""
    if verdict.validity is Validity.VALID:
        return ExitCode.VALID
    if verdict.validity is Validity.UNKNOWN:
        return ExitCode.UNKNOWN
    sole = set(verdict.anomaly_counts()) == {NOT_RECOVERED}
    return ExitCode.NOT_RECOVERED if sole else ExitCode.INVALID


def worst_code(codes: Sequence[int]) -> int:
    """Return the code of a command that judged several runs; nothing judged is UNKNOWN."""
    return min(codes, key=_ORDER.index) if codes else ExitCode.UNKNOWN


#: What a machine, or a limit of it, did not give, and what to do.
_LACKS = {
    errno.EMFILE: "too many open files: raise the limit of this process, for example with `ulimit -n 4096`",
    errno.ENFILE: "too many open files on this machine: end what holds them, or raise fs.file-max",
    errno.ENOMEM: "there is not enough memory",
    errno.EAGAIN: "perhaps no further process or thread may be started: raise the limit with `ulimit -u`",
}
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def in_words(error: BaseException) -> str:
    """Return why the harness could not go on: what a person can act on; of anything else, that it is a bug of ours."""
    if isinstance(error, ChaosError):
        return str(error)
    return lacking(error) or f"a bug of the harness: {type(error).__name__}: {error}"


def lacking(error: BaseException) -> str:
    """Return what the machine did not give, if an error comes of that; "" if it doesn't."""
    for one in _causes(error):
        if isinstance(one, OSError) and one.errno in _LACKS:
            return f"{one.filename or one.strerror}: {_LACKS[one.errno]}"
        if isinstance(one, OSError) and one.errno in _DISK:
            return f"{one.filename or 'while writing'}: {one.strerror}"
        if isinstance(one, MemoryError):
            return _LACKS[errno.ENOMEM]
        if isinstance(one, RuntimeError) and "start new thread" in str(one):
            return _LACKS[errno.EAGAIN]
    return ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and those that it came of."""
    one: BaseException | None = error
    while one is not None:
        yield one
        if isinstance(one, BaseExceptionGroup):
            for part in one.exceptions:
                yield from _causes(part)
        one = one.__cause__ or one.__context__


def error_object(seed: int, error: str, directory: Path | None) -> dict[str, Any]:
    """Return a seed that the harness could not bring to a verdict, in the fields that a verdict has too."""
    where = "" if directory is None else str(directory)
    return {"run": where, "seed": seed, "verdict": "ERROR", "anomalies": {}, "why": [error]}


def not_run_object(seed: int) -> dict[str, Any]:
    """Return a seed that was asked for and never begun: the time was up, or the first failure ended the sweep."""
    return {"run": "", "seed": seed, "verdict": "NOT RUN", "anomalies": {}, "why": []}
