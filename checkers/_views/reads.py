"""What laws declare to read, by what they need it for. The rows of a shard's own queues, unless it says otherwise."""

from __future__ import annotations

from chaos.law import Reads, Sieve
from checkers._views import confirms


def own(kind: str, *f: str) -> Reads:
    return Reads(kind=kind, f=f)


def everywhere(kind: str, *f: str) -> Reads:
    """Rows that every shard needs, whatever their queue."""
    return Reads(kind=kind, f=f, everywhere=True)


def beside(kind: str, *f: str) -> Reads:
    """The operations that delivered what a shard holds, wherever else they stand."""
    return Reads(kind=kind, f=f, beside=True)


def sifted(sieve: Sieve) -> Reads:
    """Confirm offsets that every shard needs."""
    return Reads(kind="trace", f=("confirm",), everywhere=True, sieve=sieve)


#: Phases, and when the run began: every explanation tells a time.
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
            columns=("node", "incarnation", "step", "position"),
            keep=confirms.highest,
        )
    ),
)
#: What a node had confirmed when it sent a manifest.
CONFIRMED_BY_COMMIT = (
    own("trace", "tier_commit"),
    everywhere("trace", "recovered", "bootstrap"),
    sifted(
        Sieve(
            rows=(own("trace", "confirm", "tier_commit"),),
            columns=("node", "incarnation", "step"),
            keep=confirms.before_commits,
        )
    ),
)
#: What was lawfully removed.
RETENTION = (
    own("trace", "store_cas", "tier_commit"),
    everywhere("trace", "retention", "start", "recovered", "role"),
)
#: When service was owed, and to whom.
SERVICE = (own("op", "send"), everywhere("trace", "applied", "set"), RUN, FAULTS, *REPLICAS)
#: Columns by which rows are told apart and told of.
BASIC = ("time_ns", "node", "value")
#: Those of operations, besides.
OPERATIONS = ("op", "type", "process", "queue", "offset")
#: Those of records, besides: what stands where, in which log.
RECORDS = ("queue", "offset", "position", "message", "hash", "epoch")
#: Those by which the rows of one node are ordered.
LIVES = ("incarnation", "step")
