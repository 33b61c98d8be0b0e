"""The causal strip of one cause: the way of one message through clients, replicas, tier and readers, event by event.

Where a cause is about no message, the strip shows the rows of its first violation instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import pyarrow.compute as pc

from chaos.events import GroupAcked, GroupAppended, Sealed, SliceOpened, StorePut, Trimmed
from chaos.history.history import History
from chaos.history.row import Row
from chaos.ops import SEQUENCE_BITS
from reports.explanation.storage import places, way
from reports.explanation.storage_words import entry_words, storage_words
from reports.run_report.causes import ROWS, Cause
from reports.run_report.lost_tails import Copy
from reports.run_report.master_terms import MasterTerm
from reports.run_report.story import NAMED, message_name

#: So many events are drawn; the least telling ones are left out first.
EVENTS = 13


class Part(IntEnum):
    """Whose lane it is; lanes stand in this order."""

    FAULTS = 0
    CLIENTS = 1
    CONTROLLERS = 2
    REPLICAS = 3
    TIER = 4
    READERS = 5
    FINAL = 6


class Tone(IntEnum):
    """What an event means for the message; the most telling are kept when there are too many."""

    NOTE = 0
    OTHER = 1  # another message has its place
    STEP = 2
    GOOD = 3
    FAULT = 4
    BAD = 5


#: What happens to a message in a storage cluster, and how telling that is.
_GROUP_TONES = {
    SliceOpened.f: Tone.NOTE,
    GroupAppended.f: Tone.STEP,
    GroupAcked.f: Tone.STEP,
    Sealed.f: Tone.NOTE,
    StorePut.f: Tone.STEP,
    Trimmed.f: Tone.BAD,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event: when, on which lane, in words. ``row`` is the index of its row; ``holds``: from here on, its lane
    stores the message (True), another message at its offset (False), or nothing changes (None)."""

    at_s: float
    row: int
    part: Part
    lane: str
    text: str
    tone: Tone = Tone.STEP
    holds: bool | None = None
    drops: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """What is drawn: ``events`` in order of time; ``faults`` as (label, from, to) and ``masters`` by lane, both in
    seconds."""

    subject: str
    events: Sequence[Event]
    lanes: Sequence[tuple[Part, str]]
    faults: Sequence[tuple[str, float, float]]
    masters: Sequence[MasterTerm]


def strip(cause: Cause, history: History) -> Strip | None:
    """Return the strip of a cause; None if there is nothing to show in it."""
    events = list(_of_message(cause, history)) if cause.example is not None else list(_of_rows(cause, history))
    if not events:
        return None
    events += _masters(cause, events)
    events += _faults(cause, events)
    events = _fewer(sorted(events, key=lambda event: (event.at_s, event.part, event.row)))
    lanes = list(dict.fromkeys(sorted((event.part, event.lane) for event in events)))
    change = cause.change
    return Strip(
        subject=f"message {message_name(cause.example[0])}" if cause.example else "what the laws found",
        events=events,
        lanes=lanes,
        faults=[(fault.name, fault.asked_s, fault.end_s) for fault in cause.faults[:NAMED]],
        masters=[] if change is None else [m for m in (change.before, change.after) if m is not None],
    )


def _of_message(cause: Cause, history: History) -> Iterator[Event]:
    """Yield the life of one copy, and what took its place."""
    assert cause.example is not None
    message, offset = cause.example
    table = history.table
    placed = pc.and_(pc.equal(table["queue"], message >> SEQUENCE_BITS), pc.equal(table["offset"], offset))
    sent = pc.and_(pc.equal(table["message"], message), pc.equal(table["f"], "send"))
    found = history.of_table(table.filter(pc.or_(placed, sent)))
    yield from _sends(found, cause.example)
    yield from _stored(found, cause)
    yield from _in_group(cause, history)
    yield from _reads(found, cause.example, history)
    yield from _ends(cause, history, found)


def _sends(found: Iterable[Row], copy: Copy) -> Iterator[Event]:
    others = False
    for row in found:
        if row.kind != "op" or row.f != "send":
            continue
        at_s, lane = row.at_s, row.client
        if row.message == copy[0]:
            name, by = message_name(row.message), f" by {row.node}" if row.node else ""
            words = {
                "invoke": (f"sends {name}", Tone.STEP),
                "ok": (f"acknowledged{by}", Tone.GOOD),
                "fail": ("refused", Tone.STEP),
                "info": ("result unknown", Tone.STEP),
            }
            text, tone = words.get(row.type, (row.type, Tone.NOTE))
            yield Event(at_s=at_s, row=row.index, part=Part.CLIENTS, lane=lane, text=text, tone=tone)
        elif row.type == "ok" and not others:
            others = True
            text = f"{message_name(row.message)} acknowledged at this offset"
            yield Event(at_s=at_s, row=row.index, part=Part.CLIENTS, lane=lane, text=text, tone=Tone.OTHER)


def _stored(found: Iterable[Row], cause: Cause) -> Iterator[Event]:
    """Yield where it was stored, where its log was cut, and where another message was stored in its place."""
    assert cause.example is not None
    held: dict[str, tuple[float, int]] = {}
    seen: set[tuple[str, int]] = set()
    others = False
    for row in found:
        if row.kind != "trace" or row.f != "append" or (row.node, row.message) in seen:
            continue
        seen.add((row.node, row.message))
        at_s, mine = row.at_s, row.message == cause.example[0]
        if mine:
            held[row.node] = at_s, row.position
        yield Event(
            at_s=at_s, row=row.index, part=Part.REPLICAS, lane=row.node, holds=mine,
            text="stored" if mine else f"stores {_name(row.message)} at this offset",
            tone=Tone.STEP if mine else Tone.NOTE if others else Tone.OTHER,
        )  # fmt: skip
        others |= not mine
    for tail in cause.tails:
        stored_s, position = held.get(tail.node, (float("inf"), -1))
        if tail.at_s >= stored_s and tail.position <= position:
            text = "cuts it off its log" if tail.cut else "comes back without it"
            yield Event(
                at_s=tail.at_s, row=tail.row, part=Part.REPLICAS, lane=tail.node, text=text, tone=Tone.BAD, drops=True
            )


def _in_group(cause: Cause, history: History) -> Iterator[Event]:
    """Yield its way through a storage cluster: who had the slice, which stores added it, its segment, the tier."""
    assert cause.example is not None
    message, offset = cause.example
    seen: set[tuple[str, str]] = set()
    for row in way(places({message}, history), {(message >> SEQUENCE_BITS, offset)}, history):
        tone = _GROUP_TONES.get(row.f)
        refused = row.f == GroupAppended.f and not row.value.get("accepted")
        if tone is None or (row.node, row.f) in seen:
            continue
        seen.add((row.node, row.f))
        part, lane = (Part.TIER, "tier") if row.f == StorePut.f else (Part.REPLICAS, row.node)
        text = "stores it in an object" if row.f == StorePut.f else storage_words(row)
        holds = {GroupAppended.f: not refused, StorePut.f: True, Trimmed.f: False}.get(row.f)
        yield Event(
            at_s=row.at_s, row=row.index, part=part, lane=lane, text=text, tone=Tone.OTHER if refused else tone,
            holds=holds, drops=row.f == Trimmed.f,
        )  # fmt: skip


def _reads(found: Iterable[Row], copy: Copy, history: History) -> Iterator[Event]:
    """Yield the first time that it, or another message at its offset, was read, before and in the final reading."""
    drain_s = history.phase_s("drain")
    seen: set[tuple[Part, bool]] = set()
    for row in found:
        if row.kind != "op" or row.f != "delivered":
            continue
        at_s, mine = row.at_s, row.message == copy[0]
        part = Part.FINAL if at_s >= drain_s else Part.READERS
        if (part, mine) in seen:
            continue
        seen.add((part, mine))
        lane = "final read" if part is Part.FINAL else "readers"
        reader = "" if part is Part.FINAL else f"{row.client} "
        text = f"{reader}reads {_name(row.message)}" + ("" if mine else " there")
        tone = Tone.GOOD if mine else Tone.OTHER
        yield Event(at_s=at_s, row=row.index, part=part, lane=lane, text=text, tone=tone)
    for row in found:
        if row.kind == "final" and row.f == "tiered":
            mine = row.message == copy[0]
            text = f"holds {_name(row.message)}"
            tone = Tone.GOOD if mine else Tone.OTHER
            at_s = row.at_s
            yield Event(at_s=at_s, row=row.index, part=Part.TIER, lane="tier", text=text, tone=tone, holds=mine)
            return


def _ends(cause: Cause, history: History, found: Sequence[Row]) -> Iterator[Event]:
    """Yield the final reading that went past its offset without it, and rows of the violation that are not there
    yet."""
    assert cause.example is not None
    message, offset = cause.example
    drains = history.rows("op", "drain")
    past = pc.and_(pc.equal(drains["queue"], message >> SEQUENCE_BITS), pc.greater(drains["offset"], offset))
    ended = history.of_table(drains.filter(pc.and_(past, pc.equal(drains["type"], "ok"))))
    since = history.phase_s("drain")
    read = {row.message for row in found if row.f == "delivered" and row.at_s >= since}
    if ended and message not in read:
        row = ended[-1]
        text = f"ends without {message_name(message)}"
        at_s = row.at_s
        yield Event(at_s=at_s, row=row.index, part=Part.FINAL, lane="final read", text=text, tone=Tone.BAD)
    drawn = {row.index for row in found} | {row.index for row in ended}
    yield from (event for event in _of_rows(cause, history) if event.row not in drawn)


def _of_rows(cause: Cause, history: History) -> Iterator[Event]:
    """Yield the rows of the violation that the strip is about, as they are."""
    if not cause.violations:
        return
    chosen = next((v for v in cause.violations if cause.example in v.copies), cause.violations[0])
    for row in history.numbered(chosen.anomaly.rows[:ROWS]):
        numbers = [f"{name} {number}" for name, number in row.numbers("offset", "position", "epoch").items()]
        words = [row.f, row.type if row.type != "ok" else "", *numbers[:2]]
        part, lane = _lane(row)
        known = _elected(row) or entry_words(row.entry) or storage_words(row) if row.kind == "trace" else ""
        text = known or " ".join(filter(None, words))
        yield Event(at_s=row.at_s, row=row.index, part=part, lane=lane, text=text, tone=Tone.BAD)


def _lane(row: Row) -> tuple[Part, str]:
    if row.kind == "op":
        return Part.CLIENTS, row.client
    if row.f in ("applied", "raft"):
        return Part.CONTROLLERS, row.node
    if row.kind == "final":
        return Part.FINAL, row.node or "final read"
    return Part.REPLICAS, row.node or row.process or row.kind


def _elected(row: Row) -> str:
    if row.f != "applied" or row.entry.get("type") != "elect":
        return ""
    return f"elects {row.entry.get('master', '?')} (epoch {row.entry.get('master_epoch', '?')})"


def _masters(cause: Cause, events: Sequence[Event]) -> Iterator[Event]:
    """Yield the change of masters, on the lanes of both."""
    if cause.change is None:
        return
    before, after = cause.change.before, cause.change.after
    begin_s, end_s = _span(events)
    if after is not None and after.start_s <= end_s:
        text = f"becomes master of epoch {after.epoch}"
        yield Event(at_s=after.start_s, row=-1, part=Part.REPLICAS, lane=after.node, text=text, tone=Tone.STEP)
    if before is not None and begin_s <= before.end_s <= end_s:
        text = "loses the role"
        yield Event(at_s=before.end_s, row=-1, part=Part.REPLICAS, lane=before.node, text=text, tone=Tone.STEP)


def _faults(cause: Cause, events: Sequence[Event]) -> Iterator[Event]:
    _, end_s = _span(events)
    for fault in cause.faults[:NAMED]:
        for at_s, text in ((fault.asked_s, f"{fault.name} of {fault.targets}"), (fault.end_s, f"{fault.name} ends")):
            if at_s <= end_s:
                yield Event(at_s=at_s, row=-1, part=Part.FAULTS, lane="faults", text=text, tone=Tone.FAULT)


def _span(events: Sequence[Event]) -> tuple[float, float]:
    return min(event.at_s for event in events), max(event.at_s for event in events)


def _fewer(events: Sequence[Event]) -> list[Event]:
    """Return the most telling events, in their order; of equals the first ones."""
    kept = sorted(range(len(events)), key=lambda place: (-events[place].tone, place))[:EVENTS]
    return [replace(events[place]) for place in sorted(kept)]


def _name(message: int) -> str:
    return message_name(message) if message >= 0 else "another record"
