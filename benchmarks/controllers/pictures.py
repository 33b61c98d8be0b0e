"""The report's pictures: SVG, light, each readable without its caption."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.controllers.bench import ALTER, ELECT, HEARTBEAT, INFO, MIXED, REGISTER
from benchmarks.controllers.cluster import KINDS, ROCKETMQ
from benchmarks.controllers.failover import COUNTS, HOWS
from benchmarks.controllers.pieces import GROUPS, USUAL
from benchmarks.controllers.results import NAMES, Results
from reference.controller.dispatch import CLASSIC, PARALLEL

COLOURS = {CLASSIC: "#9aa5b1", PARALLEL: "#2a6fbb", ROCKETMQ: "#d9822b"}
MARKS = {CLASSIC: "s", PARALLEL: "o", ROCKETMQ: "^"}
WORDS = {
    HEARTBEAT: "heartbeat",
    REGISTER: "register",
    ALTER: "alter\nSyncStateSet",
    ELECT: "elect",
    INFO: "replica info",
    MIXED: "read beside\nchanges",
}
_LOADED = (HEARTBEAT, REGISTER, ALTER, ELECT, INFO)
_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "stormproof",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#e3e7eb",
    "text.parse_math": False,
}


def draw(results: Results) -> dict[str, str]:
    """SVG by file name; a picture without any figure is left out."""
    makers: dict[str, Callable[[Any, Results], bool]] = {
        "throughput.svg": _throughput,
        "processor.svg": _processor,
        "latency.svg": _latency,
        "groups.svg": _groups,
        "failover.svg": _failover,
        "profile.svg": _profile,
    }
    drawn = {name: _drawn(maker, results) for name, maker in makers.items()}
    return {name: svg for name, svg in drawn.items() if svg}


def _drawn(maker: Callable[[Any, Results], bool], results: Results) -> str:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    with pyplot.rc_context(_SETTINGS):
        figure = pyplot.figure(figsize=(9.2, 3.8), layout="constrained", facecolor="white")
        has_data = maker(figure, results)
        for axis in figure.axes:
            if axis.get_yscale() == "log":
                axis.yaxis.set_major_formatter(lambda value, place: f"{value:,g}")
                axis.yaxis.set_minor_formatter(lambda value, place: "")
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
        pyplot.close(figure)
    svg = text.getvalue()
    return "\n".join(line.rstrip() for line in svg[svg.index("<svg") :].splitlines()) + "\n" if has_data else ""


def _bars(figure: Any, results: Results, phases: Sequence[str], key: str, title: str) -> bool:
    """Bars by phase and kind, on a logarithmic axis, with their values."""
    axis = figure.subplots()
    some = False
    for turn, kind in enumerate(KINDS):
        found = [results.phase(kind, phase) for phase in phases]
        values = [one[key] if one is not None else 0 for one in found]
        places = [at + (turn - 1) * 0.27 for at in range(len(phases))]
        bars = axis.bar(places, values, 0.25, label=NAMES[kind], color=COLOURS[kind])
        axis.bar_label(bars, [f"{value:,.0f}" if value else "" for value in values], fontsize=7, padding=1)
        some |= any(values)
    axis.set(yscale="log", title=title)
    axis.set_xticks(range(len(phases)), [WORDS[phase] for phase in phases])
    axis.legend(frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    axis.margins(y=0.12)
    return some


def _throughput(figure: Any, results: Results) -> bool:
    return _bars(figure, results, _LOADED, "per_s", f"Requests per second, 64 in flight, {USUAL} groups")


def _processor(figure: Any, results: Results) -> bool:
    return _bars(
        figure,
        results,
        _LOADED,
        "processor_us",
        f"Processor time of three controllers for a request, µs, {USUAL} groups",
    )


def _latency(figure: Any, results: Results) -> bool:
    """From the median to p99 as a line, p99.9 as a mark."""
    axis = figure.subplots()
    phases = (*_LOADED, MIXED)
    for turn, kind in enumerate(KINDS):
        found = [(at + (turn - 1) * 0.2, results.phase(kind, phase)) for at, phase in enumerate(phases)]
        known = [(place, one["ms"]) for place, one in found if one is not None]
        if known:
            places, ms = zip(*known, strict=True)
            medians, p99s = ([one[percent] for one in ms] for percent in ("50", "99"))
            axis.vlines(places, medians, p99s, color=COLOURS[kind], linewidth=5, label=NAMES[kind])
            axis.plot(places, [one["99.9"] for one in ms], "_", color=COLOURS[kind], markersize=9, markeredgewidth=1.5)
    axis.set(yscale="log", title=f"Latency, ms: from the median to p99; the dash is p99.9 ({USUAL} groups)")
    axis.set_xticks(range(len(phases)), [WORDS[phase] for phase in phases])
    some = bool(axis.lines)
    if some:
        axis.legend(frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    return some


def _groups(figure: Any, results: Results) -> bool:
    some = False
    for axis, phase in zip(figure.subplots(1, 3), (REGISTER, ELECT, INFO), strict=True):
        for kind in KINDS:
            found = [(groups, results.phase(kind, phase, groups)) for groups in GROUPS]
            known = [(groups, one["per_s"]) for groups, one in found if one is not None]
            if known:
                some = True
                axis.plot(*zip(*known, strict=True), marker=MARKS[kind], color=COLOURS[kind], label=NAMES[kind])
        axis.set(xscale="log", yscale="log", xlabel="broker groups", title=f"{WORDS[phase]}, per second")
        axis.set_xticks(GROUPS, [f"{groups:,}" for groups in GROUPS])
        axis.minorticks_off()
    if some:
        figure.axes[0].legend(frameon=False, fontsize=8)
    return some


def _failover(figure: Any, results: Results) -> bool:
    some = False
    words = {"killed": "connections closed", "silent": "silent, heartbeats time out after 3 s"}
    for axis, how in zip(figure.subplots(1, 2, sharey=True), HOWS, strict=True):
        for kind in KINDS:
            found = [(count, results.failover(kind, how, count)) for count in COUNTS]
            known = [(count, max(seconds)) for count, seconds in found if seconds]
            if known:
                some = True
                axis.plot(*zip(*known, strict=True), marker=MARKS[kind], color=COLOURS[kind], label=NAMES[kind])
        axis.axhline(5, color="#c0392b", linewidth=1, linestyle=(0, (4, 3)))
        axis.set(xscale="log", yscale="log", xlabel="masters that go at once", title=words[how])
        axis.set_xticks(COUNTS, [f"{count:,}" for count in COUNTS])
        axis.minorticks_off()
    figure.axes[0].set_ylabel("seconds until the last group has a master")
    if some:
        figure.axes[0].legend(frameon=False, fontsize=8)
    return some


def _profile(figure: Any, results: Results) -> bool:
    axis = figure.subplots()
    colours = ("#2a6fbb", "#7fb069", "#e6aa68", "#ca3c25", "#8e6c8a", "#b8c0c8")
    phases = {"a change": REGISTER, "a read": INFO}
    shares = {name: results.areas(phase) for name, phase in phases.items()}
    areas = sorted({area for found in shares.values() for area in found})
    left = [0.0] * len(shares)
    for area, colour in zip(areas, colours, strict=False):
        widths = [100 * found.get(area, 0.0) for found in shares.values()]
        bars = axis.barh(list(shares), widths, 0.55, left=left, color=colour, label=area)
        axis.bar_label(
            bars, [f"{width:.0f}" if width >= 4 else "" for width in widths], label_type="center", color="white"
        )
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axis.set(xlim=(0, 100), title="Where the leader's processor time goes, %")
    axis.grid(visible=False)
    if areas:
        axis.legend(frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.1))
    return bool(areas)
