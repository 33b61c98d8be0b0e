"""Curves on the time axis of a report: throughput, latency, and how far replicas are behind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from reports import svg
from reports.run_report.axis import LANE, Axis, Panel, dots, line, stretched
from reports.run_report.lags import Lag
from reports.summary import Curve, Story

#: Height of a panel with curves, in pixels.
CURVES = 88
#: A curve ends so far below the upper edge that its highest point is seen.
HEADROOM = 1.06
#: Lines keep their colour by place, up to this many.
COLOURS = 6
#: Lanes of one panel; of more, the first ones are drawn.
LANES = 24


def each_piece(story: Story, what: str) -> str:
    """Say over how many seconds a curve shows a mean, or a quantile; "" for one."""
    return f"; {what} of {story.piece_s} s each" if story.piece_s > 1 else ""


def throughput(axis: Axis, curves: Sequence[Curve], means: str) -> Panel:
    """Draw operations per second."""
    most = max(1.0, *(max(curve.y) for curve in curves))
    top = HEADROOM * most
    drawn = [
        line(axis, curve.x, [y / top for y in curve.y], f"k{place % COLOURS}") for place, curve in enumerate(curves)
    ]
    return Panel(
        title="Operations per second" + means,
        height=CURVES,
        content=_scaled(axis, drawn, low=0, high=top),
        legend=[(f"k{place % COLOURS}", curve.label) for place, curve in enumerate(curves)],
        scale=[(0.0, "0"), *((tick / top, f"{tick:,.0f}") for tick in svg.ticks(most / 8, most, 3) if tick >= 1)],
        words="; ".join(f"{curve.label}: at most {max(curve.y):,.0f} a second" for curve in curves),
    )


def latency(axis: Axis, curves: Sequence[Curve], points: Curve | None, means: str, piece_s: int) -> Panel:
    """Draw every latency as a dot, quantiles of each second as lines, on a logarithmic axis."""
    every = [np.asarray(curve.y, float) for curve in [*curves, *([points] if points else [])]]
    least = min(float(np.min(y, where=y > 0, initial=np.inf)) for y in every)
    most = max(float(np.max(y, where=y > 0, initial=0.0)) for y in every)
    low, high = (math.floor(math.log10(least)), math.ceil(math.log10(most))) if most else (0, 0)
    high = max(high, low + 1)

    def heights(curve: Curve) -> np.ndarray[Any, np.dtype[np.float64]]:
        found: np.ndarray[Any, np.dtype[np.float64]] = np.maximum(np.asarray(curve.y, float), 10.0**low)
        return (np.log10(found) - low) / (high - low)

    drawn = [dots(axis, points.x, heights(points), "raw")] if points else []
    drawn += [
        line(axis, curve.x, heights(curve).tolist(), f"k{place}", gap_s=1.5 * piece_s)
        for place, curve in enumerate(curves)
    ]
    decades = range(low, high + 1)
    return Panel(
        title="Latency of acknowledged sends, ms (logarithmic)" + means,
        name="latency",
        height=CURVES + 24,
        content=_scaled(axis, drawn, low=low, high=high, log=True),
        legend=[(f"k{place}", curve.label) for place, curve in enumerate(curves)] + [("raw", "each send")],
        scale=[((power - low) / (high - low), f"{10.0**power:g}") for power in decades],
        words="; ".join(f"{curve.label}: {min(curve.y):.2g} ms to {max(curve.y):.2g} ms" for curve in curves),
    )


def replica_lags(axis: Axis, lags: Sequence[Lag]) -> Panel:
    """Draw a lane each on one scale, so that none hides another."""
    shown = lags[:LANES]
    top = max(1.0, *(max(lag.behind) for lag in shown))
    bottom = min(0.0, *(min(lag.behind) for lag in shown))
    bottom = bottom if bottom < -0.05 * top else 0.0
    base = -bottom / (top - bottom)
    drawn = []
    for place, lag in enumerate(shown):
        heights = [(behind - bottom) / (top - bottom) for behind in lag.behind]
        curve = [line(axis, lag.at_s, heights, "lag", area=base)]
        drawn.append(_scaled(axis, curve, low=bottom / 1024, high=top / 1024, lane=place))
    ahead = " (downwards: ahead of it)" if bottom else ""
    return Panel(
        title=f"Behind the end of the master's log, KiB{ahead}",
        name="replica lag",
        height=LANE * len(shown),
        names=[lag.label for lag in shown],
        notes=[f"≤ {max(lag.behind) / 1024:,.0f}" for lag in shown],
        content=Markup("").join(drawn),
        words="; ".join(f"{lag.label}: at most {max(lag.behind) / 1024:,.0f} KiB" for lag in shown),
    )


def _scaled(
    axis: Axis, drawn: Sequence[Markup], *, low: float, high: float, log: bool = False, lane: int | None = None
) -> Markup:
    """Draw curves whose values can be read back from their points."""
    content = svg.element("g", *drawn, data_low=f"{low:g}", data_high=f"{high:g}", data_log=1 if log else None)
    height = None if lane is not None else CURVES + 24 if log else CURVES
    return stretched(axis, content, lane=lane or 0, height=height)
