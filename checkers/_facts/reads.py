"""What laws declare to read, by what they need it for. The rows of a shard's own queues, unless it says otherwise."""

from __future__ import annotations

from collections.abc import Callable

from chaos.kernel import Reads, Sieve
from chaos.shard_rows import Rows
from checkers._facts import clients, committed, retention
from checkers._facts.arrays import Ints
from checkers._facts.nodes import acks, logs
from checkers._facts.storage import trims


def own(kind: str, *f: str) -> Reads:
    return Reads(kind=kind, f=f)


def everywhere(kind: str, *f: str) -> Reads:
    """Rows that every shard needs, whatever their queue."""
    return Reads(kind=kind, f=f, everywhere=True)


def callers(*f: str) -> Reads:
    """Declare the operations that delivered what stands in a part of a queue, wherever else they stand."""
    return Reads(kind="op", f=f, beside=True)


def sifted(sieve: Sieve) -> Reads:
    """Confirm offsets that every shard needs."""
    return Reads(kind="trace", f=("confirm",), everywhere=True, sieve=sieve)


def beside(kind: str, *f: str) -> Reads:
    """Rows that every part of a queue needs."""
    return Reads(kind=kind, f=f, everywhere=True, beside=True)


def kept_of(*f: str, keep: Callable[[Rows], Ints], columns: tuple[str, ...] = ()) -> Reads:
    """Declare what every part of a queue needs of the operations ``f`` in each part: those that a streamed sieve keeps,
    which reads these columns besides those by which operations are distinguished."""
    read = ("op", "type", "queue", "offset", *columns)
    sieve = Sieve(rows=(own("op", *f),), columns=read, keep=keep, streamed=True)
    return Reads(kind="op", f=f, sieve=sieve, beside=True)


#: Phases, and when the run began: every explanation names a time.
RUN = everywhere("harness")
FAULTS = everywhere("fault")
#: Which replicas there were, where ``run.json`` does not list them.
REPLICAS = (everywhere("trace", "start", "recovered", "role"), everywhere("final", "node"))
#: Whole logs after recovery, and which of them were read to their end.
FINAL_LOGS = (own("final", "log"), everywhere("final", "node", "complete"))
#: Records that a replica called confirmed at some time. Of confirm offsets, which are as many as records, those are
#: enough that no later one exceeds.
CONFIRMED_APPENDS = (
    own("trace", "append"),
    everywhere("trace", "truncate", "recovered", "bootstrap"),
    sifted(
        Sieve(
            rows=(own("trace", "confirm", "truncate", "recovered", "bootstrap"),),
            columns=("node", "incarnation", "step", "epoch", "position"),
            keep=logs.highest_confirms,
            sure=logs.confirms_before_cuts,
            remember=logs.unreached_confirms,
        )
    ),
)
#: What a node had confirmed when it sent a manifest.
CONFIRMED_BY_COMMIT = (
    everywhere("trace", "recovered", "bootstrap"),
    sifted(
        Sieve(
            rows=(own("trace", "confirm", "tier_commit"),),
            columns=("node", "incarnation", "step"),
            keep=logs.confirms_before_commits,
            sure=logs.confirms_of_past_steps,
            remember=logs.present_commits,
        )
    ),
)
#: Whom masters reported that they counted on. Confirm offsets name the set, too, and most of them the same as before.
SETS = (
    own("trace", "role", "set"),
    Reads(
        kind="trace",
        f=("confirm",),
        sieve=Sieve(
            rows=(own("trace", "role", "set", "confirm"),),
            columns=("node", "epoch", "value"),
            keep=committed.changes_of_sets,
            streamed=True,
        ),
    ),
)
#: What was confirmed, and how far disks went, across nodes. Without a common clock few of these rows say anything: what
#: a disk held at any time, it may have held when it was counted on.
CONFIRMED_BY_OTHERS = (
    own("trace", "truncate", "recovered", "bootstrap"),
    Reads(
        kind="trace",
        f=("confirm", "synced"),
        sieve=Sieve(
            rows=(own("trace", "confirm", "synced", "recovered", "bootstrap"),),
            columns=("node", "epoch", "position", "value"),
            keep=logs.confirms_beyond,
            streamed=True,
            before=(own("trace", "synced", "recovered", "bootstrap"),),
            many_clocks=True,
        ),
    ),
)
#: How far the log of each node has reached.
LOG_ENDS = Reads(
    kind="trace",
    f=("append",),
    sieve=Sieve(
        rows=(own("trace", "append"),),
        columns=("node", "position", "value"),
        keep=acks.highest_appends,
        streamed=True,
    ),
)
#: Which topics meta's log makes, changes and deletes.
TOPIC_ENTRIES = Reads(
    kind="trace",
    f=("applied",),
    everywhere=True,
    sieve=Sieve(rows=(own("trace", "applied"),), columns=("value",), keep=trims.topic_entries, streamed=True),
)
#: What was removed from local logs as retention permits: the deletion that went furthest; and in a storage cluster all
#: trims, and their topics. What was trimmed in the tier is :data:`checkers._facts.retention.TRIMMED`.
RETENTION = (
    Reads(
        kind="trace",
        f=("retention",),
        everywhere=True,
        sieve=Sieve(rows=(own("trace", "retention"),), columns=("value",), keep=retention.highest_minimums),
    ),
    everywhere("trace", "start", "recovered", "role", "trim"),
    TOPIC_ENTRIES,
)
#: When service was owed, and to whom.
SERVICE_OWED = (everywhere("trace", "applied", "set"), RUN, FAULTS, *REPLICAS)
SERVICE = (own("op", "send"), *SERVICE_OWED)
#: The sends that show when a queue was not served.
SILENCE = Reads(
    kind="op",
    f=("send",),
    sieve=Sieve(
        rows=(own("op", "send"),),
        columns=("op", "type", "queue", "time_ns"),
        keep=clients.bounding_silence,
        streamed=True,
    ),
)
#: Where the log of each queue began.
FIRST_APPENDS = Reads(
    kind="trace",
    f=("append",),
    sieve=Sieve(
        rows=(own("trace", "append"),),
        columns=("queue", "offset"),
        keep=logs.first_appends,
        streamed=True,
    ),
)
#: Of each part of a queue the send that was acknowledged first.
FIRST_ACKNOWLEDGED = kept_of("send", keep=clients.first_acknowledged, columns=("epoch",))
#: Of each part of a queue the answers that were the first to report its end.
FIRST_ANSWERS = kept_of(*("send", "pull", "bounds"), keep=clients.first_answers, columns=("node", "epoch", "value"))
#: Of each part of a queue, and each group, the highest commit that was acknowledged.
HIGHEST_COMMITS = kept_of("commit", keep=clients.highest_commits, columns=("value",))
#: Of each part of a queue, and each group, the pull that asked for the lowest offset.
LOWEST_PULLS = kept_of("pull", keep=clients.lowest_pulls, columns=("value",))
#: Columns by which rows are distinguished and described.
BASIC = ("time_ns", "node", "value")
#: Those of operations, besides.
OPERATIONS = ("op", "type", "process", "queue", "offset")
#: Those of records, besides: what stands where, in which log.
RECORDS = ("queue", "offset", "position", "message", "hash", "epoch")
#: Those by which the rows of one node are ordered.
LIVES = ("incarnation", "step")
