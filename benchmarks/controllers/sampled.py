"""``python -m benchmarks.controllers.sampled FILE WORDS…``: a node of the reference system (``python -m reference
WORDS…``) that writes down where its processor time goes.

Every two milliseconds of processor time the innermost line of the project's own code, and the innermost function of
all, are counted. SIGUSR1 begins the counts again, SIGUSR2 has them written as JSON. The system's time for sockets and
files counts for the function that asked for it.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

EVERY_S = 0.002
ROOT = str(Path(__file__).resolve().parent.parent.parent) + "/"
OWN = ("chaos/", "reference/")


def main() -> None:
    path = Path(sys.argv[1])
    counts: Counter[str] = Counter()

    def sample(number: int, frame: FrameType | None) -> None:
        counts[_place(frame)] += 1

    signal.signal(signal.SIGPROF, sample)
    signal.signal(signal.SIGUSR1, lambda number, frame: counts.clear())
    signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)
    signal.signal(signal.SIGUSR2, lambda number, frame: _write(path, counts))
    sys.argv = ["reference", *sys.argv[2:]]
    runpy.run_module("reference", run_name="__main__", alter_sys=True)


def _write(path: Path, counts: Mapping[str, int]) -> None:
    """All at once, for who waits for the file."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(counts), "utf-8")
    os.replace(new, path)


def _place(frame: FrameType | None) -> str:
    """``FILE:FUNCTION`` of our own code, and what it was busy with where that is another's code."""
    innermost = frame.f_code.co_name if frame is not None else ""
    while frame is not None:
        name = frame.f_code.co_filename.removeprefix(ROOT)
        if name.startswith(OWN):
            own = f"{name}:{frame.f_code.co_name}"
            return own if own.endswith(f":{innermost}") else f"{own} {innermost}"
        frame = frame.f_back
    return f"asyncio {innermost}"


if __name__ == "__main__":
    main()
