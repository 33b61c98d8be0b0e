"""In each generation of a group a queue is one member's: no two are given it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

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
    part="who is given queues in a generation",
    key=Key.GROUP,
    rows=(own("op", "join", "heartbeat", "leave"), *losses.TERMS, *reads.REPLICAS),
    columns=(*reads.BASIC, *reads.OPERATIONS, *losses.COLUMNS, "position"),
    uses=(Use.LOGS,),
)


class Claim(NamedTuple):
    """A queue in a generation of a group."""

    group: str
    generation: int
    queue: int


class Shared(NamedTuple):
    """What two members were given, each by the row of the answer."""

    claim: Claim
    first: int
    second: int


@dataclass(frozen=True, slots=True)
class Owners:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found, walk = Findings(PROMISE), _Walk()
        shared = [one for event in _events(rows) for one in walk.take(rows, event)]
        if walk.claims:
            found.count("group_claims", walk.claims)
        destroyed = facts.all_destroyed(rows, context) if shared else ""
        if shared and (destroyed or not losses.keeps_read(rows, context)):
            why = destroyed or "the profile may let generations be forgotten"
            found.gap(f"a queue was given to two members in one generation, but {why}")
        else:
            _report(rows, found, shared)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decided(partial, context)


class Event(NamedTuple):
    """What a member said or heard, by its row, and the row of what it had asked."""

    at: int
    asked: int
    what: str


def _events(rows: Rows) -> list[Event]:
    """Return the requests to leave, and all other answers, in the order of their rows."""
    leave = facts.calls(rows, "leave").invoke.tolist()
    events = [Event(at, at, "leave") for at in leave]
    for f in ("join", "heartbeat"):
        calls = facts.calls(rows, f)
        for what, which in (("given", calls.ok), ("failed", calls.failed)):
            pairs = zip(calls.done[which].tolist(), calls.invoke[which].tolist(), strict=True)
            events += [Event(at, asked, what) for at, asked in pairs]
    return sorted(events)


@dataclass(slots=True)
class _Walk:
    """Follows what members own as they know it. ``owned``: what each was given last; ``owners``: of each claim its
    members, with the row that gave it to each. A member goes on under another number after an operation of unknown
    outcome."""

    claims: int = 0
    owned: dict[tuple[str, str], frozenset[Claim]] = field(default_factory=dict)
    owners: dict[Claim, dict[str, int]] = field(default_factory=dict)

    def take(self, rows: Rows, event: Event) -> Iterator[Shared]:
        """Take one event, and yield what somebody else owns, too."""
        value, name = rows.value(event.at), rows.text("process", event.asked).rpartition(".")[0]
        group = str(rows.value(event.asked).get("group", ""))
        claims = _claims(group, value) if event.what == "given" else frozenset[Claim]()
        if event.what == "failed" and not value.get("fenced"):
            return
        before = self.owned.get((group, name), frozenset())
        self.owned[group, name] = claims
        for claim in before - claims:
            del self.owners[claim][name]
        for claim in sorted(claims - before):
            known = self.owners.setdefault(claim, {})
            if known:
                yield Shared(claim, min(known.values()), event.at)
            known[name] = event.at
            self.claims += 1


def _claims(group: str, value: Mapping[str, Any]) -> frozenset[Claim]:
    """Return what an answer gives; nothing where the group names no generation."""
    queues, generation = value.get("queues"), value.get("generation")
    if not isinstance(queues, list) or not isinstance(generation, int) or generation < 0:
        return frozenset()
    return frozenset(Claim(group, generation, queue) for queue in queues if isinstance(queue, int))


def _report(rows: Rows, found: Findings, shared: list[Shared]) -> None:
    index = rows.column("index")

    def report(number: int) -> None:
        claim, one, two = shared[number]
        found.add(
            DOUBLE_OWNER,
            f"Group {claim.group} gave queue {claim.queue} in generation {claim.generation} to "
            f"{rows.text('process', one)} at {facts.at_s(rows, one)}, and to {rows.text('process', two)} at "
            f"{facts.at_s(rows, two)}.",
            *(int(index[at]) for at in (one, two)),
            queue=claim.queue,
        )

    later = np.array([one.second for one in shared], dtype=np.int64)
    queues = np.array([one.claim.queue for one in shared], dtype=np.int64)
    found.add_each(
        DOUBLE_OWNER, np.arange(len(shared)), report, queues=queues, acted_ns=facts.since_load_ns(rows, later)
    )
