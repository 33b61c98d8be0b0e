"""Which of some rows led to which, as far as rows prove it: a directed graph of their indices.

Messages between nodes are not recorded. An edge between two nodes rests on what both rows name: a message, a position,
an epoch, an entry, a request (docs/explain.md).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from chaos.history.history import History
from chaos.history.row import Row
from reports.explanation.selection import took_away
from reports.explanation.storage import Edge, links
from reports.explanation.subject import Subject
from reports.faults import unsynced

if TYPE_CHECKING:
    import networkx

#: By these rows a node shows that a fault reached it, also when it was over: it comes back.
RETURNS = ("start", "recovered")


def happens_before(chosen: Sequence[Row], subject: Subject, history: History) -> networkx.DiGraph[Any]:
    """Return the graph of these rows, given by index."""
    import networkx  # a report without violations starts without it

    graph: networkx.DiGraph[Any] = networkx.DiGraph()
    graph.add_nodes_from(row.index for row in chosen)
    for find in (_orders, _calls, _copies, _decisions, _terms, _requests, links):
        graph.add_edges_from((one.index, other.index) for one, other in find(chosen, history))
    graph.add_edges_from((one.index, other.index) for one, other in _losses(chosen, subject, history))
    graph.add_edges_from((one.index, other.index) for one, other in _faults(chosen, history))
    graph.add_edges_from((one.index, other.index) for one, other in _power_cuts(chosen, subject, history))
    return graph


def _orders(chosen: Sequence[Row], history: History) -> Iterator[Edge]:
    """Yield what one node, or one client, did one after the other."""
    lanes: dict[tuple[bool, str], list[Row]] = {}
    for row in chosen:
        if row.kind in ("trace", "final", "op"):
            lanes.setdefault((row.kind == "op", row.process if row.kind == "op" else row.node), []).append(row)
    for (client, _), lane in lanes.items():
        yield from pairwise(lane if client else sorted(lane, key=lambda row: row.in_node_order))


def _calls(chosen: Sequence[Row], history: History) -> Iterator[Edge]:
    """Yield edges: a send → where it was first stored → the answer; what a node had done before it was asked → its
    answer."""
    by_index = {row.index: row for row in chosen}
    for row in chosen:
        if row.kind != "op" or row.type == "invoke":
            continue
        call = by_index.get(row.op)
        if call is not None:
            yield call, row
        if row.node:
            yield from _last([one for one in chosen if one.node == row.node], call or row, row, history)
    for call in (row for row in chosen if row.kind == "op" and row.f == "send" and row.type == "invoke"):
        stored = [row for row in chosen if row.f == "append" and row.message == call.message]
        stored = [row for row in stored if history.before(call, row)]
        yield from ((call, row) for row in stored[:1])
    for answer in (row for row in chosen if row.kind == "op" and row.f == "send" and row.type == "ok"):
        for row in chosen:
            mine = row.f in ("append", "acked") and row.node == answer.node and row.incarnation <= answer.incarnation
            if mine and row.epoch == answer.epoch and history.before(row, answer):
                yield row, answer


def _last(of_node: Sequence[Row], until: Row, answer: Row, history: History) -> Iterator[Edge]:
    """Yield an edge to the answer from the last trace row of the answering node before it can have been asked."""
    earlier = [row for row in of_node if row.kind == "trace" and history.before(row, until)]
    if earlier:
        yield max(earlier, key=lambda row: row.in_node_order), answer


def _copies(chosen: Sequence[Row], history: History) -> Iterator[Edge]:
    """Yield edges: a record on the node that stored it first → on the others, in the tier → confirmed by its master;
    what was read → the end of the final reading."""
    appends = [row for row in chosen if row.f == "append"]
    for same in _groups(appends, lambda row: (row.queue, row.offset, row.message, row.position, row.epoch)):
        first = _first(same, history)
        yield from ((first, row) for row in same if row is not first and history.before(first, row))
        for row in chosen:
            here = (row.queue, row.offset, row.message) == (first.queue, first.offset, first.message)
            if here and row.f in ("tiered", "delivered") and history.before(first, row):
                yield first, row
    for row in appends:
        for other in chosen:
            counted = other.f == "confirm" and other.epoch == row.epoch and other.position >= row.end
            if counted and other.node != row.node and other.value.get("acks") and history.before(row, other):
                yield row, other
    drain_s = history.phase_s("drain")
    for drain in (row for row in chosen if row.f == "drain" and row.type != "invoke"):
        read = (row for row in chosen if row.f == "delivered" and row.queue == drain.queue)
        yield from ((row, drain) for row in read if history.before(row, drain) and row.at_s >= drain_s)


def _decisions(chosen: Sequence[Row], history: History) -> Iterator[Edge]:
    """Yield edges: an entry of the controllers → the roles and sets that follow from it, and other controllers'
    applying it."""
    entries = [row for row in chosen if row.f == "applied"]
    for same in _groups(entries, lambda row: row.position):
        first = _first(same, history)
        entry = first.entry
        yield from ((first, row) for row in same if row is not first)
        for row in chosen:
            taken = row.f == "role" and row.value.get("role") in ("master", "slave")
            role = taken and row.epoch == entry.get("master_epoch") and entry.get("type") == "elect"
            known = row.f == "set" and row.value.get("set_epoch") == entry.get("set_epoch", -1)
            if (role or (known and row.epoch == entry.get("master_epoch"))) and history.before(first, row):
                yield first, row
        for row in chosen:
            call = row.kind == "op" and row.type == "invoke" and row.value.get("object") == entry.get("group")
            if call and history.before(row, first) and row.value.get("to") == first.node and "address" in row.value:
                yield from [(row, first)] if row.value["address"] == entry.get("broker") else []
        for row in chosen:
            answer = row.kind == "op" and row.type == "ok" and row.value.get("object") == entry.get("group")
            if answer and history.before(first, row) and row.value.get("address") == entry.get("broker", ""):
                yield from ((one, row) for one in same if one.node == row.node and history.before(one, row))


def _terms(chosen: Sequence[Row], history: History) -> Iterator[Edge]:
    """Yield edges: a candidate → its voters → the leader of that term → who follows it, and what is agreed on in that
    term."""
    raft = [row for row in chosen if row.f == "raft"]
    for same in _groups(raft, lambda row: row.epoch):
        leaders = [row for row in same if row.value.get("role") == "leader"]
        asked = [row for row in same if row.value.get("role") == "candidate"]
        for leader in leaders:
            voters = [row for row in same if row.node != leader.node and history.before(row, leader)]
            yield from ((one, row) for one in asked if one.node == leader.node for row in voters)
            yield from ((row, leader) for row in voters if row.value.get("role") == "follower")
            yield from ((leader, row) for row in same if row.value.get("leader") == leader.node and row is not leader)
            agreed = (row for row in chosen if row.f == "applied" and row.epoch == leader.epoch)
            yield from ((leader, row) for row in agreed if row.node != leader.node and history.before(leader, row))


def _requests(chosen: Sequence[Row], history: History) -> Iterator[Edge]:
    """Yield edges: a request to the store → what the store did → the views of that version."""
    named = [row for row in chosen if "request" in row.value and row.kind == "trace"]
    for same in _groups(named, lambda row: str(row.value["request"])):
        asked = [row for row in same if row.f.startswith("tier_") and row.f != "tier_fault"]
        done = [row for row in same if row.f.startswith("store_") or row.f == "tier_fault"]
        yield from ((one, other) for one in asked for other in done)
    for write in (row for row in chosen if row.f == "store_cas"):
        views = (row for row in chosen if row.f == "tier_view" and row.queue == write.queue)
        same_version = (row for row in views if row.value.get("version") == write.value.get("version"))
        yield from ((write, row) for row in same_version if history.before(write, row))


def _losses(chosen: Sequence[Row], subject: Subject, history: History) -> Iterator[Edge]:
    """Yield edges: what took a record of the subject from a log → the first witness afterwards: that it is missing
    hangs on it."""
    for row in chosen:
        if any(took_away(row, record) for record in chosen if record.f == "append"):
            after = [witness for witness in subject.witnesses if history.before(row, witness)]
            yield from ((row, witness) for witness in after[:1])


def _faults(chosen: Sequence[Row], history: History) -> Iterator[Edge]:
    """Yield edges: an injection → the first row of each node that it is proven to have hit: while it lasted, or by
    which the node came back; answers of the node to what it was asked meanwhile; the election meanwhile of another
    master."""
    undone = {row.process: row for row in history.each("fault") if row.value.get("phase") == "undo"}
    by_index = {row.index: row for row in chosen}
    for fault in (row for row in chosen if row.kind == "fault"):
        end = undone.get(fault.process)
        later = [row for row in chosen if history.before(fault, row)]
        lasting = [row for row in later if end is None or history.before(row, end)]
        during = {row.index for row in lasting}
        for node in hit_by(fault):
            traced = [row for row in later if row.kind == "trace" and row.node == node]
            first = min(traced, key=lambda row: row.in_node_order, default=None)
            if first is not None and (first.index in during or first.f in RETURNS):
                yield fault, first
            answers = [row for row in later if row.kind == "op" and row.node == node]
            yield from ((fault, row) for row in answers if by_index.get(row.op, row).index in during)
        deposed = [row for row in lasting if _previous_master(row, chosen, history) in hit_by(fault)]
        yield from ((fault, row) for row in deposed)
        yield from _switched(fault, chosen, history)


def _power_cuts(chosen: Sequence[Row], subject: Subject, history: History) -> Iterator[Edge]:
    """Yield edges: a power cut that took unsynced bytes from who had acknowledged a message before → the first witness
    afterwards, where nobody was given the message since: without traces nothing else leads from the one to the
    other."""
    for fault in (row for row in chosen if row.kind == "fault"):
        lost = unsynced(fault.value["proof"])
        sent = [row for row in subject.witnesses if (row.f, row.type) == ("send", "ok") and history.before(row, fault)]
        given = [row for row in chosen if row.f == "delivered" and row.message in subject.messages]
        if not any(not row.node or row.node in lost for row in sent) or not lost:
            continue
        if not any(history.before(fault, row) for row in given):
            yield from ((row, fault) for row in sent)
            yield from ((fault, row) for row in [row for row in subject.witnesses if history.before(fault, row)][:1])


def _previous_master(row: Row, chosen: Sequence[Row], history: History) -> str:
    """Return, of an election, the master that the one before it elected in this group; "" for any other row."""
    entry = row.entry
    if entry.get("type") != "elect":
        return ""
    before = [one for one in chosen if one.entry.get("type") == "elect" and history.before(one, row)]
    before = [one for one in before if one.entry.get("group") == entry.get("group")]
    return str(before[-1].entry.get("master", "")) if before else ""


def _switched(fault: Row, chosen: Sequence[Row], history: History) -> Iterator[Edge]:
    """Yield edges: a switch that was asked for → the election that its proof names."""
    proof = fault.value["proof"]
    for node, proven in proof.items() if isinstance(proof, dict) else ():
        if isinstance(proven, dict) and isinstance(proven.get("epoch"), int):
            yield from (
                (fault, row)
                for row in chosen
                if row.f == "applied" and row.entry.get("master") == proven.get("to", node)
                and row.entry.get("master_epoch") == proven["epoch"]
            )  # fmt: skip


def hit_by(fault: Row) -> list[str]:
    """Return the nodes that a fault of :func:`reports.explanation.selection.injections` is proven to have hit, by
    name."""
    return list(fault.value["proven"]["nodes"])


def _first(same: Sequence[Row], history: History) -> Row:
    first = same[0]
    for row in same[1:]:
        first = row if history.before(row, first) else first
    return first


def _groups(rows: Iterable[Row], key: Callable[[Row], Hashable]) -> Iterable[Sequence[Row]]:
    found: dict[Hashable, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found.values()
