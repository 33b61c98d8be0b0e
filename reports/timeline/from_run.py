"""From a run's rows and its verdict to the timeline of each object that is not linearizable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow.compute as pc

from chaos.history.history import History
from chaos.history.row import Row
from chaos.verdict import Anomaly, DeadEnd
from checkers.linearizable import PartialLinearization
from reports.summary import Story
from reports.timeline.model import Band, CallBar, ObjectTimeline

#: The anomaly whose objects are drawn, whichever law reports it.
NOT_LINEARIZABLE = "not-linearizable"
#: So many objects of one run are drawn.
DRAWN = 20


def timelines(history: History, anomalies: Sequence[Anomaly]) -> dict[int, ObjectTimeline]:
    """Return the object of each ``not-linearizable`` anomaly, with all calls on it, by the place of the anomaly; the
    first :data:`DRAWN`. An anomaly whose rows are gone (a
    damaged history) has no timeline."""
    if not any(anomaly.name == NOT_LINEARIZABLE for anomaly in anomalies):
        return {}
    rows = _rows(history)
    objects = {row.index: _subject(row) for row in rows}
    drawn: dict[int, ObjectTimeline] = {}
    for place, anomaly in enumerate(anomalies):
        if anomaly.name != NOT_LINEARIZABLE or len(drawn) == DRAWN:
            continue
        subject = next((objects[index] for index in anomaly.rows if index in objects), None)
        if subject is not None:
            mine = [row for row in rows if objects[row.index] == subject]
            drawn[place] = _timeline(subject, mine, anomaly)
    return drawn


def background(story: Story) -> list[Band]:
    """Return faults that took effect, and who led: drawn behind the calls."""
    faults = [
        Band(lane=fault.name, start_s=fault.start_s, end_s=fault.end_s, label=fault.targets, kind="fault")
        for fault in story.faults
        if fault.effective != "no"
    ]
    roles = story.terms or story.roles
    return faults + [
        Band(lane=bar.lane, start_s=bar.start_s, end_s=bar.end_s, label=bar.label, kind=bar.kind) for bar in roles
    ]


def _rows(history: History) -> list[Row]:
    """Return the operations on objects."""
    found = history.each("op", keep=lambda table: pc.match_substring(table["value"], '"object"'))
    return [row for row in found if "object" in row.value and "model" in row.value]


def _subject(row: Row) -> tuple[str, str]:
    return str(row.value["object"]), str(row.value["model"])


def _timeline(subject: tuple[str, str], rows: Sequence[Row], anomaly: Anomaly) -> ObjectTimeline:
    calls = list(_calls(rows))
    number_of = {call.call: call.number for call in calls}
    orders: dict[bool, list[PartialLinearization]] = {True: [], False: []}
    for end in anomaly.dead_ends:
        orders[end.alone].append(_order(end, number_of))
    minimal = [number_of[index] for index in anomaly.rows if index in number_of]
    return ObjectTimeline(
        key=f"{subject[0]} ({subject[1]})",
        verdict="invalid",
        calls=calls,
        reason=anomaly.explanation,
        blocked=_blocked(orders[False], calls),
        orders=orders[False],
        minimal=minimal,
        minimal_orders=orders[True],
    )


def _blocked(orders: Sequence[PartialLinearization], calls: Sequence[CallBar]) -> int | None:
    """Return, of the calls that can't come next, the one that had returned first: by then it must have happened."""
    waiting = [call for call in calls if orders and call.number in orders[0].illegal and call.ret is not None]
    return min(waiting, key=lambda call: call.ret or 0).number if waiting else None


def _order(end: DeadEnd, number_of: Mapping[int, int]) -> PartialLinearization:
    """Return a dead end of the verdict, which names calls by the rows of their invocations; calls without a row are
    left out with the states after them."""
    unknown = [None] * (len(end.order) - len(end.states))
    known = [
        (number_of[index], state)
        for index, state in zip(end.order, [*unknown, *end.states], strict=True)
        if index in number_of
    ]
    return PartialLinearization(
        order=[number for number, _ in known],
        states=[state for _, state in known if state is not None],
        state=end.state,
        illegal={number_of[index]: why for index, why in end.illegal if index in number_of},
    )


def _calls(rows: Sequence[Row]) -> Iterator[CallBar]:
    """Yield what may have happened: calls that returned, refusals that say something, and changes without an answer."""
    ends = {row.op: row for row in rows if row.type != "invoke"}
    number = 0
    for row in rows:
        if row.type != "invoke":
            continue
        end = ends.get(row.index)
        kind = end.type if end is not None else "info"
        refused = end is not None and bool(end.value.get("refused"))
        if (kind == "fail" and not refused) or (kind == "info" and row.f == "read"):
            continue
        returned = end if kind != "info" else None
        yield CallBar(
            number=number,
            process=row.client,
            label=_label(row.f, end.value if end is not None else row.value, kind),
            call=row.index,
            ret=None if returned is None else returned.index,
            call_s=row.at_s,
            ret_s=None if returned is None else returned.at_s,
            detail=_detail(row, end),
        )
        number += 1


def _label(f: str, value: Mapping[str, Any], kind: str) -> str:
    """Say what was asked, and after an arrow what came back."""
    members = "{" + ", ".join(map(str, value["members"])) + "}" if isinstance(value.get("members"), list) else ""
    if f == "read":
        return " ".join(filter(None, ["read →", _known(value, "epoch"), members, _known(value, "address")]))
    if f == "cas":
        became = {"ok": value.get("epoch", "?"), "fail": "refused"}.get(kind, "?")
        return f"cas epoch {value.get('expected', '?')} → {became}" + (f" {members}" if kind != "fail" else "")
    if f == "write":
        return f"write {value.get('address', '')}"
    who = f"as {value['holder']}" if value.get("holder") is not None else ""
    token = _known(value, "token") or ("?" if kind == "info" and f == "acquire" else "")
    return " ".join(filter(None, [f, who, "→" if f == "acquire" and token else "", token]))


def _known(value: Mapping[str, Any], name: str) -> str:
    return "" if value.get(name) is None else str(value[name]) if name == "address" else f"{name} {value[name]}"


def _detail(row: Row, end: Row | None) -> str:
    """Return details beside the rows where it begins and returns, which its place on the axis shows already."""
    unreturned = end is not None and end.type == "info"
    parts = [row.process, *([f"row {row.index} to {end.index}"] if end is not None and unreturned else [])]
    node = (end.node if end is not None else "") or row.value.get("to", "")
    if node:
        parts.append(f"answered by {node}" if end is not None and end.node else f"sent to {node}")
    if end is not None and end.value.get("reason"):
        parts.append(str(end.value["reason"]))
    return ", ".join(parts)
