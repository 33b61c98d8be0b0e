"""An interactive timeline of calls on shared objects: who asked what when, and where a linearization gets stuck.

One self-contained page (or a part of one): the data stands in a JSON script element, a canvas shows it, and nothing is
loaded. Every text in it may come from the system under test, so the script only ever makes text of it, and the page's
policy admits that one script by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from reports.timeline import order_graph

#: The parts of the script, in order; one function wraps them all.
SCRIPTS = ("timeline_model.js", "timeline_paint.js", "timeline_panel.js", "timeline_page.js")

#: A witness of fewer calls needs no graph of their order, one of more is no picture that a person reads.
GRAPHED = (4, 40)
#: A page draws at most this many calls: those around what matters, and of orders the last steps.
CALLS = 20_000
STEPS = 5_000
_WORST_FIRST = {"invalid": 0, "unknown": 1, "valid": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One operation. ``call`` and ``ret`` are positions in the order of events, ``ret`` is None if it never returned;
    ``call_s`` and ``ret_s`` the times where they are known. ``detail`` is shown when the call is selected."""

    number: int
    process: str
    label: str
    call: int
    ret: int | None
    call_s: float | None = None
    ret_s: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Calls in an order that is lawful as far as it goes: their numbers, the states after each of them (or none), the
    last state, and the calls that can't come next, each with the reason."""

    order: Sequence[int]
    states: Sequence[str] = ()
    state: str = ""
    illegal: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """One object and all calls on it. ``verdict`` is valid, invalid or unknown; ``reason`` is one sentence on it.

    ``routes``: the longest partial linearizations (a whole one, if valid). ``blocked``: the call that no order can
    place. ``minimal``: calls that are enough for the violation, ``minimal_routes``: how far these alone can get.
    ``placed`` and ``of``: how many completed calls an undecided search placed, and of how many."""

    key: str | None
    verdict: str
    calls: Sequence[Call]
    reason: str = ""
    blocked: int | None = None
    routes: Sequence[Route] = ()
    minimal: Sequence[int] = ()
    minimal_routes: Sequence[Route] = ()
    placed: int = 0
    of: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Something drawn behind the calls while it lasted: ``kind`` is fault or a role; ``lane`` names its row."""

    lane: str
    start_s: float
    end_s: float
    label: str
    kind: str


def write(path: Path, title: str, objects: Sequence[Lanes], *, background: Sequence[Band] = ()) -> None:
    """Write the page. Raises ``OSError``; half a page is never left behind."""
    template = _environment().get_template("timeline/timeline.html.j2")
    page = template.render(
        title=printable(title),
        verdict=verdict(objects),
        summary=summary(objects),
        graph=next((graph(lanes) for lanes in objects if lanes.verdict == "invalid"), None),
        **part(objects, background),
    )
    whole = path.with_name(path.name + ".new")
    try:
        whole.write_text(page, "utf-8")
        whole.replace(path)
    except OSError:
        whole.unlink(missing_ok=True)
        raise


def part(objects: Sequence[Lanes], background: Sequence[Band]) -> dict[str, str]:
    """What ``_timeline.html.j2`` needs, for pages that hold a timeline among other things."""
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {
        "style": Markup(_file("timeline.css")),
        "script": Markup(script),
        "script_hash": digest,  # what the page's policy names, so that no other script runs in it
        "data": data(objects, background),
    }


def graph(lanes: Lanes) -> Markup | None:
    """Which of the minimal witness's calls had returned before which others began; None if that is plain to see."""
    chosen = set(lanes.minimal)
    calls = [call for call in lanes.calls if call.number in chosen]
    if not GRAPHED[0] <= len(calls) <= GRAPHED[1]:
        return None
    told = [
        {
            "label": printable(f"{call.process}: {call.label}"),
            "call": call.call,
            "ret": call.ret,
            "blocked": call.number == lanes.blocked,
        }
        for call in calls
    ]
    return Markup(order_graph.draw(told))  # matplotlib has escaped every text in it


def verdict(objects: Sequence[Lanes]) -> str:
    """The worst of all objects, as the badge shows it."""
    found = {lanes.verdict for lanes in objects}
    return "INVALID" if "invalid" in found else "UNKNOWN" if "unknown" in found or not found else "VALID"


def summary(objects: Sequence[Lanes]) -> str:
    """One line on all objects."""
    count = {name: sum(lanes.verdict == name for lanes in objects) for name in ("invalid", "unknown", "valid")}
    words = {"invalid": "not linearizable", "unknown": "undecided", "valid": "linearizable"}
    parts = [f"{number:,} {words[name]}" for name, number in count.items() if number]
    calls = sum(len(lanes.calls) for lanes in objects)
    whole = f"{len(objects):,} object{'' if len(objects) == 1 else 's'}, {calls:,} call{'' if calls == 1 else 's'}"
    return f"{whole}: {', '.join(parts)}" if parts else whole


def data(objects: Sequence[Lanes], background: Sequence[Band]) -> Markup:
    """The JSON of the picture, safe inside a script element: no character in it can end one."""
    left = CALLS
    told_objects = {}
    for place in sorted(range(len(objects)), key=lambda place: _WORST_FIRST[objects[place].verdict]):
        calls = _around(objects[place], left)
        left -= len(calls)
        told_objects[place] = _told(objects[place], calls)
    told = {
        "objects": [told_objects[place] for place in range(len(objects))],
        "background": [[printable(b.lane), b.start_s, b.end_s, printable(b.label), b.kind] for b in background],
    }
    text = json.dumps(told, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _around(lanes: Lanes, most: int) -> Sequence[Call]:
    """At most so many calls of an object: the minimal witness, and those called around the one that can't be placed
    (around the end of the longest order, if there is none)."""
    if len(lanes.calls) <= most:
        return lanes.calls
    last = lanes.blocked if lanes.blocked is not None else max(lanes.minimal, default=None)
    middle = next((at for at, call in enumerate(lanes.calls) if call.number == last), 0)
    start = min(max(0, middle - most * 3 // 4), len(lanes.calls) - most)
    kept = range(start, start + most)
    needed = set(lanes.minimal)
    return [call for at, call in enumerate(lanes.calls) if at in kept or (most and call.number in needed)]


def _told(lanes: Lanes, calls: Sequence[Call]) -> dict[str, Any]:
    return {
        "total": len(lanes.calls),
        "key": None if lanes.key is None else printable(lanes.key),
        "verdict": lanes.verdict,
        "reason": printable(lanes.reason),
        "blocked": lanes.blocked,
        "placed": lanes.placed,
        "of": lanes.of,
        "minimal": list(lanes.minimal),
        "routes": [_route(route) for route in lanes.routes],
        "minimalRoutes": [_route(route) for route in lanes.minimal_routes],
        "calls": [_call(call) for call in calls],
    }


def _call(call: Call) -> list[Any]:
    texts = [printable(text) for text in (call.process, call.label, call.detail)]
    times = [_rounded(call.call_s), _rounded(call.ret_s)]
    return [call.number, *texts[:2], call.call, call.ret, *times, texts[2]]


def _route(route: Route) -> dict[str, Any]:
    skipped = max(0, len(route.order) - STEPS)
    return {
        "skipped": skipped,
        "order": list(route.order[skipped:]),
        "states": [printable(state) for state in route.states[skipped:]],
        "state": printable(route.state),
        "illegal": [[number, printable(why)] for number, why in route.illegal.items()],
    }


def printable(text: str) -> str:
    """Values come from the system under test: nothing that is no character, or that turns the direction of writing."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _rounded(second: float | None) -> float | None:
    return None if second is None else round(second, 6)


def _script() -> str:
    return "(() => {\n" + "\n".join(_file(name) for name in SCRIPTS) + "})();"


def _file(name: str) -> str:
    return (Path(__file__).parent / name).read_text("utf-8")


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("reports", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
