"""Verdicts: what was found, about which law, and on what evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Validity(StrEnum):
    """How a law or a whole run was judged."""

    VALID = "VALID"
    UNKNOWN = "UNKNOWN"
    INVALID = "INVALID"


_SEVERITY = {Validity.VALID: 0, Validity.UNKNOWN: 1, Validity.INVALID: 2}


class LawName(StrEnum):
    """The promises that are checked; ``docs/laws.md`` defines each."""

    DURABILITY = "durability"
    AGREEMENT = "agreement"
    NO_ROLLBACK = "no-rollback"
    UPLOAD_BOUND = "upload-bound"
    SINGLE_UPLOADER = "single-uploader"
    TIER_CONTINUITY = "tier-continuity"
    TIER_METADATA = "tier-metadata"
    ROLES = "roles"
    ORDER = "order"
    CONSUMERS = "consumers"
    AVAILABILITY = "availability"
    LINEARIZABLE = "linearizable"


class AnomalyName(StrEnum):
    """Everything that a law can report; ``docs/laws.md`` defines each. Names are part of the command-line contract."""

    # durability
    LOST = "lost"
    LOST_BY_POLICY = "lost-by-policy"  # counted, permitted by the profile
    RECOVERED = "recovered"  # counted: an unclear send that is there after all
    DUPLICATE_APPEND = "duplicate-append"
    REDELIVERY = "redelivery"  # counted: lawful under at-least-once
    UNEXPECTED = "unexpected"
    CORRUPT = "corrupt"
    EARLY_RETENTION = "early-retention"
    # agreement
    OFFSET_CONFLICT = "offset-conflict"
    REPLICA_DIVERGENCE = "replica-divergence"
    METADATA_CONFLICT = "metadata-conflict"
    # no rollback
    ROLLBACK = "rollback"
    CONFIRM_ROLLBACK = "confirm-rollback"
    CONFIRM_BEYOND_SET = "confirm-beyond-set"
    MAX_OFFSET_REGRESSION = "max-offset-regression"
    # tier
    UPLOAD_BEYOND_CONFIRM = "upload-beyond-confirm"
    TIER_LOG_MISMATCH = "tier-log-mismatch"
    TIER_OFFSET_REGRESSION = "tier-offset-regression"
    MANIFEST_EPOCH_REGRESSION = "manifest-epoch-regression"
    STALE_UPLOADER = "stale-uploader"
    FOREIGN_DELETE = "foreign-delete"
    TIER_GAP = "tier-gap"
    TIER_OVERLAP = "tier-overlap"
    TIER_MISSING_OBJECT = "tier-missing-object"
    TIER_READ_MISMATCH = "tier-read-mismatch"
    METADATA_DIVERGENCE = "metadata-divergence"
    # roles
    TWO_MASTERS = "two-masters"
    EPOCH_REGRESSION = "epoch-regression"
    ELECTION_OUTSIDE_SET = "election-outside-set"
    STALE_ROUTE = "stale-route"
    # order
    REORDER = "reorder"
    PRODUCER_REORDER = "producer-reorder"
    CONSUMER_REORDER = "consumer-reorder"
    # consumers
    COMMIT_REGRESSION = "commit-regression"
    COMMIT_BEYOND_END = "commit-beyond-end"
    DOUBLE_OWNER = "double-owner"
    SKIPPED = "skipped"
    # availability
    UNAVAILABLE = "unavailable"
    NOT_RECOVERED = "not-recovered"
    # linearizable
    NOT_LINEARIZABLE = "not-linearizable"


#: Counted and shown, but no violation.
LAWFUL = frozenset({AnomalyName.LOST_BY_POLICY, AnomalyName.RECOVERED, AnomalyName.REDELIVERY})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadEnd:
    """An order of operations that explains what clients saw only so far. Operations are named by the ``index`` of the
    row of their invocation. ``states`` are those after the last ``len(states)`` of ``order``; ``illegal`` pairs each
    operation that can't come next with the reason. ``alone``: the anomaly's own rows are all that was to be ordered."""

    order: tuple[int, ...]
    states: tuple[str, ...] = ()
    state: str = ""
    illegal: tuple[tuple[int, str], ...] = ()
    alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """One finding. ``rows`` are the ``index`` values of the history rows behind it, in the order of the story;
    ``explanation`` is a sentence for a person who has not read the code. ``count`` > 1 stands for that many findings of
    the same kind, of which this one is the first (so that a run with a million losses stays readable).
    ``dead_ends`` are the longest orders of the operations that are lawful, for laws that search for one."""

    law: LawName
    name: AnomalyName
    explanation: str
    rows: tuple[int, ...] = ()
    queue: int = -1
    offset: int = -1
    message: int = -1
    count: int = 1
    dead_ends: tuple[DeadEnd, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one law says of one run. ``why`` is filled in when it is UNKNOWN; ``counts`` are the law's own evidence
    (how many acknowledged writes, reads, manifests it saw)."""

    law: LawName
    validity: Validity
    anomalies: tuple[Anomaly, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    why: str = ""


def worst(validities: Iterable[Validity]) -> Validity:
    """INVALID beats UNKNOWN beats VALID; nothing at all is UNKNOWN."""
    found = list(validities)
    return max(found, key=_SEVERITY.__getitem__) if found else Validity.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdict:
    """All laws together, for one run; becomes ``verdict.json``."""

    run: str
    seed: int
    validity: Validity
    laws: Sequence[Verdict]
    digest: str
    engine: str
    seconds: float
    skipped_faults: Sequence[str] = ()
    why: Sequence[str] = ()

    def anomaly_counts(self) -> dict[str, int]:
        """Violations (not the lawful findings) by name."""
        totals: dict[str, int] = {}
        for law in self.laws:
            for anomaly in law.anomalies:
                if anomaly.name not in LAWFUL:
                    totals[anomaly.name] = totals.get(anomaly.name, 0) + anomaly.count
        return dict(sorted(totals.items()))
