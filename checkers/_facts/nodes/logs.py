"""What replicas report of their logs: what they held and called confirmed, what was on their disks, and which
of their confirm offsets a queue needs: there are as many as records, and few matter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from chaos.shard_rows import Form, Rows
from checkers._facts.arrays import Flags, Ints, distinct, groups, parts, stable_order
from checkers._facts.claims import Claims, claims_of
from checkers._facts.run import has_recovered


def final_log(rows: Rows) -> Claims:
    """Return records of whole logs after recovery. A node that was not read to its end, or a run that did not recover,
    still counts up to what the node itself calls confirmed."""
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
    """Return the nodes of these rows, ascending by name."""
    _, first = np.unique(rows.column("node")[at], return_index=True)
    return sorted({rows.text("node", one) for one in at[first]})


def in_node_order(rows: Rows, at: Ints) -> Ints:
    """Sort rows of one node into the order in which it lived them: incarnation, step, index."""
    at = np.sort(at, kind="stable")
    step, life = rows.column("step")[at], rows.column("incarnation")[at]
    if np.all((life[1:] > life[:-1]) | ((life[1:] == life[:-1]) & (step[1:] >= step[:-1]))):
        return at  # mostly that is how the rows were recorded
    return at[np.lexsort((step, life))]


def node_traces(rows: Rows, node: str, *kinds: str) -> Ints:
    """Return a node's trace rows of these kinds, in its own order."""
    found = [rows.where(kind="trace", f=f, node=node) for f in kinds]
    return in_node_order(rows, np.concatenate(found)) if found else np.empty(0, dtype=np.int64)


def by_node(rows: Rows, at: Ints) -> Ints:
    """Sort rows by the names of their nodes, and those of each into its own order."""
    node = rows.column("node")[at]
    found = (in_node_order(rows, at[node == rows.code("node", name)]) for name in nodes_of(rows, at))
    return np.concatenate([at[:0], *found])


def last_before(rows: Rows, known: Ints, asked: Ints, *, by_step: bool = False) -> Ints:
    """For each of the rows ``asked`` the last ``known`` one up to it of the same life of its node, in the node's own
    order; -1 for none. ``by_step``: up to the end of its step."""
    at, is_asked = np.append(known, asked), np.arange(len(known) + len(asked)) >= len(known)
    index, step, life, node = (rows.column(name)[at] for name in ("index", "step", "incarnation", "node"))
    order = np.lexsort((index, *((is_asked,) if by_step else ()), step, life, node))
    place = np.maximum.accumulate(np.where(is_asked[order], -1, np.arange(len(at))))
    before = np.where(place >= 0, order[place], -1)
    before[(life[before] != life[order]) | (node[before] != node[order])] = -1
    found = np.empty(len(at), dtype=np.int64)
    found[order] = np.where(before >= 0, at[before], -1)
    return found[len(known) :]


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


def taken_ends(rows: Rows) -> dict[str, tuple[Ints, Ints]]:
    """As :func:`durable_ends`, of what each replica has taken, whether it was on its disk or not."""
    at = np.sort(np.concatenate([rows.where(kind="trace", f=f) for f in ("append", *_DISK_GROWS[1:], "truncate")]))
    appends = rows.column("f")[at] == rows.code("f", "append")
    end = rows.column("position")[at].copy()
    end[appends] += np.maximum(rows.numbers("size", at[appends]), 1)
    cut, index = rows.column("f")[at] == rows.code("f", "truncate"), rows.column("index")[at]
    of_each = parts(rows.column("node")[at])
    return {
        rows.text("node", at[mine[0]]): (index[mine], _highest_left(end[mine], cut[mine])) for mine in of_each.values()
    }


def _highest_left(position: Ints, is_cut: Flags) -> Ints:
    """Return the highest of the positions so far, where a cut brings down what is higher."""
    steps, now = position.copy(), -1
    bounds = sorted({0, *np.flatnonzero(is_cut).tolist(), len(steps)})
    for begin, end in pairwise(bounds):
        steps[begin] = min(now, steps[begin]) if is_cut[begin] else max(now, steps[begin])
        steps[begin:end] = np.maximum.accumulate(steps[begin:end])
        now = int(steps[end - 1])
    return steps


def confirm_forms(rows: Rows) -> Sequence[Form]:
    """Return what all ``confirm`` rows report."""
    return rows.forms(rows.where(kind="trace", f="confirm"))


def confirmed_appends(rows: Rows) -> Claims:
    """Return records that some replica held and called confirmed at some time, whatever became of them later.

    For each node: a record is there from its ``append`` until a ``truncate`` or ``recovered`` row whose position lies
    below its end, or any ``bootstrap``; it was confirmed if the node's confirm offset reached its end in between.
    """
    found = [_confirmed_on(rows, name) for name in nodes_of(rows, rows.where(kind="trace", f="append"))]
    at = np.sort(np.concatenate(found), kind="stable") if found else np.empty(0, dtype=np.int64)
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
    appends, confirms, cuts = (_by(rank, at) for at in (appends, confirms, cuts))
    position = rows.column("position")
    end = position[appends] + np.maximum(rows.numbers("size", appends), 1)
    gone = np.full(len(appends), len(every), dtype=np.int64)
    bootstrap = rows.code("f", "bootstrap")  # nothing of what stood there before is in a log that begins again
    for cut in cuts[::-1]:
        kept = -1 if rows.column("f")[cut] == bootstrap else position[cut]
        gone[(rank[appends] < rank[cut]) & (end > kept)] = rank[cut]
    confirmed = np.zeros(len(appends), dtype=np.bool_)
    for until in distinct(gone):
        window = confirms[rank[confirms] < until]
        if len(window):
            highest = np.append(np.maximum.accumulate(position[window][::-1])[::-1], -1)
            mine = gone == until
            confirmed[mine] = highest[np.searchsorted(rank[window], rank[appends[mine]])] >= end[mine]
    return appends[confirmed]


def first_confirms(rows: Rows, at: Ints) -> Ints:
    """For each of these appends the first confirm offset of its node that reached its end afterwards, -1 for none. Of
    those that :func:`highest_confirms` keeps, it is one of the same epoch as of all."""
    found = np.full(len(at), -1, dtype=np.int64)
    position, node = rows.column("position"), rows.column("node")[at]
    end = position[at] + np.maximum(rows.numbers("size", at), 1)
    for mine in parts(node).values():
        confirms = rows.where(kind="trace", f="confirm", node=rows.text("node", at[mine[0]]))
        lived = in_node_order(rows, np.append(confirms, at[mine]))
        rank = np.empty(len(rows), dtype=np.int64)
        rank[lived] = np.arange(len(lived))
        confirms = _by(rank, confirms)
        begins = np.searchsorted(rank[confirms], rank[at[mine]])
        for one, begin in zip(mine.tolist(), begins.tolist(), strict=True):
            reached = np.flatnonzero(position[confirms[begin:]] >= end[one])
            found[one] = confirms[begin + reached[0]] if len(reached) else -1
    return found


def _by(rank: Ints, at: Ints) -> Ints:
    return at[stable_order(rank[at])]


def highest_confirms(rows: Rows) -> Ints:
    """For each node and each cut of its log, each new epoch, and the end: the confirm offsets before it that no later
    one before it reaches. With these alone, a record was confirmed before it was cut off, after it was appended,
    exactly if it was with all of them (:func:`confirmed_appends`), and first in the same epoch."""
    return np.concatenate([np.empty(0, np.int64), *(at for pieces in _unreached(rows) for at in pieces)])


def confirms_before_cuts(rows: Rows) -> Ints:
    """Of :func:`highest_confirms` those that are kept whatever comes later."""
    return np.concatenate([np.empty(0, np.int64), *(at for pieces in _unreached(rows) for at in pieces[:-1])])


def unreached_confirms(rows: Rows) -> Ints:
    """Return what :func:`highest_confirms` must know of earlier rows: what it would keep if they were the last ones."""
    return np.concatenate([np.empty(0, np.int64), *(pieces[-1] for pieces in _unreached(rows))])


def _unreached(rows: Rows) -> list[list[Ints]]:
    """For each node: before each cut of its log, each confirm offset of another epoch than the one before, and its
    end, the confirm offsets that no later one reaches."""
    found = []
    confirm, position, epoch = rows.code("f", "confirm"), rows.column("position"), rows.column("epoch")
    at = np.arange(len(rows))
    for mine in parts(rows.column("node")).values():
        lived = in_node_order(rows, at[mine])
        confirms = np.flatnonzero(rows.column("f")[lived] == confirm)
        new_epoch = confirms[1:][epoch[lived[confirms[1:]]] != epoch[lived[confirms[:-1]]]]
        cuts = distinct(np.append(np.flatnonzero(rows.column("f")[lived] != confirm), new_epoch))
        last, pieces = np.empty(0, dtype=np.int64), []
        for piece in np.split(lived, cuts):
            last = np.concatenate([last, piece[rows.column("f")[piece] == confirm]])
            later = np.maximum.accumulate(position[last][::-1])[::-1]
            last = last[position[last] > np.append(later[1:], np.iinfo(np.int64).min)]
            pieces.append(last)
        found.append(pieces)
    return found


def first_appends(rows: Rows) -> Ints:
    """Keep of each queue the record with the lowest offset that was appended, by the first of several rows. A sieve."""
    at = rows.where(kind="trace", f="append")
    order, firsts = groups(rows.column("queue")[at], rows.column("offset")[at])
    lowest = order[firsts]  # of each queue and offset, by queue
    queue = rows.column("queue")[at[lowest]]
    return np.sort(at[lowest[np.append(True, queue[1:] != queue[:-1])[: len(queue)]]])


def confirms_before_commits(rows: Rows) -> Ints:
    """For each manifest that a node sent, the last confirm offset that it had reported by the end of that step."""
    return np.concatenate([np.empty(0, np.int64), *(before[before >= 0] for _, before, _, _ in _commits(rows))])


def confirms_of_past_steps(rows: Rows) -> Ints:
    """Of :func:`confirms_before_commits` those of steps that are over."""
    return np.concatenate(
        [np.empty(0, np.int64), *(before[(before >= 0) & ~goes_on] for _, before, goes_on, _ in _commits(rows))]
    )


def present_commits(rows: Rows) -> Ints:
    """Return what :func:`confirms_before_commits` must know of earlier rows: of each node the manifests that it sent in
    its last step, and its last confirm offset."""
    found = (at for commits, _, goes_on, last in _commits(rows) for at in (commits[goes_on], last))
    return np.concatenate([np.empty(0, np.int64), *found])


def _commits(rows: Rows) -> Iterator[tuple[Ints, Ints, Flags, Ints]]:
    """Yield for each node: the manifests that it sent; the last confirm offset by the end of the step of each, -1 for
    none; which of these steps is the node's last one; and its last confirm offset, if it reported one."""
    commit = rows.code("f", "tier_commit")
    columns = [rows.column(name) for name in ("index", "f", "step", "incarnation")]
    at = np.arange(len(rows))
    for mine in parts(rows.column("node")).values():
        index, f, step, incarnation = (column[mine] for column in columns)
        order = np.lexsort((index, f == commit, step, incarnation))
        lived, is_commit = at[mine][order], f[order] == commit
        place = np.maximum.accumulate(np.where(is_commit, -1, np.arange(len(lived))))
        before = np.where(place >= 0, lived[np.maximum(place, 0)], -1)
        last = order[-1]
        goes_on = ((step == step[last]) & (incarnation == incarnation[last]))[order]
        yield lived[is_commit], before[is_commit], goes_on[is_commit], before[-1:][before[-1:] >= 0]


def confirms_beyond(rows: Rows) -> Ints:
    """Keep, for nodes with clocks of their own, the confirm offsets that a member of the set had not reported to its
    master to have, or never had on its disk, or that name more as acknowledged than it had; and of each epoch the
    highest one. Besides: of each disk the first word, and the one that went furthest. A sieve."""
    position = rows.column("position")
    grows = np.sort(np.concatenate([rows.where(kind="trace", f=f) for f in _DISK_GROWS]))
    _, first = np.unique(rows.column("node")[grows], return_index=True)
    tops = highest_of(rows, grows, "node")
    ends = {rows.text("node", at): int(position[at]) for at in tops.tolist()}
    confirms = rows.where(kind="trace", f="confirm")
    beyond = np.zeros(len(confirms), dtype=np.bool_)
    for form in rows.forms(confirms):
        end, acks = position[confirms[form.at]], form.value.get("acks")
        for member in {*(form.value.get("set") or ()), *(form.value.get("proposed") or ())}:
            said = form.whole(acks.get(member, -1)) if isinstance(acks, dict) else end
            beyond[form.at[(said < end) | (np.maximum(said, end) > ends.get(member, _NO_END))]] = True
    return distinct(np.concatenate([grows[first], tops, confirms[beyond], highest_of(rows, confirms, "epoch")]))


#: What says how far a disk goes, and never that it goes less far.
_DISK_GROWS = ("synced", "recovered", "bootstrap")
#: Less than any position: a node that reported nothing of its disk had nothing of it.
_NO_END = np.iinfo(np.int64).min


def highest_of(rows: Rows, at: Ints, key: str) -> Ints:
    """Of the rows with each value of this column the one with the highest position, the first of several."""
    by_position = at[np.lexsort((at, -rows.column("position")[at]))]
    order, starts = groups(rows.column(key)[by_position])
    return by_position[order[starts]]
