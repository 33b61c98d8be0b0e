"""Draws the one time axis of a report: faults, roles, throughput, latency and positions, as an inline SVG."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from reports.run_report.fates import Fate
from reports.summary import Bar, Curve, Story

#: Colours that stay apart for colour-blind readers (Okabe and Ito's palette) and in grey print.
ROLE_COLOURS = {"master": "#0072b2", "slave": "#9ecae1", "fenced": "#cccccc", "recovering": "#e5e5e5", "out": "#e69f00"}
FAULT_COLOUR = "#d55e00"
#: Of paths, digits that nobody sees.
PATH, DIGITS = re.compile(r' d="[^"]*"'), re.compile(r"(?<=\.\d\d)\d+")
MARK_COLOUR = "#c00000"
#: A bar has room for its label from this share of the time axis on.
LABELLED = 0.03
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999")


def draw(story: Story, marks: Mapping[int, float], fates: Sequence[Fate] = ()) -> str:
    """Return the SVG element. ``marks``: the second of each numbered cause, drawn through all lanes."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    settings = {
        "svg.fonttype": "none",
        "svg.hashsalt": "stormproof",
        "font.size": 8,
        "font.family": "sans-serif",
        "text.parse_math": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    panels = _panels(story, fates)
    with pyplot.rc_context(settings):
        figure, axes = pyplot.subplots(
            len(panels), 1, sharex=True, squeeze=False, figsize=(11, sum(height for _, height, _ in panels)),
            gridspec_kw={"height_ratios": [height for _, height, _ in panels]}, layout="constrained",
        )  # fmt: skip
        for axis, (title, _, paint) in zip(axes[:, 0], panels, strict=True):
            paint(axis)
            axis.set_title(title, loc="left", fontsize=8, fontweight="bold")
            for fault in story.faults:
                if fault.effective != "no":
                    axis.axvspan(fault.start_s, fault.end_s, color=FAULT_COLOUR, alpha=0.08, linewidth=0, zorder=0)
            for mark in marks.values():
                axis.axvline(mark, color=MARK_COLOUR, linewidth=0.9, linestyle=(0, (4, 2)), zorder=5)
        for number, mark in marks.items():
            top = axes[0, 0].get_xaxis_transform()
            axes[0, 0].text(mark, 1.02, str(number), transform=top, color=MARK_COLOUR, ha="center", fontweight="bold")
        axes[-1, 0].set_xlabel("seconds since the load began")
        axes[-1, 0].set_xlim(left=min([0.0, *(bar.start_s for bar in story.phases)]), right=max(story.duration_s, 1.0))
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
        pyplot.close(figure)
    svg = text.getvalue()
    return PATH.sub(lambda path: DIGITS.sub("", path[0]), svg[svg.index("<svg") :])


def _panels(story: Story, fates: Sequence[Fate]) -> list[tuple[str, float, Any]]:
    """(title, height in inches, painter) of each panel that has something to show."""
    faults = [
        Bar(lane=fault.name, start_s=fault.start_s, end_s=fault.end_s, label=fault.targets, kind="fault")
        for fault in story.faults
    ]
    panels: list[tuple[str, float, Any]] = []
    if faults:
        panels.append(("Faults", 0.5 + 0.25 * len({bar.lane for bar in faults}), lambda axis: _bars(axis, faults)))
    if story.roles:
        lanes = len({bar.lane for bar in story.roles})
        panels.append(("Roles and master epochs", 0.5 + 0.28 * lanes, lambda axis: _bars(axis, story.roles)))
    if fates:
        title = "Every message when it was first sent, by its fate"
        panels.append((title, 0.4 + 0.2 * len(fates), lambda axis: _fates(axis, fates)))
    if story.outages:
        lanes = len({bar.lane for bar in story.outages})
        title = "Queues without an acknowledged send for more than a second"
        panels.append((title, 0.5 + 0.2 * lanes, lambda axis: _bars(axis, story.outages)))
    if story.throughput:
        panels.append(("Operations per second", 1.3, lambda axis: _curves(axis, story.throughput)))
    if story.latency:
        panels.append(("Latency of acknowledged sends, ms", 1.3, lambda axis: _curves(axis, story.latency, log=True)))
    titles = {
        "end": "End of the log per replica, KiB",
        "confirm": "Confirm offset per replica, KiB",
        "first": "First local position per replica, KiB",
        "tier": "Position reached by the tier, KiB",
    }
    for name, title in titles.items():
        if curves := story.positions.get(name):
            panels.append((title, 1.1, lambda axis, curves=curves: _curves(axis, curves)))
    return panels or [("Nothing was recorded", 1.0, lambda axis: None)]


def _bars(axis: Any, bars: Sequence[Bar]) -> None:
    lanes = list(dict.fromkeys(bar.lane for bar in bars))
    whole = max(bar.end_s for bar in bars) - min(bar.start_s for bar in bars)
    for bar in bars:
        y = lanes.index(bar.lane)
        colour = ROLE_COLOURS.get(bar.kind, FAULT_COLOUR if bar.kind == "fault" else "#bbbbbb")
        axis.barh(y, max(bar.end_s - bar.start_s, 0.05), left=bar.start_s, height=0.7, color=colour, linewidth=0)
        dark = colour in (ROLE_COLOURS["master"], FAULT_COLOUR)
        ink = "white" if dark else "black"
        if bar.end_s - bar.start_s >= LABELLED * whole:
            label = _printable(bar.label)
            axis.text(bar.start_s + 0.1, y, label, va="center", fontsize=6.5, color=ink, clip_on=True)
    axis.set_yticks(range(len(lanes)), [_printable(lane) for lane in lanes])
    axis.set_ylim(len(lanes) - 0.5, -0.5)


def _fates(axis: Any, fates: Sequence[Fate]) -> None:
    for y, fate in enumerate(fates):
        spans = [(start, end - start) for start, end in fate.spans]
        axis.broken_barh(spans, (y - 0.35, 0.7), color=MARK_COLOUR if fate.bad else LINES[0], linewidth=0)
        axis.text(1.005, y, f"{fate.count:,}", transform=axis.get_yaxis_transform(), va="center", fontsize=7)
    axis.set_yticks(range(len(fates)), [fate.label for fate in fates])
    axis.set_ylim(len(fates) - 0.5, -0.5)


def _printable(text: str) -> str:
    """Values come from the system under test: no control characters in an SVG, and no label without end."""
    shown = "".join(c if c.isprintable() else "?" for c in text)
    return shown if len(shown) <= 40 else shown[:39] + "…"


def _curves(axis: Any, curves: Sequence[Curve], *, log: bool = False) -> None:
    for curve, colour in zip(curves, LINES * (1 + len(curves) // len(LINES)), strict=False):
        axis.plot(curve.x, curve.y, label=curve.label, color=colour, linewidth=1.1)
    if log:
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.yaxis.set_minor_formatter(lambda value, _: "")
    else:
        axis.set_ylim(bottom=0)
    axis.legend(loc="upper left", fontsize=6.5, ncols=4, frameon=False)
