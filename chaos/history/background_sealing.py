"""Turns pieces of traces into segments while their nodes go on writing, and puts segments into a store: in a process of
its own, which has the lowest priority, so that neither the experiment's event loop nor its nodes wait for it."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from chaos import guarded
from chaos.errors import ChaosError
from chaos.history import manifest, uris
from chaos.history.directory import SEGMENTS, TRACES, line_files
from chaos.history.manifest import Manifest
from chaos.history.trace_lines import PIECE_BYTES

if TYPE_CHECKING:
    from chaos.history.seal_traces import Lines, Segment

#: How often somebody looks whether there is another piece, and how long a store is left alone that has refused one.
LOOK_S, STORE_AGAIN_S = 1.0, 30.0
#: A stream that has grown by less has no segment more.
_STREAM_BYTES = 1 << 22
_LOWEST = 19


@contextmanager
def sealing_pieces(run: Path, store: str = "", piece_bytes: int = PIECE_BYTES) -> Iterator[None]:
    """Turn the pieces of a run's traces for as long as this lasts, and put its segments into a folder of its name in
    the ``store``, a URI, if there is one. The process is killed at the end, which may be in the middle of a piece; it
    ends by itself where this one is killed."""
    folder = uris.below(store, run.name) if store else ""
    command = [sys.executable, "-P", "-m", __name__, str(run), str(piece_bytes), folder]
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
        storing = _Storing(run, words[2], sealing, worker)
        while not select.select([sys.stdin], [], [], LOOK_S)[0]:
            with suppress(OSError, ChaosError):  # the run is being removed
                for name in line_files(run):
                    pieces.turn(name)
                storing.look()


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


class _Storing:
    """The segments of a run that are put into a folder of a store; none where there is no folder."""

    def __init__(self, run: Path, folder: str, sealing: Manifest, worker: ThreadPoolExecutor) -> None:
        self._run, self._folder = run, folder
        self._sealing, self._worker = sealing, worker
        self._seen, self._again_s, self._refused = (0, 0), 0.0, False

    def look(self) -> None:
        """Put what has been sealed since the last time into the store. One that refuses it is asked again later; that
        is said once, and the segments stay where they are."""
        seen = (
            (self._run / "history.arrows").lstat().st_size // _STREAM_BYTES,
            len(guarded.listed(self._run, TRACES, SEGMENTS)),
        )
        if not self._folder or seen == self._seen or time.monotonic() < self._again_s:
            return
        from chaos.history import storing

        try:
            for one in self._worker.submit(lambda: [*storing.waiting(manifest.read(self._run))]).result():
                kept = self._worker.submit(storing.put, self._run, one, self._folder).result()
                storing.note(self._run, one, kept, self._folder, self._sealing)
            self._seen, self._refused = seen, False
        except (ChaosError, OSError) as error:
            self._again_s = time.monotonic() + STORE_AGAIN_S
            if not self._refused:
                print(f"segments stay in {self._run}: {error}", file=sys.stderr, flush=True)
            self._refused = True


if __name__ == "__main__":
    main(sys.argv[1:])
