"""Clocks of a node that is a process: a wall clock that jumps, and a monotonic one that runs fast or slow.

The wall clock is faked by libfaketime, with which the node's process is started: the whole process sees it jump.
libfaketime leaves the monotonic clock alone, since it could change its rate only by a jump, which no real machine
shows; the node's shell makes it drift instead. One file holds both settings. It is replaced as a whole, and read again
whenever it has changed: libfaketime skips its first line, and the shell reads only that one. Imports only the standard
library, since it runs where nodes do.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from dataclasses import dataclass
from pathlib import Path

#: The library to preload; the loader replaces ``$LIB``.
LIBRARY = "/usr/$LIB/faketime/libfaketimeMT.so.1"
#: Where it may be.
_PLACES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib*/faketime/libfaketimeMT.so.1")
#: The first line of a connection that asks a node for its clocks.
ASK = b'{"clock":true}'
_DRIFT = "# drift_ppm"
_SHARED = "FAKETIME_SHARED"
_SHARED_FILES = Path("/dev/shm")
_MILLION = 1_000_000
#: No clock stands still or runs back.
_SLOWEST_PPM = -900_000


@dataclass(frozen=True, slots=True)
class Skew:
    """How far a node's wall clock is off, and how many millionths its monotonic clock runs fast."""

    jumped_ns: int = 0
    drift_ppm: int = 0

    def content(self) -> bytes:
        """Return the file that says so."""
        return f"{_DRIFT} {self.drift_ppm}\n{self.jumped_ns / 1e9:+.9f}\n".encode("ascii")

    def after(self, *, jump_ns: int, drift_ppm: int) -> Skew:
        """Return the skew after a jump from where the wall clock is by now, with another drift."""
        return Skew(self.jumped_ns + jump_ns, max(_SLOWEST_PPM, drift_ppm))


def installed() -> bool:
    """Return whether libfaketime is on this machine."""
    return any(any(Path("/").glob(place.lstrip("/"))) for place in _PLACES)


def environment(file: str) -> dict[str, str]:
    """Return the environment of a program whose clocks are what the file says.

    A thread that waits for Python's lock waits until some time of the monotonic clock, which libfaketime (0.9.10) takes
    for a time of the wall clock: it would wake up at once, over and over. ``FAKETIME_WAIT_MS`` gives it a fixed wait.
    """
    return {
        "LD_PRELOAD": LIBRARY,
        "FAKETIME_TIMESTAMP_FILE": file,
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_FORCE_MONOTONIC_FIX": "1",
        "FAKETIME_WAIT_MS": str(round(1000 * sys.getswitchinterval())),
        "NO_FAKE_STAT": "1",
    }


def leave_nothing_shared() -> None:
    """Remove what libfaketime would share with programs that this one starts: a kill would leave it in memory."""
    for prefix, name in zip(("sem.", ""), os.environ.pop(_SHARED, "").split(), strict=False):
        (_SHARED_FILES / (prefix + name.strip("/"))).unlink(missing_ok=True)


def sleep(seconds: float) -> None:
    """Sleep. ``time.sleep`` waits until some time, which libfaketime takes for a time of the wall clock."""
    select.select([], [], [], seconds)


class Clocks:
    """Both clocks of this process, as the ``file`` says; without one they are the system's."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._seen: tuple[int, int] = (0, 0)
        self._ppm = 0
        self._base_ns = self._since_ns = time.monotonic_ns()

    def wall_ns(self) -> int:
        return time.time_ns()

    def mono_ns(self) -> int:
        now_ns = time.monotonic_ns()
        if self._file is None:
            return now_ns
        self._refresh(now_ns)
        return self._at(now_ns)

    def true_s(self, delay_ns: int) -> float:
        """Return how many seconds it takes this monotonic clock to show that ``delay_ns`` have passed."""
        return max(0, delay_ns) / 1e9 * _MILLION / (_MILLION + self._ppm)

    def to_json(self) -> bytes:
        """Return what they show, as a line of JSON."""
        readings = {"wall_ns": self.wall_ns(), "mono_ns": self.mono_ns(), "drift_ppm": self._ppm}
        return json.dumps(readings).encode() + b"\n"

    def _at(self, now_ns: int) -> int:
        passed_ns = now_ns - self._since_ns
        return self._base_ns + passed_ns + passed_ns * self._ppm // _MILLION

    def _refresh(self, now_ns: int) -> None:
        """Run on from where it is at another rate, if that has changed."""
        assert self._file is not None
        try:
            found = os.stat(self._file)
            if self._seen == (found.st_ino, found.st_mtime_ns):
                return
            first = self._file.read_text("ascii").partition("\n")[0]
            ppm = int(first.removeprefix(_DRIFT))
        except OSError:  # no descriptor is free, say
            return
        self._seen = (found.st_ino, found.st_mtime_ns)
        self._base_ns, self._since_ns = self._at(now_ns), now_ns
        self._ppm = ppm


if __name__ == "__main__":
    raise SystemExit(0 if installed() else 1)
