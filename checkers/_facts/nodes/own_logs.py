"""Of what nodes report of their own logs, few rows matter: those that break a promise with the rows by which they are
judged, and what is known whenever something rare happens. A sieve that all laws about a node's own log declare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from chaos.driver import Profile
from chaos.kernel import Reads, Sieve
from chaos.shard_rows import Rows
from checkers._facts.arrays import Flags, Ints, distinct, parts

#: What a node reports again and again: most of it says nothing new.
OFTEN = ("append", "synced", "confirm", "acked", "tier_commit", "retention")
#: What takes something from a log, or begins it again, or may do so.
TAKES = ("start", "truncate", "recovered", "bootstrap")
SELDOM = (*TAKES, "role", "set")
#: What sets where a log ends, whatever stood there before.
RESETS = ("truncate", "recovered", "bootstrap")


def size_of_set(rows: Rows, at: int) -> int:
    """Return how many the master says are in its SyncStateSet; -1 where this row is none of a master's, or doesn't say
    so."""
    value = rows.value(at)
    members = value.get("set")
    is_master = rows.text("f", at) == "set" or value.get("role") == "master"
    return len(members) if is_master and isinstance(members, Sequence) else -1


def _top(position: Ints, segment: Ints) -> tuple[Ints, Ints]:
    """For each place the place of the first value, up to it, that is the highest of its segment so far; and that of all
    segments so far. Segments ascend."""
    at: Ints = np.arange(len(position), dtype=np.int64)
    ranks = np.unique(position, return_inverse=True)[1].reshape(-1)
    found = []
    for number in (segment * (len(position) + 1) + ranks + 1, ranks + 1):
        highest = np.maximum.accumulate(number)
        new = np.append(True, highest[1:] > highest[:-1])[: len(at)]
        found.append(np.maximum.accumulate(np.where(new, at, 0)))
    return found[0], found[1]


class _Node:
    """The rows of one node, in the order in which it lived them. All flags and places are about these."""

    def __init__(self, rows: Rows, lived: Ints, profile: Profile) -> None:
        self.rows, self.lived, self.profile = rows, lived, profile
        self.f, self.position = rows.column("f")[lived], rows.column("position")[lived]
        self.own = rows.own[lived]

    def are(self, *names: str) -> Flags:
        found = np.zeros(len(self.f), dtype=np.bool_)
        for name in names:
            found |= self.f == self.rows.code("f", name)
        return found

    def last(self, of: Flags) -> Ints:
        """For each place the last one of these up to it, -1 before the first."""
        return np.maximum.accumulate(np.where(of, np.arange(len(of)), -1))

    def first(self, of: Flags) -> Ints:
        """Return the first of these, if there is any and it isn't known already."""
        at = np.flatnonzero(of)[:1]
        return at[self.own[at]]

    @cached_property
    def setters(self) -> dict[str, Ints]:
        """For each place the last row that says where the log ended, how much of it was durable, and what the node
        called confirmed."""
        resets = self.are(*RESETS)
        return {
            "end": self.last(resets | self.are("append")),
            "durable": self.last(resets | self.are("synced")),
            "confirmed": self.last(self.are("confirm", "bootstrap", "recovered")),
        }

    def known(self, name: str) -> Ints:
        """Return the position that :attr:`setters` give at each place, -1 before the first."""
        found = self.position.copy()
        if name == "end":
            appends = np.flatnonzero(self.are("append"))
            found[appends] += np.maximum(self.rows.numbers("size", self.lived[appends]), 1)
        if name == "confirmed":
            for place in np.flatnonzero(self.are("recovered")).tolist():
                found[place] = int(self.rows.value(int(self.lived[place])).get("confirm", -1))
        at = self.setters[name]
        return np.where(at >= 0, found[np.maximum(at, 0)], -1)

    @cached_property
    def bound(self) -> Ints:
        """How far the node may call its log confirmed."""
        return self.known("end" if self.profile.flush == "async" else "durable")

    def with_setters(self, places: Sequence[Ints]) -> Ints:
        """Return these, and the rows by which they are judged."""
        chosen = np.zeros(len(self.lived), dtype=np.bool_)
        chosen[np.concatenate([*places, np.empty(0, np.int64)])] = True
        asked = (("acked", "tier_commit"), "confirmed"), (("confirm",), "durable"), (("confirm", "synced"), "end")
        for names, setter in asked:
            before = self.setters[setter][chosen & self.are(*names)]
            chosen[before[before >= 0]] = True
        return self.lived[chosen]

    @cached_property
    def segments(self) -> tuple[Ints, Ints, Ints, Ints]:
        """The places of confirm offsets; between which rows that may take something each stands; and the places of the
        first one that was as high as any up to it, there and in the whole life of the node."""
        at = np.flatnonzero(self.are("confirm"))
        segment: Ints = np.cumsum(self.are(*TAKES), dtype=np.int64)[at]
        here, ever = _top(self.position[at], segment)
        return at, segment, at[here], at[ever]

    def broken(self) -> list[Ints]:
        """Return rows that contradict what the node has reported before. Of confirm offsets before which it reported
        nothing of its log, the first one."""
        confirm, end, bound = self.are("confirm"), self.known("end"), self.bound
        beyond = confirm & (bound >= 0) & (self.position > bound)
        false = self.are("synced") & (end >= 0) & (self.position > end)
        confirmed, repeats = self.known("confirmed"), np.flatnonzero(self.are("acked", "tier_commit"))
        said = self.rows.numbers("confirm", self.lived[repeats])
        repeats = repeats[(confirmed[repeats] >= 0) & (said > confirmed[repeats])]
        found = [np.flatnonzero((beyond | false) & self.own), repeats[self.own[repeats]]]
        return [*found, self.first(confirm & (bound < 0))]

    def false_by_themselves(self) -> list[Ints]:
        """Return rows that say themselves that they are not so: an acknowledgement beyond what is confirmed, and what
        is called durable and was not on the disk."""
        synced, acked = (np.flatnonzero(self.are(name) & self.own) for name in ("synced", "acked"))
        numbers, at = self.rows.numbers, self.lived
        disk = numbers("disk", at[synced])
        early = acked[numbers("confirm", at[acked]) < self.position[acked]]
        stated = [form.at for form in self.rows.forms(at[early]) if "confirm" in form.value]
        return [synced[(disk >= 0) & (disk < numbers("size", at[synced]))], *(early[some] for some in stated)]

    def before_taken(self) -> list[Ints]:
        """Return what was known when something was taken away, or may have been: the last that was called durable, the
        last deletion, and the highest confirm offset since the last such row."""
        takes = self.are(*TAKES)
        lost = np.flatnonzero(takes & self.own)
        lasts = [self.last(self.are(name))[lost] for name in ("synced", "retention")]
        at, segment, here, _ = self.segments
        is_last = np.append(segment[1:] != segment[:-1], True)[: len(at)]
        closed = np.isin(segment[is_last], np.cumsum(takes)[lost] - 1)
        return [*(some[some >= 0] for some in lasts), here[is_last][closed]]

    def taken_back(self) -> list[Ints]:
        """Return a master's confirm offsets that are lower than one before, each with the one before it and the highest
        since something was taken away: whether it is still the same master's, the law decides."""
        at, segment, here, ever = self.segments
        low = np.flatnonzero(self.position[at] < self.position[ever])
        low = low[self.own[at[low]]]
        is_master = np.zeros(len(low), dtype=np.bool_)
        for form in self.rows.forms(self.lived[at[low]]):
            is_master[form.at] = "set" in form.value
        low = low[is_master]
        before = low - 1
        same = before[segment[before] == segment[low]]
        return [at[low], at[before], here[same]]

    def of_terms(self, *, present: bool = False) -> list[Ints]:
        """Return the first confirm offset of each master term that is above where the term's log began; ``present``:
        only of the last one, if it may go on."""
        at, _, _, _ = self.segments
        begins = np.flatnonzero(self.are("start", "recovered", "role"))
        found = []
        ends = np.append(begins[1:], len(self.lived))
        for begin, end in [*zip(begins.tolist(), ends.tolist(), strict=False)][-1 if present else 0 :]:
            row = int(self.lived[begin])
            value = self.rows.value(row) if self.rows.text("f", row) == "role" else {}
            if value.get("role") == "master" and "start" in value:
                mine = at[slice(*np.searchsorted(at, (begin, end)))]
                found.append(mine[self.position[mine] > int(value["start"])][:1])
        return found

    @cached_property
    def sets(self) -> tuple[Ints, Flags]:
        """The rows that name a SyncStateSet, or say that there is none; and for each place whether it was large enough,
        or unknown."""
        naming = np.flatnonzero(self.are("role", "set"))
        sizes = np.array([size_of_set(self.rows, int(row)) for row in self.lived[naming].tolist()], dtype=np.int64)
        last = np.searchsorted(naming, np.arange(len(self.lived)), side="right") - 1
        known = np.append(sizes, -1)[last]
        return naming, (known < 0) | (known >= self.profile.min_in_sync)

    def too_few(self) -> list[Ints]:
        """Acknowledgements while the SyncStateSet was too small, and the record that each ends with, if it was too
        small ever since."""
        if self.profile.acks != "all":
            return []
        rows, (_, enough) = self.rows, self.sets
        acked = np.flatnonzero(self.are("acked") & ~enough & self.own)
        found = []
        if len(acked):
            sent = self._sent()
            epoch, so_far = rows.column("epoch")[self.lived], np.cumsum(enough)
            end = self.position[sent] + np.maximum(rows.numbers("size", self.lived[sent]), 1)
            for at in acked.tolist():
                mine = sent[(end == self.position[at]) & (epoch[sent] == epoch[at]) & (sent < at)][-1:]
                if len(mine) and so_far[at] == so_far[mine[0]]:
                    found += [mine, np.array([at])]
        return found

    def _sent(self) -> Ints:
        """Messages that were appended while the SyncStateSet was too small."""
        is_message = self.rows.column("message")[self.lived] >= 0
        return np.flatnonzero(self.are("append") & is_message & ~self.sets[1])

    def sure(self) -> Ints:
        firsts = [self.first(self.are(name)) for name in ("append", "synced")]
        terms = [some[self.own[some]] for some in self.of_terms()]
        found = [
            *self.broken(),
            *self.false_by_themselves(),
            *self.before_taken(),
            *self.taken_back(),
            *terms,
            *self.too_few(),
            *firsts,
        ]
        return self.with_setters(found)

    def _open(self) -> Ints:
        """Return the highest confirm offset since something was taken away, or may have been."""
        at, segment, here, _ = self.segments
        return here[-1:] if len(at) and segment[-1] == self.are(*TAKES).sum() else at[:0]

    def keep(self) -> Ints:
        return np.concatenate([self.sure(), self.with_setters([self._open()])])

    def remember(self) -> Ints:
        """Return the last row of each kind, and what the rules above ask for besides."""
        names = [name for name in (*OFTEN, *SELDOM) if name not in ("acked", "tier_commit")]
        lasts = [np.flatnonzero(self.are(name))[-1:] for name in names]
        firsts = [np.flatnonzero(self.are(name))[:1] for name in ("append", "synced")]
        unbound = np.flatnonzero(self.are("confirm") & (self.bound < 0))[:1]
        highest = self.segments[3][-1:]
        found = [*lasts, *firsts, unbound, highest, self._open(), *self.of_terms(present=True)]
        naming, enough = self.sets
        if self.profile.acks == "all" and not enough[-1]:
            since, sent = int(np.append(-1, np.flatnonzero(enough))[-1]), self._sent()
            before = max(0, int(np.searchsorted(naming, since, side="right")) - 1)
            found += [sent[sent > since], naming[before:]]
        return self.with_setters(found)


@dataclass(frozen=True, slots=True)
class _OwnLogs:
    """Asks each node's rows."""

    profile: Profile
    what: Callable[[_Node], Ints]

    def __call__(self, rows: Rows) -> Ints:
        return distinct(np.concatenate([np.empty(0, np.int64), *map(self.what, rows.memo(_nodes(self.profile)))]))


@cache
def _nodes(profile: Profile) -> Callable[[Rows], Sequence[_Node]]:
    """Return what makes the nodes of some rows: two questions are asked about the same ones."""
    return lambda rows: [_Node(rows, lived, profile) for lived in parts(rows.column("node")).values()]


@cache
def _fitted(profile: Profile) -> Sieve:
    return Sieve(
        rows=(Reads(kind="trace", f=(*OFTEN, *SELDOM)),),
        columns=("node", "epoch", "position", "message", "value"),
        keep=_OwnLogs(profile, _Node.keep),
        sure=_OwnLogs(profile, _Node.sure),
        remember=_OwnLogs(profile, _Node.remember),
        streamed=True,
        together=True,
    )


SIEVE = replace(_fitted(Profile()), fitted=_fitted)


def own_log(*f: str) -> Reads:
    """Rows of these kinds, of :data:`OFTEN`: those by which a node's own log is judged as by all of them."""
    return Reads(kind="trace", f=f, sieve=SIEVE)
