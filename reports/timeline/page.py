"""An interactive timeline of calls on shared objects: who asked what when, and where a linearization gets stuck.

One self-contained page (or a part of one): the data stands in a JSON script element, a canvas shows it, and nothing is
loaded. Every text in it may come from the system under test, so the script only ever makes text of it, and the page's
policy admits that one script by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from chaos import guarded
from checkers.linearizable import PartialLinearization
from reports.printable import printable
from reports.templates import template
from reports.timeline import order_graph
from reports.timeline.model import Band, CallBar, ObjectTimeline

#: The parts of the script, in order; one function wraps them all.
SCRIPTS = ("timeline_model.js", "timeline_paint.js", "timeline_panel.js", "timeline_page.js")

#: A witness of fewer calls needs no graph of their order, one of more is no picture that a person reads.
GRAPHED = (4, 40)
#: A page draws at most this many calls: those around what matters, and of orders the last steps.
CALLS = 20_000
STEPS = 5_000
_WORST_FIRST = {"invalid": 0, "unknown": 1, "valid": 2}


def write(path: Path, title: str, objects: Sequence[ObjectTimeline], *, background: Sequence[Band] = ()) -> None:
    """Write the page. Raises ``OSError``; half a page is never left behind."""
    page = template("timeline/timeline.html.j2").render(
        title=printable(title),
        verdict=verdict(objects),
        summary=summary(objects),
        graph=next((graph(timeline) for timeline in objects if timeline.verdict == "invalid"), None),
        **part(objects, background),
    )
    guarded.replace(path, page.encode())


def part(
    objects: Sequence[ObjectTimeline], background: Sequence[Band], *, calls: int = CALLS, unit: str = "event"
) -> dict[str, str]:
    """Return what ``_timeline.html.j2`` needs, for pages that hold a timeline among other things. ``calls``: at most so
    many are drawn; ``unit``: what the positions of calls count."""
    script = _script()
    return {
        "style": Markup(_file("timeline.css")),
        "script": Markup(script),
        "script_hash": digest(script),
        "data": data(objects, background, calls=calls, unit=unit),
    }


def digest(script: str) -> str:
    """Return the hash by which a page's policy admits this script and no other."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def graph(timeline: ObjectTimeline, name: str = "order") -> Markup | None:
    """Draw which of the minimal witness's calls had returned before which others began, with ids that begin with
    ``name``; None if that is plain to see."""
    chosen = set(timeline.minimal)
    calls = [call for call in timeline.calls if call.number in chosen]
    if not GRAPHED[0] <= len(calls) <= GRAPHED[1]:
        return None
    return order_graph.draw(calls, timeline.blocked, name)


def verdict(objects: Sequence[ObjectTimeline]) -> str:
    """Return the worst of all objects, as the badge shows it."""
    found = {timeline.verdict for timeline in objects}
    return "INVALID" if "invalid" in found else "UNKNOWN" if "unknown" in found or not found else "VALID"


def summary(objects: Sequence[ObjectTimeline]) -> str:
    """Return one line on all objects."""
    count = {name: sum(timeline.verdict == name for timeline in objects) for name in ("invalid", "unknown", "valid")}
    words = {"invalid": "not linearizable", "unknown": "undecided", "valid": "linearizable"}
    parts = [f"{number:,} {words[name]}" for name, number in count.items() if number]
    calls = sum(len(timeline.calls) for timeline in objects)
    whole = f"{len(objects):,} object{'' if len(objects) == 1 else 's'}, {calls:,} call{'' if calls == 1 else 's'}"
    return f"{whole}: {', '.join(parts)}" if parts else whole


def data(
    objects: Sequence[ObjectTimeline], background: Sequence[Band], *, calls: int = CALLS, unit: str = "event"
) -> Markup:
    """Return the JSON of the picture, safe inside a script element: no character in it can end one.

    Texts that come again and again stand once in ``texts``; calls are columns, see :func:`_calls`."""
    texts = _Texts()
    left = calls
    encoded = {}
    for place in sorted(range(len(objects)), key=lambda place: _WORST_FIRST[objects[place].verdict]):
        shown = _around(objects[place], left)
        left -= len(shown)
        encoded[place] = _object(objects[place], shown, texts)
    parts = {
        "unit": unit,
        "objects": [encoded[place] for place in range(len(objects))],
        "background": [[printable(b.lane), b.start_s, b.end_s, printable(b.label), b.kind] for b in background],
        "texts": list(texts.places),
    }
    text = json.dumps(parts, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


class _Texts:
    """Each text once, by its place in the order of first use."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}

    def place(self, text: str) -> int:
        return self.places.setdefault(printable(text), len(self.places))


def _around(timeline: ObjectTimeline, most: int) -> Sequence[CallBar]:
    """Return at most so many calls of an object: the minimal witness, and those called around the one that can't be
    placed (around the end of the longest order, if there is none)."""
    if len(timeline.calls) <= most:
        return timeline.calls
    last = timeline.blocked if timeline.blocked is not None else max(timeline.minimal, default=None)
    middle = next((at for at, call in enumerate(timeline.calls) if call.number == last), 0)
    start = min(max(0, middle - most * 3 // 4), len(timeline.calls) - most)
    kept = range(start, start + most)
    needed = set(timeline.minimal)
    return [call for at, call in enumerate(timeline.calls) if at in kept or (most and call.number in needed)]


def _object(timeline: ObjectTimeline, calls: Sequence[CallBar], texts: _Texts) -> dict[str, Any]:
    return {
        "total": len(timeline.calls),
        "key": None if timeline.key is None else printable(timeline.key),
        "verdict": timeline.verdict,
        "reason": printable(timeline.reason),
        "blocked": timeline.blocked,
        "placed": timeline.placed,
        "of": timeline.of,
        "minimal": list(timeline.minimal),
        "orders": [_order(order, texts) for order in timeline.orders],
        "minimalOrders": [_order(order, texts) for order in timeline.minimal_orders],
        "calls": _calls(calls, texts),
    }


def _calls(calls: Sequence[CallBar], texts: _Texts) -> list[list[int | None]]:
    """Return columns: number, process, label, call, ret, call in µs, ret in µs, detail. Numbers and calls are written
    as the difference from the call before, returns as that from the own call (None: it never returned, or no time is
    known); process, label and detail as places in ``texts``."""
    columns: list[list[int | None]] = [[] for _ in range(8)]
    last = (0, 0, 0)
    for call in calls:
        began, ended = _microseconds(call.call_s), _microseconds(call.ret_s)
        fields = (
            *(call.number - last[0], texts.place(call.process), texts.place(call.label), call.call - last[1]),
            None if call.ret is None else call.ret - call.call,
            None if began is None else began - last[2],
            None if began is None or ended is None else ended - began,
            texts.place(call.detail),
        )
        for column, value in zip(columns, fields, strict=True):
            column.append(value)
        last = (call.number, call.call, last[2] if began is None else began)
    return columns


def _order(found: PartialLinearization, texts: _Texts) -> dict[str, Any]:
    """``skipped`` calls are left out at the beginning of the order; there is a state for each other call, or none."""
    skipped = max(0, len(found.order) - STEPS)
    unknown = [""] * (len(found.order) - len(found.states)) if found.states else []
    return {
        "skipped": skipped,
        "order": list(found.order[skipped:]),
        "states": [texts.place(state) for state in [*unknown, *found.states][skipped:]],
        "state": printable(found.state),
        "illegal": [[number, printable(why)] for number, why in found.illegal.items()],
    }


def _microseconds(second: float | None) -> int | None:
    return None if second is None else round(second * 1e6)


def _script() -> str:
    return "(() => {\n" + "\n".join(_file(name) for name in SCRIPTS) + "})();"


def _file(name: str) -> str:
    return (Path(__file__).parent / name).read_text("utf-8")
