"""Draws which calls came before which: the real-time order of a few operations, as an inline SVG.

An arrow means that one call had returned before the other began, so that every linearization keeps the two in this
order; between calls without a path of arrows any order is allowed.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

#: More than a person would read; of more, the last ones are drawn.
MOST = 40
#: Characters in a line of a label, and lines.
WIDTH, LINES = 26, 4
COLUMN_IN, ROW_IN = 2.3, 0.75


def draw(operations: Sequence[Mapping[str, Any]]) -> str:
    """Return the SVG element.

    Each operation has ``label``, ``call`` and ``ret`` (positions in the order of events, ``ret`` None when it never
    returned) and may have ``blocked`` (true: it is the one that can't be placed). Shapes, not colours alone,
    distinguish them: blocked ones have a thick border, crashed ones a dashed one.
    """
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    shown = sorted(operations, key=lambda operation: operation["call"])[-MOST:]
    places = _places(shown)
    columns = 1 + max((x for x, _ in places), default=0)
    rows = 1 + max((y for _, y in places), default=0)
    settings = {
        "svg.fonttype": "none",
        "svg.hashsalt": "stormproof",
        "font.size": 8,
        "font.family": "sans-serif",
        "text.parse_math": False,
    }
    with pyplot.rc_context(settings):
        figure, axis = pyplot.subplots(figsize=(columns * COLUMN_IN, (rows + 0.4) * ROW_IN))
        figure.subplots_adjust(left=0, right=1, bottom=0, top=1)
        axis.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.9))
        axis.axis("off")
        boxes = [_box(axis, operation, place) for operation, place in zip(shown, places, strict=True)]
        for before, after in _edges(shown):
            arrow = {"arrowstyle": "-|>", "color": "#555555", "patchA": boxes[before], "patchB": boxes[after]}
            axis.annotate("", xy=places[after], xytext=places[before], arrowprops={**arrow, "shrinkA": 0, "shrinkB": 1})
        if len(shown) < len(operations):
            left = len(operations) - len(shown)
            note = f"{left} earlier {'operation is' if left == 1 else 'operations are'} not drawn"
            axis.text(-0.45, -0.75, note, fontsize=7, color="#555555")
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
        pyplot.close(figure)
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def _box(axis: Any, operation: Mapping[str, Any], place: tuple[int, float]) -> Any:
    """Draw one operation; return its outline, where arrows begin and end."""
    lines = textwrap.wrap(str(operation["label"]), WIDTH) or [""]
    if len(lines) > LINES:
        lines = [*lines[: LINES - 1], lines[LINES - 1][: WIDTH - 1] + "…"]
    blocked = bool(operation.get("blocked"))
    crashed = operation["ret"] is None
    outline = {
        "boxstyle": "round,pad=0.4",
        "facecolor": "#fbe3d6" if blocked else "white",
        "edgecolor": "#b03000" if blocked else "#333333",
        "linewidth": 2.4 if blocked else 1.0,
        "linestyle": (0, (4, 2)) if crashed else "solid",
    }
    notes = ["can't be placed"] * blocked + ["never returned"] * crashed
    content = "\n".join([*lines, *(f"({note})" for note in notes)])
    weight = "bold" if blocked else "normal"
    drawn = axis.text(*place, content, ha="center", va="center", fontweight=weight, bbox=outline, zorder=3)
    return drawn.get_bbox_patch()


def _edges(operations: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Return who came directly before whom: the transitive reduction of "had returned before the other was called"."""
    import networkx

    order = networkx.DiGraph()
    order.add_nodes_from(range(len(operations)))
    for before, one in enumerate(operations):
        for after, other in enumerate(operations):
            if _came_before(one, other):
                order.add_edge(before, after)
    return sorted(networkx.transitive_reduction(order).edges)


def _places(operations: Sequence[Mapping[str, Any]]) -> list[tuple[int, float]]:
    """Return (column, row) of each operation: as many columns from the left as there are operations in a row before it,
    the rows of a column spread around the middle."""
    columns: list[int] = []
    for operation in operations:  # in the order of their calls, so that all that came before have their column
        before = [columns[i] for i in range(len(columns)) if _came_before(operations[i], operation)]
        columns.append(1 + max(before, default=-1))
    tallest = max((columns.count(column) for column in columns), default=1)
    places = []
    for i, column in enumerate(columns):
        mine = columns[:i].count(column)
        places.append((column, mine + (tallest - columns.count(column)) / 2))
    return places


def _came_before(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one["ret"] is not None and one["ret"] < other["call"]
