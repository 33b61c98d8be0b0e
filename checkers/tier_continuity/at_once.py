"""An uploader has no more requests to the object store under way at a time than it may, and does not press a store that
does not answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence
from chaos.fault import Effect
from chaos.findings import Findings
from chaos.kernel import Key, Needs, Reads, Sieve
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts import reads, tier
from checkers._facts.arrays import Flags, Ints
from checkers._facts.reads import own
from checkers.tier_continuity import back_off
from checkers.tier_continuity.promise import NO_BACK_OFF, PROMISE, TOO_MANY_REQUESTS

#: The rows by which a store reports that it has done what a request asked for.
DONE = ("store_put", "store_cas", "store_get", "store_delete")
ASKED = ("tier_request", "tier_commit", *DONE)


def _nothing(rows: Rows) -> Ints:
    return np.empty(0, dtype=np.int64)


#: Where each node has a clock of its own nothing is judged, so no such row need stand in the shard for the whole run.
REQUESTS = Reads(
    kind="trace",
    f=ASKED,
    sieve=Sieve(rows=(own("trace", *ASKED),), columns=(), keep=_nothing, streamed=True, many_clocks=True),
)
AT_ONCE = Needs(
    part="how uploaders ask the store",
    key=Key.RUN,
    rows=(REQUESTS, reads.RUN, reads.FAULTS),
    columns=(*reads.BASIC, *reads.LIVES, "epoch", "queue", "type", "process"),
    evidence=(Evidence.TIER,),
)


@dataclass(frozen=True, slots=True)
class AtOnce:
    """An uploader has no more requests to the object store under way than it may. A request is under way from the step
    that sends it until the store has done it, at least; where nobody can compare these times, nothing is judged.
    Besides, who gets no answer waits longer each time."""

    promise: Promise = PROMISE
    needs: Needs = AT_ONCE

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        if not tier.has_tier(context) or not context.one_clock or context.unfinished:
            return Partial()
        found, index = Findings(PROMISE), rows.column("index")
        for node, (most, timeout_ms) in _settings(rows).items():
            requests = _Requests.of(rows, node, timeout_ms)
            for first, last, count in requests.beyond(most):
                found.add(
                    TOO_MANY_REQUESTS,
                    f"{node} had {count} requests of its uploads to the object store under way at "
                    f"{facts.at_s(rows, last)}, where it may have {most}.",
                    int(index[first]),
                    int(index[last]),
                )
        for series in back_off.unrested(rows):
            found.add(
                NO_BACK_OFF,
                f"{rows.text('node', series.first)} asked for {series.key} {back_off.IN_A_ROW} times in a row within "
                f"{series.within_s:.1f} s from {facts.at_s(rows, series.first)} on, and for nothing else of queue "
                f"{series.queue}: who gets no answer is to wait longer each time.",
                int(index[series.first]),
                int(index[series.last]),
                queue=series.queue,
            )
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return tier.judge(PROMISE, partial, context, [])


def _settings(rows: Rows) -> dict[str, tuple[int, int]]:
    """By uploader: how many requests it may have under way, and after how many ms it gives one up. Only of those that
    report both."""
    found: dict[str, tuple[int, int]] = {}
    for at in rows.where(kind="trace", f="tier_commit").tolist():
        value = rows.value(at)
        most, timeout_ms = value.get("parallel"), value.get("timeout_ms")
        if isinstance(most, int) and isinstance(timeout_ms, int):
            before = found.get(node := rows.text("node", at), (0, timeout_ms))
            found[node] = (max(before[0], most), min(before[1], timeout_ms))
    return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class _Requests:
    """The requests of one uploader's uploads that the store has done before it was given up, while no fault hindered
    either: the rows that sent it and did it, and the number of the life and master term that it belongs to."""

    sent: Ints
    done: Ints
    term: Ints

    @classmethod
    def of(cls, rows: Rows, node: str, timeout_ms: int) -> _Requests:
        sent = rows.where(kind="trace", f="tier_request", node=node)
        sent = sent[rows.column("epoch")[sent] >= 0]
        at_store = np.concatenate([rows.where(kind="trace", f=f) for f in DONE])
        answered = dict(zip(rows.words("request", at_store), at_store.tolist(), strict=True))
        pairs = [
            (at, answered[word])
            for at, word in zip(sent.tolist(), rows.words("request", sent), strict=True)
            if word in answered and not rows.value(answered[word]).get("recovered")
        ]
        both = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        times = rows.column("time_ns")
        good = times[both[:, 1]] - times[both[:, 0]] < timeout_ms * 1_000_000
        both = both[good & ~_hindered(rows, node, times[both[:, 0]], times[both[:, 1]])]
        lives = np.stack([rows.column(name)[both[:, 0]] for name in ("incarnation", "epoch")], axis=1)
        _, term = np.unique(lives, axis=0, return_inverse=True)
        return cls(both[:, 0], both[:, 1], term.reshape(-1))

    def beyond(self, most: int) -> Iterator[tuple[int, int, int]]:
        """For each life and term the first time that there were more: the row that sent the oldest of them, the row
        that sent the last one, and how many there were."""
        for term in range(int(self.term.max(initial=-1)) + 1):
            sent, done = (column[self.term == term] for column in (self.sent, self.done))
            under_way = np.arange(1, len(sent) + 1) - np.searchsorted(np.sort(done), sent)
            for n in np.flatnonzero(under_way > most)[:1].tolist():
                yield int(sent[: n + 1][done[: n + 1] > sent[n]][0]), int(sent[n]), int(under_way[n])


def _hindered(rows: Rows, node: str, began_ns: Ints, ended_ns: Ints) -> Flags:
    """Return where a fault was in force meanwhile that has hit the uploader or a store, or may have: a connection that
    ends takes requests from the uploader that the store still does."""
    stores = {rows.text("node", at) for f in DONE for at in rows.where(kind="trace", f=f)[:1].tolist()}
    hindered = np.zeros(len(began_ns), dtype=np.bool_)
    for fault in rows.memo(facts.faults):
        if fault.effects is None or fault.hits(*Effect) & {node, *stores}:
            hindered |= (began_ns <= fault.until_ns) & (ended_ns >= fault.began_ns)
    return hindered
