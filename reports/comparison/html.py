"""A page about two runs: what differs first, both on one time axis, and their promises side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from chaos import guarded
from chaos.errors import ChaosError
from chaos.verdict import Validity
from reports.comparison.pair import Pair, Side
from reports.comparison.tables import TableRow, tables
from reports.index.overview import readable
from reports.run_report.axis import Axis
from reports.run_report.figure import axis_of, draw_panels, head
from reports.run_report.first_screen import FirstScreen, first_screen
from reports.run_report.html import figure_of, promises_of, script_of, unbroken
from reports.run_report.judged import JudgedRun, judged_run
from reports.run_report.states import as_json, states
from reports.summary import witness
from reports.templates import REPORT, link, style, template
from reports.timeline.page import digest

#: The part of a page's script that draws the axis.
SCRIPT = "report_axis.js"
#: Promises of which nothing more is to be said where both runs agree.
CALM = ("", Validity.VALID, Validity.NOT_APPLICABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """One of the two runs as the page shows it. ``trouble`` says why nothing is known of it but its line."""

    letter: str
    side: Side
    judged: JudgedRun | None = None
    screen: FirstScreen | None = None
    trouble: str = ""

    @property
    def title(self) -> str:
        return self.screen.title if self.screen else self.side.line.found or self.trouble

    @property
    def words(self) -> dict[str, Markup | str]:
        """What was found of each promise."""
        if self.judged is None or self.screen is None:
            return {}
        found = promises_of(self.judged.verdict, self.screen)
        return {line.name: line.words for line in (*found.broken, *found.unknown, *found.kept)}


def write(first: Path, second: Path, pair: Pair) -> Path:
    """Write the page into the first run's directory, and return its path. Raises
    :class:`chaos.errors.MachineError`."""
    return guarded.write(first / f"diff-{second.name}.html", page(pair, first))


def page(pair: Pair, folder: Path) -> str:
    """Return the page's text, with links as they are from this folder."""
    shown = [_shown(letter, side) for letter, side in (("A", pair.a), ("B", pair.b))]
    drawn = [one.judged for one in shown if one.judged is not None]
    script = script_of(SCRIPT)
    facts, _, violations, measured = (_differing_first(rows) for _, rows in tables(pair))
    return template("comparison/comparison.html.j2").render(
        title=headline(pair),
        sides=[(one, link(folder, one.side.line.directory / REPORT)) for one in shown],
        pair=pair,
        witness=witness,
        unbroken=unbroken,
        figure=_figure(shown, pair, _axis(drawn)) if drawn else None,
        states=as_json(_states(shown, _axis(drawn))) if drawn else None,
        promises=_promises(pair, shown),
        others=[("Violations", violations), ("During the load", measured), ("What was run", facts)],
        style=style(),
        script=script,
        script_hash=digest(script),
    )


def headline(pair: Pair) -> str:
    """Say in a sentence what differs most."""
    a, b = pair.a.line.verdict, pair.b.line.verdict
    if a != b:
        return f"A is {a}, B is {b}"
    promises = sum(one != other for _, one, other in pair.laws)
    if promises:
        return f"Both are {a}; the verdicts of {promises} promise{'' if promises == 1 else 's'} differ"
    kinds = sum(one != other for _, one, other in pair.anomalies)
    if kinds:
        return f"Both are {a}; violations of {kinds} kind{'' if kinds == 1 else 's'} differ in number"
    if pair.identical:
        return f"Both are {a}, and their histories are the same, byte for byte"
    return f"Both are {a}, and broke the same promises" if a == Validity.INVALID else f"Both are {a}"


def _shown(letter: str, side: Side) -> _Shown:
    try:
        judged = judged_run(side.line.directory)
        return _Shown(letter=letter, side=side, judged=judged, screen=first_screen(judged))
    except (ChaosError, OSError, ValueError) as error:
        return _Shown(letter=letter, side=side, trouble=readable(str(error)))


def _axis(runs: Sequence[JudgedRun]) -> Axis:
    """Return one axis for all of them."""
    each = [axis_of(run.story) for run in runs]
    return Axis(left_s=min(one.left_s for one in each), right_s=max(one.right_s for one in each))


def _figure(shown: Sequence[_Shown], pair: Pair, axis: Axis) -> Markup:
    """Draw each run below the other, with a line where their histories part."""
    parts = [head(axis)]
    for one in shown:
        rows = (pair.parting.a if one.side is pair.a else pair.parting.b) if pair.parting else ()
        marks = [(0, row.at_s) for row in rows[:1]]
        parts.append(Markup('<h3 class="which">{} <small>{}</small></h3>').format(one.letter, one.side.line.name))
        if one.judged is not None:
            parts.append(draw_panels(axis, one.judged.story, figure_of(one.judged, axis, marks), one.letter))
    return Markup("").join(parts)


def _states(shown: Sequence[_Shown], axis: Axis) -> dict[str, Any]:
    """Return what :func:`reports.run_report.states.states` does of both runs, with their letters before each name."""
    events: list[tuple[float, str]] = []
    faults: list[list[Any]] = []
    nodes: list[dict[str, Any]] = []
    for one in shown:
        if one.judged is None:
            continue
        known = states(one.judged.history, one.judged.story, axis, ())
        events += [(at_s, f"{one.letter}: {words}") for at_s, words in known["events"]]
        faults += [[start, end, name, *_named(one.letter, rest)] for start, end, name, *rest in known["faults"]]
        nodes += [{**node, "name": _named(one.letter, node["name"])} for node in known["nodes"]]
    return {"left": axis.left_s, "right": axis.right_s, "events": sorted(events), "faults": faults, "nodes": nodes}


def _named(letter: str, names: Any) -> Any:
    """Return names of nodes, however deep in lists, with the letter of their run."""
    if isinstance(names, tuple):  # a node, and what is wrong with its links
        return (_named(letter, names[0]), names[1])
    return f"{letter} {names}" if isinstance(names, str) else [_named(letter, one) for one in names]


def _promises(pair: Pair, shown: Sequence[_Shown]) -> list[dict[str, Any]]:
    """Return each promise with what was found in both, those with different verdicts first, then those that both
    broke; ``calm`` where nothing is to be said."""
    a, b = (one.words for one in shown)
    rows = [
        {
            "name": name,
            "verdicts": (one, other),
            "words": (a.get(name, ""), b.get(name, "")),
            "differs": one != other,
            "calm": one == other and one in CALM,
        }
        for name, one, other in pair.laws
    ]
    return sorted(rows, key=lambda row: (not row["differs"], row["calm"]))


def _differing_first(rows: Sequence[TableRow]) -> list[TableRow]:
    return sorted(rows, key=lambda row: row[1] == row[2])
