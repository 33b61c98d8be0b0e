"""What the report's script knows of each node over time: the state before and after an event, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from chaos.events import Truncate
from chaos.fault import Effect
from chaos.history.history import History
from reports.faults import FaultLine
from reports.run_report.axis import Axis
from reports.run_report.storage import StorageStory
from reports.summary import Bar, Story
from reports.svg import cut

#: Events that one can step to, and polls of one node that the page holds.
EVENTS, POLLS = 400, 500
#: What a poll shows of a node, in bytes of its log.
POSITIONS = ("end", "synced", "confirm", "first")


def states(
    history: History, story: Story, axis: Axis, marks: Sequence[tuple[int, float]],
    storage: StorageStory | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return ``left`` and ``right`` of the axis in seconds; ``events`` as [second, words] in order;
    ``faults`` that took effect as [from, to, name, nodes, cuts, links], where ``cuts`` are pairs of sides of which the
    first doesn't reach the second, and ``links`` pairs of a node and what is wrong with links of it; ``nodes``, each
    with its ``roles`` as [from, to, role, epoch] and its ``polls`` as [milliseconds, end, synced, confirm, first], in
    columns of differences (-1 where nothing was reported). ``storage``: what happened to slices and groups."""
    storage = storage or StorageStory()
    return {
        "left": round(axis.left_s, 3),
        "right": round(axis.right_s, 3),
        "events": _events(history, story, marks, storage.events),
        "faults": [
            [
                round(f.start_s, 4),
                round(f.end_s, 4),
                _text(f.name),
                _texts(f.targets.split(", ")),
                [[_texts(some), _texts(others)] for some, others in f.cuts],
                _links(f),
            ]
            for f in story.faults
            if f.effective != "no"
        ],
        "nodes": _nodes(history, [*story.roles, *story.terms, *storage.roles]),
    }


def as_json(known: dict[str, Any]) -> Markup:
    """Return what :func:`states` returns, as it can stand in a page."""
    text = json.dumps(known, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _links(fault: FaultLine) -> list[tuple[str, str]]:
    """Return, by node, what a fault is proven to have done to links of it; none where the fault names its cuts."""
    words = {Effect.ISOLATES: "cut off", Effect.CUTS: "disturbed", Effect.CUTS_CLIENTS: "those of clients disturbed"}
    links = {_text(node): text for effect, text in words.items() for node in fault.proven.get(effect, ())}
    return [] if fault.cuts else list(links.items())


def _events(
    history: History, story: Story, marks: Sequence[tuple[int, float]], more: Sequence[tuple[float, str]]
) -> list[tuple[float, str]]:
    """Return faults, roles, cut logs and causes: of too many, those that stand nearest to a cause."""
    events = [*((second, f"cause {number}") for number, second in marks), *more]
    for fault in story.faults:
        if fault.effective != "no":
            events += [(fault.start_s, f"{fault.name} of {fault.targets}"), (fault.end_s, f"{fault.name} ends")]
    events += [(bar.start_s, f"{bar.lane}: {bar.label}") for bar in [*story.roles, *story.terms]]
    for row in history.each(Truncate):
        events.append((row.at_s, f"{row.node} cuts its log at {row.position:,}"))
    if len(events) > EVENTS:
        events.sort(key=lambda event: min((abs(event[0] - second) for _, second in marks), default=event[0]))
    return [(round(second, 4), _text(words)) for second, words in sorted(events[:EVENTS])]


def _nodes(history: History, roles: Sequence[Bar]) -> list[dict[str, Any]]:
    polls: dict[str, list[tuple[int, ...]]] = {}
    for row in history.polls:
        positions = (row.value.get(name) for name in POSITIONS)
        numbers = [p if isinstance(p, int) and p >= 0 else -1 for p in positions]
        polls.setdefault(row.node, []).append((round(row.at_s * 1000), *numbers))
    bars: dict[str, list[Bar]] = {}
    for bar in roles:
        bars.setdefault(bar.lane, []).append(bar)
    return [
        {
            "name": _text(node),
            "roles": [_role(bar) for bar in bars.get(node, [])],
            "polls": _columns(polls.get(node, [])),
        }
        for node in sorted({*polls, *bars})
    ]


def _role(bar: Bar) -> list[Any]:
    return [round(bar.start_s, 4), round(bar.end_s, 4), _text(bar.kind), bar.label.removeprefix(bar.kind).strip()]


def _columns(polls: Sequence[tuple[int, ...]]) -> list[list[int]]:
    """Return columns of first values and differences; what is thinned out is known from its neighbours."""
    thin = sorted(polls)[:: max(1, len(polls) // POLLS)]
    return [np.diff(column, prepend=0).tolist() for column in zip(*thin, strict=True)]


def _texts(texts: Iterable[str]) -> list[str]:
    return [_text(text) for text in texts]


def _text(text: str) -> str:
    return cut(text, 80)
