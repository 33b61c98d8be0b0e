"""While a member of a group holds the lock of a queue, no other member is given it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from chaos.fault import Effect
from chaos.findings import Findings
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import losses, reads
from checkers._facts.reads import own
from checkers.consumers.promise import DOUBLE_OWNER, PROMISE, decided

NEEDS = Needs(
    part="who holds locks of queues",
    key=Key.GROUP,
    rows=(own("op", "lock", "unlock"), *losses.TERMS, *reads.REPLICAS),
    columns=(*reads.BASIC, *reads.OPERATIONS, *losses.COLUMNS, "position"),
    uses=(Use.DELIVERIES,),
)


class Hold(NamedTuple):
    """A member surely holds the lock of a queue from one time to another: from the answer that gave it to where the
    time ends that it may trust it, or to where it gave it back. ``at``: the row of the answer."""

    since_ns: int
    until_ns: int
    owner: str
    at: int


@dataclass(frozen=True, slots=True)
class Locks:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found, holds = Findings(PROMISE), _holds(rows)
        found.count("locks", sum(map(len, holds.values())))
        shared = [(place, *pair) for place, mine in sorted(holds.items()) for pair in _shared(mine)]
        skewed = [one for one in rows.memo(facts.faults) if one.effects is None or one.hits(Effect.SKEWS_CLOCKS)]
        why = facts.all_destroyed(rows, context) if shared else ""
        why = why or ("" if losses.keeps_read(rows, context) else "the profile may let locks be forgotten")
        why = why or ("a fault has, or may have, set clocks of nodes" if skewed else "")
        if shared and why:
            found.gap(f"two members held the lock of a queue at once, but {why}")
        else:
            _report(rows, found, shared)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decided(partial, context)


def _holds(rows: Rows) -> dict[tuple[str, int], list[Hold]]:
    """Return who surely held locks when, by group and queue."""
    times = rows.column("time_ns")
    back: dict[tuple[str, str, int], list[int]] = {}
    for at in facts.calls(rows, "unlock").invoke.tolist():
        value = rows.value(at)
        for queue in value.get("asked", ()):
            back.setdefault((str(value.get("group")), str(value.get("owner")), int(queue)), []).append(int(times[at]))
    holds: dict[tuple[str, int], list[Hold]] = {}
    calls = facts.calls(rows, "lock")
    for asked, done in zip(calls.invoke[calls.ok].tolist(), calls.done[calls.ok].tolist(), strict=True):
        value = rows.value(done)
        group, owner = str(value.get("group")), str(value.get("owner"))
        for queue in value.get("queues", ()):
            ends = (end for end in back.get((group, owner, int(queue)), ()) if end >= times[asked])
            until_ns = min(int(times[asked]) + int(value.get("for_ms", 0)) * 1_000_000, min(ends, default=facts.NEVER))
            if until_ns > times[done]:
                hold = Hold(int(times[done]), until_ns, owner, done)
                holds.setdefault((group, int(queue)), []).append(hold)
    return holds


def _shared(holds: list[Hold]) -> Iterator[tuple[Hold, Hold]]:
    """Yield each hold that begins while another member has one, with that one."""
    last: dict[str, Hold] = {}
    for hold in sorted(holds):
        others = [one for owner, one in last.items() if owner != hold.owner and one.until_ns > hold.since_ns]
        if others:
            yield max(others, key=lambda one: one.until_ns), hold
        before = last.get(hold.owner)
        if before is None or hold.until_ns > before.until_ns:
            last[hold.owner] = hold


def _report(rows: Rows, found: Findings, shared: list[tuple[tuple[str, int], Hold, Hold]]) -> None:
    index = rows.column("index")

    def report(number: int) -> None:
        (group, queue), one, two = shared[number]
        found.add(
            DOUBLE_OWNER,
            f"Group {group} gave the lock of queue {queue} to {two.owner} at {facts.at_s(rows, two.at)}, though"
            f" {one.owner} held it, since {facts.at_s(rows, one.at)}.",
            *(int(index[hold.at]) for hold in (one, two)),
            queue=queue,
        )

    later = np.array([two.at for _, _, two in shared], dtype=np.int64)
    queues = np.array([queue for (_, queue), _, _ in shared], dtype=np.int64)
    acted_ns = facts.since_load_ns(rows, later)
    found.add_each(DOUBLE_OWNER, np.arange(len(shared)), report, queues=queues, acted_ns=acted_ns)
