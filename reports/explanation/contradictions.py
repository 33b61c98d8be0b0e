"""What a row contradicts: the step at which a promise was broken, where rows themselves show it.

A step that is marked here is a decision that no correct system takes, whatever else happened. What can only be called
wrong by its outcome is not marked: a wrong reason is worse than none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.driver import Profile
from chaos.history.row import Row
from chaos.judging.registry import registry
from chaos.verdict import Anomaly


@dataclass(frozen=True, slots=True)
class Known:
    """What is known beside a row: ``rows`` are all that may matter, in their order; ``before`` those of the explanation
    that come before it; ``profile`` is what the system promises, ``one_clock`` whether rows of different nodes stand in
    their order, ``confirms`` whether nodes report what they confirm."""

    rows: Sequence[Row]
    before: Sequence[Row]
    profile: Profile
    one_clock: bool
    confirms: bool


def contradiction(row: Row, known: Known) -> str:
    """Return what this row contradicts, as words that follow a comma; "" if it contradicts nothing that is known."""
    if row.f == "delivered":
        return _unconfirmed_read(row, known) if known.confirms else ""
    if row.kind == "op" and row.type == "ok":
        return _answer(row, known.before)
    if row.kind != "trace":
        return ""
    match row.f:
        case "acked":
            return _unconfirmed(row, known)
        case "confirm":
            return _uncounted(row, known) if known.one_clock else ""
        case "recovered":
            return _relapsed(row, known.before)
        case "applied":
            return _outside(row.entry)
    return ""


def is_decision(violation: str) -> bool:
    """Return whether laws declare that what they name last of this kind of violation is the decision itself."""
    kinds = (kind for promise in registry().promises for kind in promise.anomalies)
    return any(kind.is_decision for kind in kinds if kind.name == violation)


def decision(anomaly: Anomaly, rows: Sequence[Row]) -> tuple[Row | None, str]:
    """Return the row that is itself what a violation is about, a decision, or the call that no order can place; and why
    that is so, "" where the law's own sentence says it."""
    named = set(anomaly.rows)
    if is_decision(anomaly.name):
        own = [row for row in rows if row.index in named and row.node and row.kind in ("trace", "op")]
        return (own[-1] if own else None), ""
    stuck = [{call for call, _ in end.illegal} for end in anomaly.dead_ends]
    last = max((row.op for row in rows if row.index in named or row.op in named), default=-1)
    if last >= 0 and stuck and all(calls == {last} for calls in stuck):
        placed = next((row for row in reversed(rows) if row.op == last and row.type == "ok"), None)
        return placed, next((why for end in anomaly.dead_ends for _, why in end.illegal), "")
    return None, ""


def _unconfirmed(row: Row, known: Known) -> str:
    """Return what an acknowledgement came too early for: the copies, or the disk."""
    confirmed = row.value.get("confirm")
    if str(known.profile.acks) == "all" and isinstance(confirmed, int) and confirmed < row.position:
        return f"though only {confirmed} is confirmed"
    mine = [one for one in known.before if one.node == row.node and one.incarnation == row.incarnation]
    stored = [one for one in mine if one.f == "append" and 0 <= one.end <= row.position and one.epoch == row.epoch]
    synced = [one.position for one in known.rows if one.f == "synced" and _lived_before(one, row)]
    if known.profile.flush == "sync" and stored and _reports_syncs(row.node, known):
        return "" if max(synced, default=-1) >= stored[0].end else f"though it is not durable at {row.node} yet"
    return ""


def _reports_syncs(node: str, known: Known) -> bool:
    return any(one.f == "synced" and one.node == node for one in known.rows)


def _lived_before(one: Row, other: Row) -> bool:
    """Return whether a node lived one row before the other, in one incarnation."""
    same = one.node == other.node and one.incarnation == other.incarnation
    return same and one.in_node_order < other.in_node_order


def _unconfirmed_read(row: Row, known: Known) -> str:
    """Return that a reader was given what its node had not confirmed. Of each record the first row by which its node
    had confirmed it in that epoch is among those that may matter."""
    stored = [
        one
        for one in known.before
        if one.f == "append" and one.node == row.node and (one.queue, one.offset) == (row.queue, row.offset)
    ]
    if not stored or (stored[-1].epoch, stored[-1].incarnation) != (row.epoch, row.incarnation):
        return ""
    record = stored[-1]
    confirmed = [
        one for one in known.rows if one.f == "confirm" and one.node == row.node and one.position >= record.end
    ]
    if any(one.index < row.index for one in confirmed):
        return ""
    return f"though {row.node} has not confirmed it"


def _uncounted(row: Row, known: Known) -> str:
    """Return members of the set that a master did not count on when it confirmed."""
    counted, proposed = (row.value.get(name) for name in ("set", "proposed"))
    agreed = [one for one in known.before if one.f == "applied" and one.entry.get("master_epoch") == row.epoch]
    members = agreed[-1].entry.get("set") if agreed else None
    if not isinstance(counted, list) or not isinstance(members, list):
        return ""
    counts_on = [*counted, *(proposed if isinstance(proposed, list) else ())]
    others = [str(one) for one in members if one not in counts_on]
    return f"though {', '.join(others)} {'is' if len(others) == 1 else 'are'} in the set, too" if others else ""


def _answer(row: Row, before: Sequence[Row]) -> str:
    """Return who led a newer term when a controller answered as a leader."""
    mine = [one for one in before if one.f == "raft" and one.node == row.node]
    leads = [one for one in before if one.f == "raft" and one.value.get("role") == "leader"]
    if not mine or not leads or mine[-1].value.get("role") != "leader":
        return ""
    newer = [one for one in leads if one.epoch > mine[-1].epoch]
    return f"but {newer[-1].node} leads term {newer[-1].epoch} since row {newer[-1].index}" if newer else ""


def _outside(entry: Mapping[str, Any]) -> str:
    """Return the set that a master was not elected from, where it had to be."""
    known, master = entry.get("previous_set"), entry.get("master")
    if entry.get("type") != "elect" or entry.get("unclean") or entry.get("bootstrap") or not isinstance(known, list):
        return ""
    return f"though the set was {', '.join(map(str, known))}" if known and master not in known else ""


def _relapsed(row: Row, before: Sequence[Row]) -> str:
    """Return where a node had cut its log, if bytes that it had cut off are there again."""
    mine = [one for one in before if one.node == row.node and one.f in ("truncate", "append", "recovered")]
    cuts = [one for one in mine if one.f == "truncate"]
    if not cuts:
        return ""
    cut = cuts[-1]
    since = [one.end for one in mine if one.f == "append" and one.in_node_order > cut.in_node_order]
    if row.position <= max([cut.position, *since]):
        return ""
    return f"past the {cut.position} to which it was cut in row {cut.index}; epochs {row.value.get('epochs')}"
