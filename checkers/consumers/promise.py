"""What the law about groups of consumers promises, and all that it can find."""

from __future__ import annotations

from collections.abc import Callable

from chaos.findings import Facts, decide
from chaos.law import AnomalyKind, Harm, Partial, Promise, RunContext
from chaos.verdict import Verdict

COMMIT_REGRESSION = "commit-regression"
COMMIT_BEYOND_END = "commit-beyond-end"
NEVER_COMMITTED = "never-committed"
DOUBLE_OWNER = "double-owner"
SKIPPED = "skipped"
PROMISE = Promise(
    name="consumers",
    place=100,
    meaning="A group's committed offset never goes back nor beyond the end, has one owner, and skips nothing.",
    anomalies=(
        AnomalyKind(
            name=COMMIT_REGRESSION,
            meaning="a group was given an older offset than it had committed",
            headline=("A consumer group went back",),
            harm=Harm.CLIENTS,
        ),
        AnomalyKind(
            name=COMMIT_BEYOND_END,
            meaning="a committed offset lies beyond everything that the queue ever held",
            headline=("A committed offset lies beyond the end of its queue",),
            harm=Harm.CLIENTS,
        ),
        AnomalyKind(
            name=NEVER_COMMITTED,
            meaning="a group was given a larger offset than any that it had committed",
            headline=("A consumer group was given an offset that it had never committed",),
            harm=Harm.CLIENTS,
        ),
        AnomalyKind(
            name=DOUBLE_OWNER,
            meaning="a queue was two members' of a group at once: both pulled it, held its lock, or own it in one"
            " generation",
            headline=("Two consumers of one group owned a queue at once",),
            harm=Harm.CLIENTS,
        ),
        AnomalyKind(
            name=SKIPPED,
            meaning="a group committed past an offset, or a message, that it was never given",
            headline=("A consumer group skipped a message", "Consumer groups skipped {n} messages"),
            harm=Harm.CLIENTS,
        ),
    ),
)
#: What a run must have shown, and what is said where it has not.
COMMITTED = ("commits", "no consumer offset was committed")
#: The fact that a shard has shown it.
SHOWN = "any_commit"


def decided(partial: Partial, context: RunContext) -> Verdict:
    """Return the verdict of a kernel that counts no commits, and leaves it to the one that does to say so where there
    were none. Where no workload uses queues, it judges nothing either unless one of its shards has shown a commit."""
    shown = any(fact.get(SHOWN) for fact in partial.facts)
    nothing = () if shown or not context.no_queues else (COMMITTED,)
    return decide(PROMISE, partial, needs=nothing, unless=context.no_queues)


def decided_together(partial: Partial, context: RunContext, found: Callable[[Facts], Partial]) -> Verdict:
    """As :func:`decided`, of a kernel whose anomalies are ``found`` in the facts of all shards. Where one of these was
    not examined, what it would have reported is not missing: nothing is found then."""
    return decided(partial if partial.gaps else partial.merge(found(partial.facts)), context)
