"""What shards together find of messages that did not come to groups: no shard knows all that came without an id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.findings import Facts, Findings, joined
from chaos.law import Partial
from checkers import _facts as facts
from checkers._facts import later
from checkers._facts.arrays import Flags, Ints, pairs_occur
from checkers.deliveries.promise import PROMISE, WITHHELD

#: What is reported of a message that did not come to a group.
_COLUMNS = ("message", "hash", "stands", "in_time", "began", "since_ns")


def repeated(reported: Facts) -> Partial:
    """Count how often groups that acknowledge each message were given one again."""
    reports = [fact for fact in reported if "acks" in fact]
    groups = {str(fact["by"]) for fact in reports if fact["acks"]}
    mine = [fact for fact in reports if fact["by"] in groups]
    names = ("given_again", "given_again_after_ack") if mine else ()
    return Partial(counts={name: sum(int(fact[name]) for fact in mine) for name in names})


def unknown(reported: Facts) -> Partial:
    """Note what shards report as unknown, and what hides whether a group was given everything: nobody waited for it, or
    read its queue in the end."""
    found = Findings(PROMISE)
    for fact in reported:
        if "unknown" in fact:
            found.gap(str(fact["unknown"]))
    waits = {(one.group, one.queue) for one in _waits(reported)}
    reports = [fact for fact in reported if "known" in fact]
    known = {number for fact in reports for number in fact["known"]}
    for number in sorted({number for _, number in waits} - known):
        found.gap(f"what stands in queue {number} after the run is unknown, and so what a group was never given")
    wanted = {(str(group), int(number)) for fact in reports for group, number in fact["wanted"]}
    for group, number in sorted(wanted - waits):
        found.gap(f"group {group} was not waited for in queue {number}: what it was never given is unknown")
    if reports:
        found.count("groups_awaited", len(waits))
    return found.partial()


@dataclass(frozen=True, slots=True)
class _Wait:
    """``reported``: what the shards report of messages that the group lacks; ``keeps``: whether what readers saw stays
    where it was."""

    group: str
    queue: int
    end: int
    end_ns: int
    reached: bool
    keeps: bool
    reported: Facts


def _waits(reported: Facts) -> Iterator[_Wait]:
    """Yield all waits, by their ends. Every shard reports each of them."""
    by_end: dict[int, list[Mapping[str, Any]]] = {}
    for fact in reported:
        if "wait" in fact:
            by_end.setdefault(int(fact["end"]), []).append(fact)
    for end, mine in sorted(by_end.items()):
        one = mine[0]
        keeps = all(bool(fact["keeps"]) for fact in mine)
        reached = bool(one["reached"])
        yield _Wait(str(one["wait"]), int(one["queue"]), end, int(one["end_ns"]), reached, keeps, mine)


def withheld(reported: Facts) -> Partial:
    """Find messages that stand in a queue in the end, and were acknowledged or are owed, but did not come to a group
    that was waited for, under their own id or without one."""
    found = Findings(PROMISE)
    stand = _pairs(fact["stand"] for fact in reported if "stand" in fact)
    for wait in _waits(reported):
        message, content, stands, in_time, began, since_ns = joined(wait.reported, *_COLUMNS)
        blank = _pairs(fact["blank"][wait.group] for fact in reported if wait.group in fact.get("blank", ()))
        lacks = (stands != 0) | _occur(wait.queue, content, stand)
        lacks &= ~_occur(wait.queue, content, blank)
        if not in_time[lacks].all():
            found.gap(
                f"the wait for group {wait.group} in queue {wait.queue} ended before delayed messages had to come to it"
            )
        places = np.flatnonzero(lacks & (in_time != 0))
        if len(places) and not wait.reached:
            lacking = f"group {wait.group} lacks messages of queue {wait.queue}"
            found.gap(f"{lacking}, but nobody was given anything while it read on")
            continue
        if len(places) and not wait.keeps:
            found.gap(
                f"group {wait.group} lacks messages of queue {wait.queue}, but the profile lets what it has read be"
                " taken back, and others come below its place"
            )
            continue
        places = places[np.argsort(began[places])]

        def report_one(
            item: int, wait: _Wait = wait, message: Ints = message, began: Ints = began, since_ns: Ints = since_ns
        ) -> None:
            found.add(
                WITHHELD,
                f"{later.named(int(message[item]))}, sent at {facts.in_s(int(since_ns[item]))}, stands in queue "
                f"{wait.queue}, but group {wait.group} was not given it by {facts.in_s(wait.end_ns)}.",
                int(began[item]),
                wait.end,
                queue=wait.queue,
                message=int(message[item]),
            )

        found.add_each(WITHHELD, places, report_one, queues=np.full(len(places), wait.queue), acted_ns=since_ns[places])
    return found.partial()


def _pairs(parts: Iterator[Any]) -> tuple[Ints, Ints]:
    """Queues, and contents that were seen there without an id."""
    columns = [np.array(one, dtype=np.int64).reshape(2, -1) for one in parts]
    queue, content = np.concatenate([np.empty((2, 0), np.int64), *columns], axis=1)
    return queue, content


def _occur(queue: int, content: Ints, known: tuple[Ints, Ints]) -> Flags:
    return pairs_occur((np.full(len(content), queue), content), known)
