"""What Spark says when something fails, in a sentence: it comes as pages of Java and Scala."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Words in what Spark says, and what they mean; the first that fits counts.
_MEANINGS: Sequence[tuple[str, str]] = (
    (
        r"PYTHON_VERSION_MISMATCH",
        "the executors run another version of Python than this process; name theirs with PYSPARK_PYTHON, or --conf"
        " spark.pyspark.python=PATH",
    ),
    (r"Cannot run program \"([^\"]+)\"", "an executor can't start the Python {0}"),
    (r"local class incompatible", "the master runs another version of Spark"),
    (
        r"OutOfMemoryError|exceeding memory limits|Container killed|exit code 52|exitCode=52",
        "an executor ran out of memory; --conf spark.executor.memory=SIZE gives it more",
    ),
    (
        r"Python worker (?:exited unexpectedly|failed to connect back)",
        "a Python worker died each time that it was tried, as it does when the machine has no memory left",
    ),
    (r"MemoryError", "a worker ran out of memory"),
    (r"ExecutorLostFailure|Remote RPC client disassociated|executor \S+ exited", "executors were lost too often"),
    (
        r"All masters are unresponsive|Master removed our application|stopped SparkContext|SparkContext was shut down",
        "the connection to Spark's master was lost",
    ),
    (r"No space left on device", "the disk is full"),
    (r"ModuleNotFoundError: (No module named '[^']+')", "an executor lacks a package: {0}"),
)


class JobFailed(Exception):
    """A job came to nothing. Its text is one sentence without a full stop; ``lost`` when no further job of this session
    can do better."""

    def __init__(self, text: str, *, lost: bool = False) -> None:
        super().__init__(text)
        self.lost = lost


def sentence(error: BaseException) -> str:
    """Why something failed, in one line."""
    text = str(error).strip()
    for pattern, meaning in _MEANINGS:
        if found := re.search(pattern, text):
            return meaning.format(*found.groups())
    return _first_line(text) or type(error).__name__


def _first_line(text: str) -> str:
    """Return the first line that says something: py4j begins with the call that failed."""
    lines = [line.strip().removeprefix(": ") for line in text.splitlines()]
    return next((line for line in lines if line and not line.startswith("An error occurred while calling")), "")[:500]
