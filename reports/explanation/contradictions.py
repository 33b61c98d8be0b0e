"""What a row contradicts: the step at which a promise was broken, where rows themselves show it.

A step that is marked here is a decision that no correct system takes, whatever else happened. What can only be called
wrong by its outcome is not marked: a wrong reason is worse than none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from chaos.driver import Profile
from chaos.events import Commit
from chaos.history.row import Row
from chaos.operations import CommitOffset, ReadObject
from reports.run_report.story import message_name, numbered


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


@dataclass(frozen=True, slots=True)
class Contradiction:
    """What a row contradicts, as words that follow a comma. ``name``: by which a driver knows who decides that
    (:data:`chaos.driver.DECIDED_BY`)."""

    name: str
    text: str


def contradiction(row: Row, known: Known) -> Contradiction | None:
    """Return what this row contradicts; None if that is nothing that is known."""
    found = ((name, find(row, known)) for name, find in _finds(row, known))
    return next((Contradiction(name, text) for name, text in found if text), None)


def _finds(row: Row, known: Known) -> Sequence[tuple[str, Callable[[Row, Known], str]]]:
    """Return what such a row may contradict, by name."""
    if row.f == "delivered":
        return [("altered", _altered), *([("unconfirmed", _unconfirmed_read)] if known.confirms else [])]
    if row.kind == "op" and row.type == "ok":
        return [("early", _early)] if row.f == CommitOffset.f else [("deposed", _answer), ("behind", _behind)]
    return _OF_TRACES.get(row.f, ()) if row.kind == "trace" else ()


def _unconfirmed(row: Row, known: Known) -> str:
    """Return how much was confirmed when more than that was acknowledged."""
    confirmed = row.value.get("confirm")
    early = str(known.profile.acks) == "all" and isinstance(confirmed, int) and confirmed < row.position
    return f"though only {confirmed} is confirmed" if early else ""


def _unconfirmed_upload(row: Row, known: Known) -> str:
    """Return how much was confirmed when a manifest goes beyond that."""
    confirmed = row.value.get("confirm")
    return f"though only {confirmed} is confirmed" if isinstance(confirmed, int) and confirmed < row.position else ""


def _unsynced(row: Row, known: Known) -> str:
    """Return on which disk an acknowledged record was not yet."""
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


def _unreported(row: Row, known: Known) -> str:
    """Return a member on which a master counted when it confirmed, and which had reported less to it."""
    acks = row.value.get("acks")
    if not isinstance(acks, dict):
        return ""
    sets = (row.value.get(name) for name in ("set", "proposed"))
    counted = [str(member) for members in sets if isinstance(members, list) for member in members]
    ends = {member: end for member in counted if isinstance(end := acks.get(member, 0), int)}
    member = min(ends, key=lambda one: ends[one], default="")
    if not member or ends[member] >= row.position:
        return ""
    return f"though {member}, in its set, has reported {f'only {ends[member]}' if ends[member] else 'nothing'} to it"


def _uncounted(row: Row, known: Known) -> str:
    """Return members of the set that a master did not count on when it confirmed."""
    if not known.one_clock:
        return ""
    counted, proposed = (row.value.get(name) for name in ("set", "proposed"))
    earlier = [one for one in known.rows if one.f == "applied" and one.index < row.index]
    agreed = [one for one in earlier if one.entry.get("master_epoch") == row.epoch]
    members = agreed[-1].entry.get("set") if agreed else None
    if not isinstance(counted, list) or not isinstance(members, list) or row.node not in members:
        return ""
    counts_on = [*counted, *(proposed if isinstance(proposed, list) else ())]
    others = [str(one) for one in members if one not in counts_on]
    return f"though {', '.join(others)} {'is' if len(others) == 1 else 'are'} in the set, too" if others else ""


def _early(row: Row, known: Known) -> str:
    """Return that an offset of a group was called stored before it had taken effect on the node that says so."""
    call = next((one for one in known.before if one.index == row.op), row)
    effects = [one for one in known.rows if _is_effect(one, row)]
    there = [one for one in effects if one.node == row.node and one.index < row.index and one.offset >= call.offset]
    return f"though it had not taken effect on {row.node}" if known.one_clock and effects and not there else ""


def _lowered(row: Row, known: Known) -> str:
    """Return to which offset a group had gone when a later record took it back."""
    mine = [one for one in known.before if _is_effect(one, row) and _lived_before(one, row)]
    highest = max((one.offset for one in mine if one.position < row.position), default=-1)
    return f"though {highest} had taken effect" if row.offset < highest else ""


def _is_effect(one: Row, other: Row) -> bool:
    """Return whether by one row an offset took effect of the group that the other row is about."""
    same = (one.queue, one.value.get("group")) == (other.queue, other.value.get("group"))
    return one.kind == Commit.kind and one.f == Commit.f and same


def _answer(row: Row, known: Known) -> str:
    """Return who led a newer term when a controller answered as a leader."""
    before = known.before
    mine = [one for one in before if one.f == "raft" and one.node == row.node]
    leads = [one for one in before if one.f == "raft" and one.value.get("role") == "leader"]
    if not mine or not leads or mine[-1].value.get("role") != "leader":
        return ""
    newer = [one for one in leads if one.epoch > mine[-1].epoch]
    return f"but {newer[-1].node} leads term {newer[-1].epoch} since row {newer[-1].index}" if newer else ""


def _behind(row: Row, known: Known) -> str:
    """Return which change of an object a controller had not applied when it answered a read, though another one had
    before that was asked for."""
    if row.f != ReadObject.f or not known.one_clock:
        return ""
    changes = [one for one in known.rows if one.f == "applied" and one.entry.get("group") == row.value.get("object")]
    mine = [one.position for one in changes if one.node == row.node and one.index < row.index]
    newer = [
        one for one in changes if one.node != row.node and one.index < row.op and mine and one.position > max(mine)
    ]
    return f"though {newer[0].node} had applied entry {newer[0].position} in row {newer[0].index}" if newer else ""


def _outside(row: Row, known: Known) -> str:
    """Return the set that a master was not elected from, where it had to be."""
    entry = row.entry
    members, master = entry.get("previous_set"), entry.get("master")
    if entry.get("type") != "elect" or entry.get("unclean") or entry.get("bootstrap") or not isinstance(members, list):
        return ""
    return f"though the set was {', '.join(map(str, members))}" if members and master not in members else ""


def _relapsed(row: Row, known: Known) -> str:
    """Return where a node had cut its log, if bytes that it had cut off are there again."""
    mine = [one for one in known.before if one.node == row.node and one.f in ("truncate", "append", "recovered")]
    cuts = [one for one in mine if one.f == "truncate"]
    if not cuts:
        return ""
    cut = cuts[-1]
    since = [one.end for one in mine if one.f == "append" and one.in_node_order > cut.in_node_order]
    if row.position <= max([cut.position, *since]):
        return ""
    return f"past the {cut.position} to which it was cut in row {cut.index}; epochs {row.value.get('epochs')}"


def _held(row: Row, known: Known) -> list[Row]:
    """Return the other records that this node holds when it stores one, as far as they are known."""
    held: list[Row] = []
    for one in known.before:
        if one.node != row.node or not one.in_node_order < row.in_node_order:
            continue
        if one.f == "append":
            held.append(one)
        elif one.f in ("truncate", "bootstrap"):
            held = [record for record in held if record.end <= one.position] if one.f == "truncate" else []
        elif one.f == "recovered":
            held = [record for record in held if record.end <= one.position]
    return held


def _reused(row: Row, known: Known) -> str:
    """Return what a node has at the very offset at which it stores another record."""
    there = [one for one in _held(row, known) if (one.queue, one.offset) == (row.queue, row.offset)]
    there = [one for one in there if one.position != row.position and one.message != row.message]
    return f"where it has stored {message_name(there[-1].message)}" if there else ""


def _uncut(row: Row, known: Known) -> str:
    """Return what a slave kept of an earlier epoch that its master's log does not hold."""
    roles = [one for one in known.rows if one.f == "role" and one.epoch == row.epoch]
    follows = {one.value.get("master") for one in roles if one.node == row.node and one.value.get("role") == "slave"}
    begins = [one for one in roles if one.value.get("role") == "master" and one.node in follows]
    end = begins[0].value.get("start") if begins else None
    if not isinstance(end, int):
        return ""
    beyond = [one for one in _held(row, known) if one.epoch < row.epoch and one.end > end]
    if not beyond:
        return ""
    kept = f"{message_name(beyond[0].message)} of epoch {beyond[0].epoch} (ends at {beyond[0].end})"
    return f"and keeps {kept}, though the log of its master {begins[0].node} ended at {end}"


def _repeated(row: Row, known: Known) -> str:
    """Return how often a message may have been sent, if a node has stored it more often."""
    if row.message < 0 or not known.one_clock:
        return ""
    sends = [one for one in known.before if one.f == "send" and one.message == row.message]
    refused = {one.op for one in sends if one.type == "fail"}
    asked = [one for one in sends if one.type == "invoke" and one.index not in refused]
    mine = [one for one in known.before if one.f == "append" and (one.node, one.message) == (row.node, row.message)]
    copies = {(one.position, one.epoch) for one in [*mine, row]}
    return f"though it has been sent {numbered(len(asked), 'time')}" if 0 < len(asked) < len(copies) else ""


def _altered(row: Row, known: Known) -> str:
    """Return that a message has another content than was sent."""
    if row.message < 0 or row.hash == -1:
        return ""
    sent = {one.hash for one in known.before if (one.f, one.type, one.message) == ("send", "invoke", row.message)}
    return "with another content than was sent" if sent and row.hash not in sent else ""


#: What rows of nodes may contradict, by name; the first that is found is told.
_OF_TRACES: Mapping[str, Sequence[tuple[str, Callable[[Row, Known], str]]]] = {
    "acked": [("unconfirmed", _unconfirmed), ("unsynced", _unsynced)],
    "append": [("altered", _altered), ("reused", _reused), ("uncut", _uncut), ("repeated", _repeated)],
    "applied": [("outside", _outside)],
    "commit": [("lowered", _lowered)],
    "confirm": [("unreported", _unreported), ("uncounted", _uncounted)],
    "recovered": [("relapsed", _relapsed)],
    "tier_commit": [("unconfirmed", _unconfirmed_upload)],
}
