"""What people see while something runs, on stderr: a bar on a terminal, a line for each phase elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from stormproof.commands import _console

LOAD = "load"
#: Ctrl-C has come; see :data:`chaos.run.runner.STOPPING`.
STOPPING = "stopping"
#: Where stderr is no terminal a sweep says so often how far it is, in seconds.
LINE_S = 30.0
#: So many characters of faults are shown, of those in force and of all; a shorter one has no end.
IN_FORCE, FAULTS, INSTANT_S = 34, 150, 0.1


class Watcher(Protocol):
    """Somebody who watches one run."""

    def phase(self, phase: str, seconds: float) -> None:
        """Take note of the phase in which the run is, so many seconds (of the deployment's clock) after it began:
        called at each change, and again and again meanwhile."""

    def row(self, kind: str, columns: Mapping[str, Any], now_ns: Callable[[], int]) -> None:
        """Take note of a row that the harness records; ``now_ns`` is its clock."""


class PhaseLines:
    """A line for each phase, when it begins."""

    def __init__(self, duration_s: float, say: Callable[[str], None]) -> None:
        self._duration_s = duration_s
        self._say = say
        self._phase = ""

    def phase(self, phase: str, seconds: float) -> None:
        if phase != self._phase:
            self._phase = phase
            self._say(f"{seconds:7.1f} s  {phase}{f', {self._duration_s:g} s' if phase == LOAD else ''}")

    def row(self, kind: str, columns: Mapping[str, Any], now_ns: Callable[[], int]) -> None: ...


class LiveRun:
    """A bar with the phase, the faults in force and the operations per second; what has no effect is said at once, and
    :meth:`faults` are all that took effect, in seconds since the load began. ``show`` takes the phase with the faults,
    the seconds of the load, and the rate."""

    def __init__(self, say: Callable[[str], None], show: Callable[[str, float, float], None]) -> None:
        self._say = say
        self._show = show
        self._load_s = -1.0
        self._load_ns = -1
        self._ok = 0
        self._asked: tuple[float, int] = (0.0, 0)
        self._rate = 0.0
        self._lasting: dict[str, tuple[str, float]] = {}
        self._struck: dict[str, list[str]] = {}

    def faults(self) -> str:
        """Return the faults that took effect, each with when it began and ended: at most as much as fits two lines."""
        faults = [f"{name} {', '.join(times)}" for name, times in self._struck.items()]
        number = sum(map(len, self._struck.values()))
        line = f"{number} fault{'' if number == 1 else 's'}: {'; '.join(faults)}" if faults else ""
        return line if len(line) <= FAULTS else f"{line[:FAULTS].rpartition(', ')[0]}, …"

    def phase(self, phase: str, seconds: float) -> None:
        if phase == LOAD and self._load_s < 0:
            self._load_s = seconds
        if phase == STOPPING:
            self._say(f"{seconds:7.1f} s  {STOPPING}")
        then, ok = self._asked
        if seconds > then:
            self._rate = (self._ok - ok) / (seconds - then)
            self._asked = (seconds, self._ok)
        now = ", ".join(what for what, _ in self._lasting.values())
        words = f"{phase}: {now}" if now else phase
        self._show(words, seconds - self._load_s if self._load_s >= 0 else 0.0, self._rate)

    def row(self, kind: str, columns: Mapping[str, Any], now_ns: Callable[[], int]) -> None:
        if kind == "op":
            self._ok += columns.get("type") == "ok" and columns.get("f") != "delivered"
        elif kind == "fault":
            self._fault(columns, now_ns())
        elif columns.get("f") == "phase" and columns["value"]["phase"] == LOAD:
            self._load_ns = now_ns()

    def _fault(self, columns: Mapping[str, Any], now_ns: int) -> None:
        process, value = columns["process"], columns.get("value") or {}
        at_s = (now_ns - self._load_ns) / 1e9 if self._load_ns >= 0 else 0.0
        if columns["type"] == "invoke":
            self._lasting[process] = " ".join([columns["f"], *map(str, value.get("targets", ()))]), at_s
            return
        if columns["type"] != "fail" and value.get("phase") != "undo":
            return
        what, began_s = self._lasting.pop(process, (columns["f"], at_s))
        if columns["type"] == "fail" or not value.get("effective", True):
            self._say(
                f"{at_s:7.1f} s  {what} has no effect{': ' if 'reason' in value else ''}{value.get('reason', '')}"
            )
        else:
            lasted = f"–{at_s:.1f}" if at_s - began_s >= INSTANT_S else ""
            self._struck.setdefault(columns["f"], []).append(f"{began_s:.1f}{lasted}")


@contextmanager
def run_progress(duration_s: float, *, quiet: bool = False) -> Iterator[Watcher]:
    """Follow one run. ``quiet``: without lines for its phases and its faults; a bar where stderr is a terminal."""
    console = _console.err()
    if not console.is_terminal:
        yield PhaseLines(duration_s, (lambda line: None) if quiet else lambda line: console.print(line, markup=False))
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("setup", total=duration_s, rate="")

        def show(phase: str, load_s: float, rate: float) -> None:
            done = min(load_s, duration_s)
            words = phase if len(phase) <= IN_FORCE else f"{phase[: IN_FORCE - 1]}…"
            progress.update(task, description=escape(words), completed=done, rate=f"{rate:,.0f} ops/s")

        live = LiveRun(lambda line: progress.console.print(line, markup=False), show)
        yield live
    if not quiet and (faults := live.faults()):
        console.print(faults, markup=False)


@contextmanager
def _counted(what: str, total: int | None) -> Iterator[Callable[..., None]]:
    """Show a bar that counts; yields what changes it."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=_console.err(), transient=True) as progress:
        yield partial(progress.update, progress.add_task(what, total=total))


@contextmanager
def sweep_progress(runs: int) -> Iterator[Callable[[int, int], None]]:
    """Show a bar that counts runs and failures; say a line every half minute unless stderr is a terminal. What was
    there at the first call took no time."""
    console = _console.err()
    if not console.is_terminal:
        yield _SweepLines(runs, lambda line: console.print(line, markup=False))
        return
    with _counted("runs", runs) as update:
        yield lambda done, failed: update(completed=done, description=f"runs, {failed} failed" if failed else "runs")


class _SweepLines:
    """Says now and then how far a sweep is, and how long it will still take."""

    def __init__(self, runs: int, say: Callable[[str], None], now_s: Callable[[], float] = time.monotonic) -> None:
        from stormproof.campaign.campaign import Pace

        self._runs = runs
        self._say = say
        self._now_s = now_s
        self._pace = Pace(runs, now_s)
        self._said_s = now_s()

    def __call__(self, done: int, failed: int) -> None:
        left = self._pace.left(done)
        if left and self._now_s() - self._said_s >= LINE_S:
            self._said_s = self._now_s()
            self._say(f"{done:,} of {self._runs:,} runs, {failed:,} failed, {left}")


@contextmanager
def judging_progress(what: str = "shards judged") -> Iterator[Callable[[int, int], None]]:
    """Show a bar that counts the shards that are examined, of all runs together, or ``what`` else there is to count;
    nothing at all unless stderr is a terminal."""
    if not _console.err().is_terminal:
        yield lambda done, whole: None
        return
    with _counted(what, None) as update:
        yield lambda done, whole: update(completed=done, total=whole)
