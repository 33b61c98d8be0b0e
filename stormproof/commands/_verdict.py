"""How a command ends that judged a run: what happened and why, then what to do next; as text and as JSON."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from chaos.errors import ChaosError
from chaos.history import directory
from chaos.history.run_meta import SIMULATED, RunMeta
from chaos.history.verdict_json import verdict_json
from chaos.verdict import Anomaly, RunVerdict, Validity
from reports.printable import argument, printable
from stormproof.commands import _console
from stormproof.commands._console import COLOURS, validity
from stormproof.outcome import in_words

if TYPE_CHECKING:
    from reports.run_report.chain import Step
    from reports.run_report.first_screen import FirstScreen
    from reports.run_report.run_summary import Summarised

#: Texts are as wide as a terminal, but no wider than people read; and a step of the story has so many lines.
WIDTH, STEP_LINES = 100, 3
#: So many kinds of violations are explained in words with ``-v``, one of each; the report has all.
EXPLAINED = 5
#: So many reasons of an UNKNOWN run are shown; with ``-v`` all are.
REASONS = 6
MARKS = {Validity.VALID: "✓", Validity.INVALID: "✕", Validity.UNKNOWN: "?"}
#: Names of the next steps stand in a column of this width.
LABEL = 9


class View(Enum):
    """How a command shows what it found: what happened alone, with counts and what to do next, with all promises
    besides, or JSON."""

    BRIEF = auto()
    STORY = auto()
    PROMISES = auto()
    JSON = auto()

    @classmethod
    def of(cls, *, as_json: bool, verbose: bool) -> View:
        """Return what the options of a command ask for."""
        return cls.JSON if as_json else cls.PROMISES if verbose else cls.STORY


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A judged run as a command shows it. ``screen`` is that of its report, ``described`` what JSON says of it besides
    the verdict; without them nothing can be said of its rows, and ``trouble`` says why."""

    verdict: RunVerdict
    meta: RunMeta
    screen: FirstScreen | None = None
    described: Mapping[str, Any] = field(default_factory=dict)
    trouble: str = ""


def outcome(verdict: RunVerdict, summarised: Summarised | None = None) -> Outcome:
    """Return what there is to say of a judged run. ``summarised``: what a large one came to when it was judged."""
    from reports.in_words import as_object
    from reports.run_report.first_screen import first_screen
    from reports.run_report.judged import judged_run

    run = Path(verdict.run)
    try:
        meta = directory.read_meta(run)
    except (ChaosError, OSError):
        meta = RunMeta()
    try:
        judged = judged_run(run, verdict, summarised)
        return Outcome(verdict=verdict, meta=meta, screen=first_screen(judged), described=as_object(judged))
    except Exception as error:  # the verdict stands, whatever can be said of it
        return Outcome(verdict=verdict, meta=meta, trouble=in_words(error))


def run_object(found: Outcome) -> dict[str, Any]:
    """Return a run as ``--json`` prints it: ``verdict.json`` without the details of each law, the story, and where to
    read on."""
    saved = {name: value for name, value in verdict_json(found.verdict).items() if name != "laws"}
    report = Path(found.verdict.run) / "report.html"
    unknown: dict[str, Any] = {"title": "", "chain": [], "diagnosis": None, "story": "", "effective_faults": []}
    described = found.described or {**unknown, "replay_command": found.meta.replay_command or None}
    return {**saved, **described, "report": str(report) if report.exists() else None}


def show_run(found: Outcome, console: Console, view: View = View.STORY) -> None:
    """Show how one run ended."""
    verdict, verbose = found.verdict, view is View.PROMISES
    if verbose:
        _show_laws(verdict, console)
    _headline(found, console)
    if found.screen is not None and found.screen.chain:
        _show_chain(found.screen, console)
    elif verdict.validity is Validity.INVALID and not verbose:
        _show_violations(verdict, console)
    elif verdict.validity is Validity.UNKNOWN:
        _show_reasons(found, console, verbose=verbose)
    if view is not View.BRIEF:
        _show_facts(found, console, verbose=verbose)
        _show_next(found, console)


def _headline(found: Outcome, console: Console) -> None:
    verdict, title = found.verdict, found.screen.title if found.screen else ""
    sign = f"{MARKS[verdict.validity]} " if console.encoding.startswith("utf") else ""
    mark = f"[bold {COLOURS[verdict.validity]}]{sign}{verdict.validity}[/]"
    qualified = "".join(f"; [bold yellow]{escape(words)}[/]" for words in verdict.qualifiers)
    name = found.meta.name or Path(verdict.run).name
    where = f", {found.meta.deployment}" if found.meta.deployment else ""
    console.print(f"{mark}{qualified}  {escape(name)}, seed {verdict.seed}{escape(where)}")
    _paragraph(console, title, style="bold")


def _show_chain(screen: FirstScreen, console: Console) -> None:
    """Show the steps of the first cause, by time, and what else there is."""
    times = ["" if step.at_s is None else f"{step.at_s:.3f} s" for step in screen.chain]
    wide = max(map(len, times))
    for at, step in zip(times, screen.chain, strict=True):
        _step(console, f"{at:>{wide}}", step)
    again = [f"again at {', '.join(screen.again)}"] if screen.again else []
    also = [f"also {', '.join(screen.also)}"] if screen.also else []
    more = [f"{screen.more} more cause{'' if screen.more == 1 else 's'}"] if screen.more else []
    _paragraph(console, "; ".join([*again, *also, *more]))


def _step(console: Console, at: str, step: Step) -> None:
    decided = f", decided by {' and '.join(step.decided)}" if step.decided else ""
    is_why = step.kind == "why"
    text = printable(f"{'why: ' if is_why else ''}{step.text}{decided}")
    lines = textwrap.wrap(
        text, _width(console) - len(at) - 4, max_lines=STEP_LINES, placeholder=" …", break_on_hyphens=False
    )
    for number, line in enumerate(lines):
        shown = f"  {at if number == 0 else ' ' * len(at)}  {escape(line)}"
        console.print(f"[red]{shown}[/]" if is_why else shown)


def _show_reasons(found: Outcome, console: Console, *, verbose: bool) -> None:
    """Show why a run is UNKNOWN: each reason once, with the promises that it concerns."""
    from reports.run_report.diagnosis import diagnosis

    known = diagnosis(found.verdict)
    reasons = known.further if found.screen else known.reasons
    shown = reasons if verbose else reasons[:REASONS]
    for reason in shown:
        names = f" ({', '.join(reason.promises)})" if reason.promises else ""
        _paragraph(console, f"{reason.text}{names}", max_lines=0 if verbose else STEP_LINES)
    if left := len(reasons) - len(shown):
        _paragraph(console, f"and {left} more reason{'' if left == 1 else 's'} (-v)")


def _show_facts(found: Outcome, console: Console, *, verbose: bool) -> None:
    """Show how much was judged, and on what."""
    verdict, screen = found.verdict, found.screen
    parts = list(screen.counts) if screen else []
    if broken := [law.law for law in verdict.laws if law.validity is Validity.INVALID]:
        parts[:1] = [f"{parts[0] if parts else 'broken'}: {', '.join(broken)}"]
    if not verbose and (left := sum(law.is_not_exercised for law in verdict.laws)):
        parts.append(f"{left} not exercised (-v)")
    if verdict.reached and not verdict.not_reached:
        parts.append("its coverage goal reached" if len(verdict.reached) == 1 else
                     f"all {len(verdict.reached)} coverage goals reached")  # fmt: skip
    _paragraph(console, " · ".join(parts))
    if screen and (strength := str(screen.json.get("strength", ""))).startswith("weak"):
        _paragraph(console, strength, style="yellow")
    if verdict.not_reached:
        _paragraph(console, f"not reached: {', '.join(verdict.not_reached)}", style="yellow")
    if verdict.skipped_faults:
        _paragraph(console, f"skipped, which this deployment can't do: {', '.join(verdict.skipped_faults)}")
    if verbose and verdict.not_judged:
        _paragraph(console, f"not judged: {'; '.join(verdict.not_judged)}")
    if found.trouble:
        _paragraph(console, f"no story: {found.trouble}", style="yellow")


def show_replay(command: str, *, err: bool = False) -> None:
    """Print the last line of a failed run, the command that does it again. It has a label where a person looks, and is
    bare elsewhere: scripts take it from there."""
    console = _console.err() if err else _console.out()
    _console.say(f"  {'replay':<{LABEL}}{command}" if console.is_terminal else command, err=err)


def _show_next(found: Outcome, console: Console) -> None:
    """Show what to do next, each command with a label, on a line that can be copied."""
    for label, words in _next(found):
        console.print(f"  {label:<{LABEL}}{escape(words)}", soft_wrap=True)


def _next(found: Outcome) -> Iterator[tuple[str, str]]:
    run = Path(found.verdict.run)
    word = shlex.quote(argument(_shortest(run)))
    if found.verdict.validity is Validity.INVALID and found.screen is not None and found.screen.chain:
        yield "explain", f"stormproof explain {word}"
        if found.meta.deployment == SIMULATED:
            yield "shrink", f"stormproof shrink {word}"
    if (run / "report.html").exists():
        yield "report", str(run / "report.html")


def _shortest(run: Path) -> str:
    """Return the word by which commands find a run from here."""
    if run.parent == Path("runs") and (known := directory.runs(run.parent)) and known[-1] == run:
        return directory.LATEST
    return str(run)


def _paragraph(console: Console, text: str, *, style: str = "", max_lines: int = 0) -> None:
    lines = textwrap.wrap(
        printable(text), _width(console) - 2, max_lines=max_lines or None, placeholder=" …", break_on_hyphens=False
    )
    for line in lines:
        console.print(f"  {escape(line)}", style=style or None)


def _width(console: Console) -> int:
    return min(console.width, WIDTH)


def _show_laws(verdict: RunVerdict, console: Console) -> None:
    """Show each promise with its evidence, and the first violation of each kind in words."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    for title in ("promise", "verdict", "evidence"):
        table.add_column(title, overflow="fold")
    for law in verdict.laws:
        evidence = ", ".join(f"{name} {count}" for name, count in law.counts.items())
        if law.validity is Validity.NOT_APPLICABLE:
            evidence = law.why
        evidence = "; ".join((*(one.words for one in verdict.permitted if one.law == law.law), evidence))
        table.add_row(law.law, validity(law.validity), escape(evidence))
    console.print(table)
    _show_violations(verdict, console)


def _show_violations(verdict: RunVerdict, console: Console) -> None:
    kinds: dict[tuple[str, str], list[Anomaly]] = {}
    for anomaly in verdict.violations:
        kinds.setdefault((anomaly.law, anomaly.name), []).append(anomaly)
    for (law_name, name), found in list(kinds.items())[:EXPLAINED]:
        count = sum(anomaly.count for anomaly in found)
        times = f", the first of {count}" if count > 1 else ""
        console.print(f"[red]{escape(name)}[/] ({escape(law_name)}{times}): {escape(found[0].explanation)}")
    left = [name for _, name in kinds][EXPLAINED:]
    if left:
        console.print(f"also found: {escape(', '.join(dict.fromkeys(left)))}; the report has all")
