"""Verdicts: what was found, about which law, and on what evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from chaos.moments import Moments


class Validity(StrEnum):
    """How a law or a whole run was judged."""

    VALID = "VALID"
    UNKNOWN = "UNKNOWN"
    INVALID = "INVALID"
    NOT_APPLICABLE = "NOT APPLICABLE"  # nobody said that there would be evidence, or nothing was done that it is about


class Engine(StrEnum):
    """Where the laws run."""

    SPARK = "spark"
    LOCAL = "local"


#: How the names of the kinds end that a profile permits.
BY_POLICY = "-by-policy"
#: So many reasons for permitted losses are named in a verdict's line.
REASONS = 3
_SEVERITY = {Validity.VALID: 0, Validity.UNKNOWN: 1, Validity.INVALID: 2}


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
class Order:
    """One thing that came before another one, as the names of both. ``kind``: in which respect, as words that stand on
    an arrow between them; ``shown``: what shows it, "" where ``kind`` says that."""

    before: str
    after: str
    kind: str
    shown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """One finding. ``rows`` are the ``index`` values of the history rows behind it, in the order of the story;
    ``explanation`` is a sentence for a person who has not read the code. ``count`` > 1 stands for that many findings of
    the same kind, of which this one is the first (so that a run with a million losses stays readable).
    ``dead_ends`` are the longest orders of the operations that are allowed, for laws that search for one. ``cycle``
    are orders that can't all be true, as each begins where the one before ends, and the first where the last ends.
    ``lawful``: it is counted and shown, but no violation, as the law has declared of this name. ``by_policy``:
    likewise, because the profile permits it. ``policy`` says then which setting permits it and at what, as words that
    follow "as": "`flush: async` allows at the power cut of 12.0 s"; "" where the profile alone is known to permit it.
    ``waived``: it is lawful because the experiment waives it, for this reason."""

    law: str
    name: str
    explanation: str
    rows: tuple[int, ...] = ()
    queue: int = -1
    offset: int = -1
    message: int = -1
    count: int = 1
    dead_ends: tuple[DeadEnd, ...] = ()
    cycle: tuple[Order, ...] = ()
    lawful: bool = False
    by_policy: bool = False
    policy: str = ""
    waived: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waived:
    """How many violations of one kind the experiment waives, for which reason and within which bound; ``beyond``: how
    many the waiver does not cover, which stay violations."""

    anomaly: str
    reason: str
    bound: str
    count: int
    beyond: int = 0

    @property
    def words(self) -> str:
        """``3 × stale-maximum waived (at most 5): REASON``."""
        waived = f"{self.count:,} × {self.anomaly} waived ({self.bound}): {self.reason}" if self.count else ""
        beyond = f"{self.beyond:,} × {self.anomaly} not covered by its waiver ({self.bound})" if self.beyond else ""
        return "; ".join(filter(None, (waived, beyond)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Permitted:
    """What a law found so many times of one kind and that the profile permits for one reason; ``policy`` as in
    :class:`Anomaly`, never ""."""

    law: str
    name: str
    policy: str
    count: int

    @property
    def words(self) -> str:
        """``12 lost, as `flush: async` allows at the power cut of 12.0 s``."""
        what = self.name.removesuffix(BY_POLICY)
        return f"{self.count:,} {'× ' if '-' in what else ''}{what}, as {self.policy}"


#: How the reason begins why a law can't judge, before the evidence that it needs.
UNREPORTED = "the driver does not report "


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one law says of one run. ``why`` is filled in when it is UNKNOWN or NOT APPLICABLE; ``counts`` are its own
    evidence (how many acknowledged writes, reads, manifests it saw). ``unjudged`` are the parts of the law, each with
    the reason, that were not judged although others of it were. ``moments``: when the anomalies of a name were
    done, where there are many, and that is known of them."""

    law: str
    validity: Validity
    anomalies: tuple[Anomaly, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    why: str = ""
    unjudged: tuple[str, ...] = ()
    moments: Mapping[str, Moments] = field(default_factory=dict)

    @property
    def is_not_exercised(self) -> bool:
        """Whether the workloads gave it nothing to judge, although it would have been visible."""
        return self.validity is Validity.NOT_APPLICABLE and not self.is_not_visible

    @property
    def is_not_visible(self) -> bool:
        """Whether it needs evidence that the driver does not report."""
        return self.validity is Validity.NOT_APPLICABLE and all(
            why.startswith(UNREPORTED) for why in self.why.split("; ")
        )


def worst(validities: Iterable[Validity]) -> Validity:
    """INVALID beats UNKNOWN beats VALID. What is NOT APPLICABLE doesn't count; nothing else, or nothing at all, is
    UNKNOWN."""
    found = [validity for validity in validities if validity is not Validity.NOT_APPLICABLE]
    return max(found, key=_SEVERITY.__getitem__) if found else Validity.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownReason:
    """One reason why a run can't be VALID, whatever its laws found. ``text`` is a clause as it is recorded; ``title``
    says it as the title of a page, "" where the clause does; ``advice``: what would give evidence, "" where that is not
    known. ``detailed``: the text says more than the title."""

    text: str
    title: str = ""
    advice: str = ""
    detailed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdict:
    """All laws together, for one run; becomes ``verdict.json``. ``why`` has all reasons for which it is not VALID or
    INVALID, those of laws behind their names; ``reasons`` are those of the whole run, the most telling first (an older
    ``verdict.json`` has none). ``not_judged`` names the laws, and parts of laws, that
    nobody judged, each with the reason. ``reached``: how often the run came to each goal of its experiment, 0 for
    never; ``not_reached`` names those goals, with the reason where nobody could look. ``permitted``: what the profile
    permits, the most frequent first; with ``no_loss_by_policy`` it was held against the run all the same. ``waived``:
    what the experiment waives, or would if there were less of it. ``other_results``: what other tools say of the
    history, by their names; they decide nothing."""

    run: str
    seed: int
    validity: Validity
    laws: Sequence[Verdict]
    digest: str
    engine: str
    seconds: float
    skipped_faults: Sequence[str] = ()
    why: Sequence[str] = ()
    not_judged: Sequence[str] = ()
    reached: Mapping[str, int] = field(default_factory=dict)
    not_reached: Sequence[str] = ()
    permitted: Sequence[Permitted] = ()
    no_loss_by_policy: bool = False
    waived: Sequence[Waived] = ()
    reasons: Sequence[UnknownReason] = ()
    other_results: Mapping[str, Any] = field(default_factory=dict)

    @property
    def findings(self) -> list[Anomaly]:
        """Everything that was found, in the order of the laws."""
        return [anomaly for law in self.laws for anomaly in law.anomalies]

    @property
    def violations(self) -> list[Anomaly]:
        """What is held against the run, in the same order; a command names each by its number from 1 on."""
        return [anomaly for anomaly in self.findings if not anomaly.lawful]

    @property
    def line(self) -> str:
        """The verdict in one line, with what was lost although the profile permits it: no loss hides behind a green
        word."""
        return "; ".join((str(self.validity), *self.qualifiers))

    @property
    def qualifiers(self) -> list[str]:
        """What has to be said with the verdict: what was lost by policy, and what is waived."""
        return [*self.lost_by_policy, *(one.words for one in self.waived)]

    @property
    def lost_by_policy(self) -> list[str]:
        """The first reasons for permitted losses, and how many losses there are for others."""
        named = [one.words for one in self.permitted[:REASONS]]
        if rest := self.permitted[REASONS:]:
            reasons = "another reason" if len(rest) == 1 else f"{len(rest)} other reasons"
            named.append(f"and {sum(one.count for one in rest):,} more for {reasons}")
        return [*named, *(["--no-loss-by-policy forbids it"] if named and self.no_loss_by_policy else [])]

    def anomaly_counts(self) -> dict[str, int]:
        """Return how many violations (findings that are not allowed) there are, by name."""
        totals: dict[str, int] = {}
        for anomaly in self.violations:
            totals[anomaly.name] = totals.get(anomaly.name, 0) + anomaly.count
        return dict(sorted(totals.items()))
