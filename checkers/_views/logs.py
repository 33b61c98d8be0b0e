"""What replicas tell of their logs: what they held and called confirmed, what was on their disks, and which
of their confirm offsets a queue needs: there are as many as records, and few matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from chaos.law import Form, Rows
from checkers._views.arrays import Flags, Ints, groups, parts
from checkers._views.claims import Claims, claims_of
from checkers._views.run import has_recovered


def final_log(rows: Rows) -> Claims:
    """Records of whole logs after recovery. A node that was not read to its end, or a run that did not recover, still
    counts up to what the node itself calls confirmed."""
    at = rows.where(kind="final", f="log")
    if not has_recovered(rows):
        confirmed = {rows.text("node", n): int(rows.value(n).get("confirm", -1)) for n in _final_nodes(rows)}
        limit = _by_node(rows, at, confirmed)
        at = at[rows.column("position")[at] < limit]
    return claims_of(rows, at)


def _final_nodes(rows: Rows) -> Ints:
    return rows.where(kind="final", f="node")


def _by_node(rows: Rows, at: Ints, numbers: Mapping[str, int]) -> Ints:
    """For each row the number that belongs to its node, -1 without one."""
    column = rows.column("node")
    table = {rows.code("node", name): number for name, number in numbers.items()}
    found = np.full(len(at), -1, dtype=np.int64)
    for code, mine in parts(column[at]).items():
        found[mine] = table.get(code, -1)
    return found


def nodes_of(rows: Rows, at: Ints) -> list[str]:
    """The nodes of these rows, ascending by name."""
    _, first = np.unique(rows.column("node")[at], return_index=True)
    return sorted({rows.text("node", one) for one in at[first]})


def in_node_order(rows: Rows, at: Ints) -> Ints:
    """Sort rows of one node into the order in which it lived them: incarnation, step, index."""
    order = np.lexsort((rows.column("index")[at], rows.column("step")[at], rows.column("incarnation")[at]))
    return at[order]


def node_traces(rows: Rows, node: str, *kinds: str) -> Ints:
    """A node's trace rows of these kinds, in its own order."""
    found = [rows.where(kind="trace", f=f, node=node) for f in kinds]
    return in_node_order(rows, np.concatenate(found)) if found else np.empty(0, dtype=np.int64)


def moment(rows: Rows, at: Ints) -> list[tuple[int, int, int]]:
    """Each row's place in its node's own order."""
    columns = (rows.column(name)[at].tolist() for name in ("incarnation", "step", "index"))
    return list(zip(*columns, strict=True))


def durable_ends(rows: Rows) -> dict[str, tuple[Ints, Ints]]:
    """Node → (indexes, durable end of its log from there on). What is cut off is gone; for a disk that the run
    itself destroys its former word still counts."""
    kinds = ("synced", "recovered", "bootstrap", "truncate")
    at = np.sort(np.concatenate([rows.where(kind="trace", f=f) for f in kinds]))
    position, f, index = (rows.column(name) for name in ("position", "f", "index"))
    cut = rows.code("f", "truncate")
    ends = {}
    for mine in parts(rows.column("node")[at]).values():
        own = at[mine]
        ends[rows.text("node", own[0])] = (index[own], _highest_left(position[own], f[own] == cut))
    return ends


def _highest_left(position: Ints, is_cut: Flags) -> Ints:
    """The highest of the positions so far, where a cut brings down what is higher."""
    steps, now = position.copy(), -1
    bounds = sorted({0, *np.flatnonzero(is_cut).tolist(), len(steps)})
    for begin, end in pairwise(bounds):
        steps[begin] = min(now, steps[begin]) if is_cut[begin] else max(now, steps[begin])
        steps[begin:end] = np.maximum.accumulate(steps[begin:end])
        now = int(steps[end - 1])
    return steps


def confirm_forms(rows: Rows) -> Sequence[Form]:
    """What all ``confirm`` rows tell."""
    return rows.forms(rows.where(kind="trace", f="confirm"))


def confirmed_appends(rows: Rows) -> Claims:
    """Records that some replica held and called confirmed at some time, whatever became of them later.

    For each node: a record is there from its ``append`` until a ``truncate`` or ``recovered`` row whose position lies
    below its end, or any ``bootstrap``; it was confirmed if the node's confirm offset reached its end in between.
    """
    found = [_confirmed_on(rows, name) for name in nodes_of(rows, rows.where(kind="trace", f="append"))]
    at = np.sort(np.concatenate(found)) if found else np.empty(0, dtype=np.int64)
    return claims_of(rows, at)


def _confirmed_on(rows: Rows, node: str) -> Ints:
    appends = rows.where(kind="trace", f="append", node=node)
    appends = appends[rows.column("queue")[appends] >= 0]
    confirms = rows.where(kind="trace", f="confirm", node=node)
    cuts = np.concatenate(
        [rows.where(kind="trace", f=f, node=node) for f in ("truncate", "recovered", "bootstrap")], dtype=np.int64
    )
    every = in_node_order(rows, np.concatenate([appends, confirms, cuts]))
    rank = np.empty(len(rows), dtype=np.int64)
    rank[every] = np.arange(len(every))
    appends, confirms, cuts = appends[np.argsort(rank[appends])], confirms[np.argsort(rank[confirms])], _by(rank, cuts)
    position = rows.column("position")
    end = position[appends] + np.maximum(rows.numbers("size", appends), 1)
    gone = np.full(len(appends), len(every), dtype=np.int64)
    anew = rows.code("f", "bootstrap")  # nothing of what stood there before is in a log that begins anew
    for cut in cuts[::-1]:
        kept = -1 if rows.column("f")[cut] == anew else position[cut]
        gone[(rank[appends] < rank[cut]) & (end > kept)] = rank[cut]
    confirmed = np.zeros(len(appends), dtype=np.bool_)
    for until in np.unique(gone):
        window = confirms[rank[confirms] < until]
        if len(window):
            highest = np.append(np.maximum.accumulate(position[window][::-1])[::-1], -1)
            mine = gone == until
            confirmed[mine] = highest[np.searchsorted(rank[window], rank[appends[mine]])] >= end[mine]
    return appends[confirmed]


def _by(rank: Ints, at: Ints) -> Ints:
    return at[np.argsort(rank[at])]


def highest_confirms(rows: Rows) -> Ints:
    """For each node and each cut of its log, and for the end: the confirm offsets before it that no later one before
    it reaches. With these alone, a record was confirmed before it was cut off, after it was appended, exactly if it was
    with all of them (:func:`confirmed_appends`)."""
    found: list[Ints] = [np.empty(0, dtype=np.int64)]
    confirm, position = rows.code("f", "confirm"), rows.column("position")
    at = np.arange(len(rows))
    for mine in parts(rows.column("node")).values():
        lived = in_node_order(rows, at[mine])
        cuts = np.flatnonzero(rows.column("f")[lived] != confirm)
        last = np.empty(0, dtype=np.int64)
        for piece in np.split(lived, cuts):
            last = np.concatenate([last, piece[rows.column("f")[piece] == confirm]])
            later = np.maximum.accumulate(position[last][::-1])[::-1]
            last = last[position[last] > np.append(later[1:], np.iinfo(np.int64).min)]
            found.append(last)
    return np.unique(np.concatenate(found))


def first_appends(rows: Rows) -> Ints:
    """A sieve: of each queue the record with the lowest offset that was appended, the first one to tell of several."""
    at = rows.where(kind="trace", f="append")
    order, firsts = groups(rows.column("queue")[at], rows.column("offset")[at])
    lowest = order[firsts]  # of each queue and offset, by queue
    queue = rows.column("queue")[at[lowest]]
    return np.sort(at[lowest[np.append(True, queue[1:] != queue[:-1])[: len(queue)]]])


def telling_appends(rows: Rows) -> Ints:
    """A sieve, for nodes whose rows stand in the order in which they lived them. The appends that no other one of the
    node follows before it tells anything else of its log: with these it is known where the log ended whenever the node
    called a position durable or confirmed, and whether it told of records at all. And of each acknowledgement the
    record that it ends with: the last one that was appended before, in that epoch, with that end."""
    at, is_append = _told_of_logs(rows)
    followed = is_append[1:] & (rows.column("node")[at[1:]] == rows.column("node")[at[:-1]])
    _, append = _acknowledged(rows)
    return np.unique(np.concatenate([at[is_append & ~np.append(followed, False)], append[append >= 0]]))


def before_appends(rows: Rows) -> Ints:
    """What :func:`telling_appends` must know of later rows: the first of each node that tells of its log, and the
    acknowledgements whose record was not seen yet."""
    at, _ = _told_of_logs(rows)
    node = rows.column("node")[at]
    acked, append = _acknowledged(rows)
    first = at[np.append(True, node[1:] != node[:-1])[: len(at)]]
    return np.unique(np.concatenate([first, acked[append < 0]]))


def _told_of_logs(rows: Rows) -> tuple[Ints, Flags]:
    """The rows that tell of a log where it ends, or how much of it is durable or confirmed, by node; and which of them
    are appends."""
    at = np.flatnonzero(rows.column("f") != rows.code("f", "acked"))
    at = at[groups(rows.column("node")[at])[0]]
    return at, rows.column("f")[at] == rows.code("f", "append")


def _acknowledged(rows: Rows) -> tuple[Ints, Ints]:
    """Acknowledgements, and the record that each ends with, -1 where none was appended before."""
    position, acked = rows.column("position"), rows.where(kind="trace", f="acked")
    appends = rows.where(kind="trace", f="append")
    end = position.copy()
    end[appends] += np.maximum(rows.numbers("size", appends), 1)
    at = np.sort(np.concatenate([acked, appends[rows.column("message")[appends] >= 0]]))
    order, starts = groups(*(column[at] for column in (end, rows.column("epoch"), rows.column("node"))))
    at, of_group = at[order], np.zeros(len(at), dtype=np.int64)
    of_group[starts] = starts
    is_append = rows.column("f")[at] == rows.code("f", "append")
    last = np.maximum.accumulate(np.where(is_append, np.arange(len(at)), -1))
    seen = last >= np.maximum.accumulate(of_group)
    return at[~is_append], np.where(seen, at[last], -1)[~is_append]


def confirms_before_commits(rows: Rows) -> Ints:
    """For each manifest that a node sent, the last confirm offset that it had reported by the end of that step."""
    found: list[Ints] = [np.empty(0, dtype=np.int64)]
    commit = rows.code("f", "tier_commit")
    columns = [rows.column(name) for name in ("index", "f", "step", "incarnation")]
    at = np.arange(len(rows))
    for mine in parts(rows.column("node")).values():
        index, f, step, incarnation = (column[mine] for column in columns)
        lived = at[mine][np.lexsort((index, f == commit, step, incarnation))]
        is_commit = rows.column("f")[lived] == commit
        before = np.maximum.accumulate(np.where(is_commit, -1, np.arange(len(lived))))[is_commit]
        found.append(lived[before[before >= 0]])
    return np.unique(np.concatenate(found))


def confirms_beyond(rows: Rows) -> Ints:
    """A sieve, for nodes with clocks of their own: the confirm offsets that a member of the set had not told its master
    to have, or never had on its disk; and of each epoch the highest one. Besides: of each disk the first word, and the
    one that went furthest."""
    position = rows.column("position")
    grows = np.sort(np.concatenate([rows.where(kind="trace", f=f) for f in _DISK_GROWS]))
    _, first = np.unique(rows.column("node")[grows], return_index=True)
    tops = _highest_of(rows, grows, "node")
    ends = {rows.text("node", at): int(position[at]) for at in tops.tolist()}
    confirms = rows.where(kind="trace", f="confirm")
    beyond = np.zeros(len(confirms), dtype=np.bool_)
    for form in rows.forms(confirms):
        end, acks = position[confirms[form.at]], form.value.get("acks")
        for member in {*(form.value.get("set") or ()), *(form.value.get("proposed") or ())}:
            said = form.whole(acks.get(member, -1)) if isinstance(acks, dict) else end
            beyond[form.at[(said < end) | (end > ends.get(member, _NO_END))]] = True
    return np.unique(np.concatenate([grows[first], tops, confirms[beyond], _highest_of(rows, confirms, "epoch")]))


#: What tells how far a disk goes, and never that it goes less far.
_DISK_GROWS = ("synced", "recovered", "bootstrap")
#: Less than any position: a node that told nothing of its disk had nothing of it.
_NO_END = np.iinfo(np.int64).min


def _highest_of(rows: Rows, at: Ints, key: str) -> Ints:
    """Of the rows with each value of this column the one with the highest position, the first of several."""
    by_position = at[np.lexsort((at, -rows.column("position")[at]))]
    order, starts = groups(rows.column(key)[by_position])
    return by_position[order[starts]]
