"""What people see of a run that is followed: violations on stdout as they are found, how far it is on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.markup import escape

from chaos.judging.following import WITHIN_S, State, follow
from chaos.judging.so_far import NONE
from chaos.verdict import Anomaly
from stormproof.commands import _console
from stormproof.commands._progress import LINE_S
from stormproof.outcome import ExitCode


class Followed:
    """Reports the states of one run. ``as_json``: one JSON object a line, instead of sentences."""

    def __init__(self, run: Path, *, as_json: bool) -> None:
        self._run = run
        self._as_json = as_json
        self._reported: set[tuple[str, str]] = set()
        self._last: State | None = None
        self._said = float("-inf")
        self._damage: tuple[str, ...] = ()

    def to_its_end(self) -> int | None:
        """Report all states until the run has ended; None then, or an exit code after Ctrl-C."""
        with _status() as show:
            try:
                for state in follow(self._run):
                    self._report(state, show)
            except KeyboardInterrupt:
                return self._interrupted()
        return None

    def _report(self, state: State, show: Any) -> None:
        self._last = state
        for law in state.laws:
            for anomaly in law.violations:
                if (law.law, anomaly.name) not in self._reported and anomaly.rows:
                    self._reported.add((law.law, anomaly.name))
                    self._violation(state, anomaly)
        for sentence in (one for one in state.damage if one not in self._damage):
            _console.err().print(f"damaged: {sentence}", markup=False)
        self._damage = state.damage
        if self._as_json:
            _console.print_json({"event": "so_far", **_object(self._run, state)}, indent=None)
        if show is not None:
            show(_sentence(state))
        elif time.monotonic() - self._said >= LINE_S:
            self._said = time.monotonic()
            _console.err().print(_sentence(state), markup=False)

    def _violation(self, state: State, anomaly: Anomaly) -> None:
        if self._as_json:
            found = {name: getattr(anomaly, name) for name in ("law", "name", "explanation", "queue", "offset")}
            rows = [state.steps.get(number, number) for number in anomaly.rows]
            _console.print_json({"event": "violation", "run": str(self._run), **found, "rows": rows}, indent=None)
        else:
            _console.out().print(f"[red]{anomaly.name}[/] ({anomaly.law}, so far): {escape(anomaly.explanation)}")
            sys.stdout.flush()

    def _interrupted(self) -> int:
        """Show the last state, once more in full: what was broken stays broken, and nothing else is known."""
        code = ExitCode.INVALID if self._reported else ExitCode.UNKNOWN
        if self._as_json:
            state = _object(self._run, self._last) if self._last else {"run": str(self._run)}
            _console.print_json({"event": "interrupted", **state}, indent=None)
            return code
        console = _console.out()
        if self._last is None:
            console.print("no longer followed; nothing was judged yet")
            return code
        for law in self._last.laws:
            console.print(f"{law.law}: {escape(law.state)}")
        console.print(f"no longer followed; the run goes on: {escape(_sentence(self._last))}")
        return code


def conclusion(run: dict[str, Any]) -> None:
    """Print the verdict of a run that was followed, as the last line of JSON."""
    _console.print_json({"event": "verdict", **run}, indent=None)


def _object(run: Path, state: State) -> dict[str, Any]:
    return {
        "run": str(run),
        "until_s": round(state.until_s, 3),
        "recorded": state.recorded,
        "seconds": round(state.seconds, 3),
        "laws": {law.law: law.state for law in state.laws},
        "anomalies": _counts(state),
        "damage": list(state.damage),
    }


def _counts(state: State) -> dict[str, int]:
    counts: dict[str, int] = {}
    for anomaly in (one for law in state.laws for one in law.violations):
        counts[anomaly.name] = counts.get(anomaly.name, 0) + anomaly.count
    return counts


def _sentence(state: State) -> str:
    """Return how far the run is, what was found, and what is not decided yet."""
    found = ", ".join(f"{name} {count}" for name, count in _counts(state).items())
    open_yet = [law.law for law in state.laws if law.is_open]
    words = f"up to {state.until_s:.1f} s ({state.recorded:,} rows): {found or NONE}"
    if state.damage:
        words += "; the run is damaged, so nothing counts"
    elif open_yet:
        words += f"; not decided yet: {', '.join(open_yet)}"
    if 2 * state.seconds > WITHIN_S:
        words += f"; judging takes {state.seconds:.0f} s, so a violation may be reported {2 * state.seconds:.0f} s late"
    return words


@contextmanager
def _status() -> Iterator[Any]:
    """Yield what shows, on a terminal, a line that stands there until the next; else None."""
    console = _console.err()
    if not console.is_terminal:
        yield None
        return
    with console.status("nothing is recorded yet") as status:
        yield lambda words: status.update(escape(words))
