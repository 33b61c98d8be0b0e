"""What is known of the trials so far: one JSON object a line, so that a killed run goes on where it was.

Each line carries the version of the code that it belongs to; lines of other versions stay, and are not looked at.
"""

from __future__ import annotations

import fcntl
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from benchmarks.mutation.trial import Outcome, Result
from chaos.errors import BadInput, MachineError
from stormproof.sweeping.plan import code_digest

#: A trial: id of the mutant ("": the correct system), experiment, seed.
Key = tuple[str, str, int]
#: Folders of experiments.
EXPERIMENTS = ("examples", "tests/scenarios")
#: What a verdict depends on.
PACKAGES = ("chaos", "checkers", "drivers", "nemesis", "reference", "stormproof", "workloads", *EXPERIMENTS)


#: What it does not depend on.
PLANTED_BUGS = ("reference/mutants", "reference/split/mutants")


def code_version(root: Path, elsewhere: tuple[str, ...] = ()) -> str:
    """Return a digest of all that the outcome of a trial depends on: the code and the experiments, but for planted bugs
    and what is ``elsewhere``, as a :class:`benchmarks.mutation.systems.System` says it."""
    return code_digest(root, PACKAGES, (".py", ".yaml"), (*PLANTED_BUGS, *elsewhere))


def noted(text: str, code: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of this version of the code, a line each; a line in whose middle a process was killed is left
    out."""
    for line in text.splitlines():
        with suppress(ValueError):
            value = json.loads(line)
            if value.pop("code") == code:
                yield value


def commit(root: Path) -> str:
    """Return the commit of the checkout, with ``+`` when files of it were changed since; "" outside of a checkout."""
    words = ("git", "-C", str(root))
    head = subprocess.run([*words, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True, check=False)
    changed = subprocess.run(
        [*words, "status", "--porcelain", "--untracked-files=no", "--", *PACKAGES],
        capture_output=True,
        text=True,
        check=False,
    )
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


class State:
    """The outcomes known for one version of the code; :func:`opened` makes it. ``work`` is a folder for runs under
    way, which belongs to who has the file open."""

    def __init__(self, file: TextIO, code: str, work: Path) -> None:
        self.code = code
        self.work = work
        self.known: dict[Key, Outcome] = {}
        self._file = file
        file.seek(0)
        text = file.read()
        for value in noted(text, code):
            value |= {"result": Result(value["result"]), "laws": tuple(value["laws"])}
            outcome = Outcome(**value)
            self.known[outcome.mutant, outcome.experiment, outcome.seed] = outcome
        if text and not text.endswith("\n") and file.writable():  # killed in the middle of a line
            file.write("\n")

    def add(self, outcome: Outcome) -> None:
        """Note an outcome, on the disk first."""
        self._file.write(json.dumps({"code": self.code, **asdict(outcome)}) + "\n")
        self._file.flush()
        self.known[outcome.mutant, outcome.experiment, outcome.seed] = outcome


@contextmanager
def opened(path: Path, code: str) -> Iterator[State]:
    """Open the state file for one run at a time. Raises :class:`MachineError` when another one uses it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise MachineError(f"another run is writing {path}; wait for it, or give --state another file") from None
        yield State(file, code, path.with_suffix(".runs"))


@contextmanager
def read_only(path: Path, code: str) -> Iterator[State]:
    """Yield what is known so far, also while a run goes on. Raises :class:`BadInput` when there is no such file."""
    try:
        file = path.open("r", encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}; run the command without --publish") from error
    with file:
        yield State(file, code, path.with_suffix(".runs"))
