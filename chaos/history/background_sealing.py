"""Turns pieces of traces into segments while their nodes go on writing: in a process of its own, which has the lowest
priority, so that neither the experiment's event loop nor its nodes wait for it."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.errors import ChaosError
from chaos.history import manifest
from chaos.history.directory import line_files
from chaos.history.manifest import Manifest
from chaos.history.trace_lines import PIECE_BYTES

if TYPE_CHECKING:
    from chaos.history.seal_traces import Lines, Segment

#: How often somebody looks whether there is another piece.
LOOK_S = 1.0
_LOWEST = 19


@contextmanager
def sealing_pieces(run: Path, piece_bytes: int = PIECE_BYTES) -> Iterator[None]:
    """Turn the pieces of a run's traces for as long as this lasts. The process is killed at the end, which may be in
    the middle of a piece; it ends by itself where this one is killed."""
    command = [sys.executable, "-P", "-m", __name__, str(run), str(piece_bytes)]
    with subprocess.Popen(  # in a group of its own, which Ctrl-C doesn't reach
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, process_group=0
    ) as process:
        try:
            yield
        finally:
            process.kill()


def main(words: Sequence[str]) -> None:
    """Turn pieces until the process is gone that could write to this one's standard input."""
    run, piece_bytes = Path(words[0]), int(words[1])
    with Manifest(run) as sealing, ThreadPoolExecutor(1, initializer=_give_way) as worker:
        pieces = _Pieces(run, piece_bytes, sealing, worker)
        while not select.select([sys.stdin], [], [], LOOK_S)[0]:
            with suppress(OSError, ChaosError):  # the run is being removed
                for name in line_files(run):
                    pieces.turn(name)


def _give_way() -> None:
    """Lower the priority of this thread alone: the other one holds the lock of the manifest, for which the harness
    would have to wait."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST)


class _Pieces:
    """The pieces of all traces of a run."""

    def __init__(self, run: Path, piece_bytes: int, sealing: Manifest, worker: ThreadPoolExecutor) -> None:
        self._run, self._piece_bytes = run, piece_bytes
        self._sealing, self._worker = sealing, worker
        self._lines: dict[str, Lines] = {}
        #: How long a trace is before anybody looks at it.
        self._least: dict[str, int] = {}

    def turn(self, name: str) -> None:
        """Turn what is due of one trace. What can't be turned is tried again a piece later, and when the run ends."""
        size = (self._run / name).lstat().st_size
        if size < self._least.get(name, self._piece_bytes):
            return
        from chaos.history.seal_traces import NOT_TURNED  # late: most runs trace too little for any piece

        try:
            while made := self._worker.submit(self._made, name).result():
                self._lines[name].seal(made, self._sealing)
        except NOT_TURNED:
            self._lines.pop(name, None)
            self._least[name] = size + self._piece_bytes

    def _made(self, name: str) -> Segment | None:
        from chaos.history.seal_traces import Lines

        if name not in self._lines:
            self._lines[name] = Lines(self._run, name, manifest.read(self._run), self._piece_bytes)
        return self._lines[name].write_segment(ended=False)


if __name__ == "__main__":
    main(sys.argv[1:])
