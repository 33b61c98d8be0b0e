"""The promises of a run as a table that speaks: the broken first, with how often; the kept with what shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from chaos.judging.registry import registry
from chaos.verdict import RunVerdict, Validity, Verdict
from reports.run_report.headlines import of_violations

#: So many kinds of violations, and numbers, stand beside a promise.
NAMED = 4
#: What laws count, in words; other names stand as they are, with blanks.
COUNTED: Mapping[str, str] = {
    "acked": "acknowledged",
    "acknowledged": "acknowledged",
    "drained_queues": "queues read to their end",
    "duplicates_by_retry": "",
    "lost": "",
    "unclear": "of unknown outcome",
    "read": "read",
    "delivered": "delivered",
    "records_told": "records reported",
    "roles_told": "roles reported",
    "positions_told": "positions reported",
    "longest_without_ok_ms": "ms without service at most",
    "longest_tier_wait_ms": "ms until the tier went on at most",
    "longest_wait_ms": "ms until a read went on at most",
    "service_owed_ms": "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseLine:
    """One promise: its name, what it demands, and in ``words`` what was found. ``lossy``: part of that is permitted by
    the profile. ``unjudged``: parts of it that were not judged, with the reason."""

    name: str
    meaning: str
    words: Markup | str
    lossy: bool = False
    unjudged: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """All promises by how they were judged. ``idle``: by reason, which were not exercised by the workloads, or are not
    visible in what the driver reports."""

    broken: Sequence[PromiseLine]
    unknown: Sequence[PromiseLine]
    kept: Sequence[PromiseLine]
    idle: Mapping[str, Sequence[PromiseLine]]

    @property
    def idle_count(self) -> int:
        """How many were not judged at all."""
        return sum(map(len, self.idle.values()))

    @property
    def parts(self) -> list[tuple[str, str]]:
        """Parts of other promises that were not judged, each with its promise."""
        judged = [*self.broken, *self.unknown, *self.kept]
        return [(line.name, part) for line in judged for part in line.unjudged]


def promises(verdict: RunVerdict, by_policy: Mapping[str, Markup], reasons: Mapping[str, Sequence[str]]) -> Promises:
    """Return the promises of a run. ``by_policy``: what the profile permits, by law; ``reasons``: why a promise is
    UNKNOWN, beside what makes the whole run so."""
    meanings = {promise.name: promise.meaning for promise in registry().promises}
    lines: dict[Validity, list[PromiseLine]] = {validity: [] for validity in Validity}
    idle: dict[str, list[PromiseLine]] = {}
    for law in verdict.laws:
        lossy = by_policy.get(law.law)
        words = "; ".join(_words(law, reasons.get(law.law, ())))
        line = PromiseLine(
            name=law.law,
            meaning=meanings.get(law.law, "").rstrip("."),
            words=Markup("<b>{}</b>{}").format(lossy, f"; {words}" if words else "") if lossy else words,
            lossy=bool(lossy),
            unjudged=law.unjudged,
        )
        lines[law.validity].append(line)
        if law.validity is Validity.NOT_APPLICABLE:
            idle.setdefault(law.why, []).append(line)
    return Promises(
        broken=lines[Validity.INVALID], unknown=lines[Validity.UNKNOWN], kept=lines[Validity.VALID], idle=idle
    )


def _words(law: Verdict, reasons: Sequence[str]) -> Iterator[str]:
    found: dict[str, int] = {}
    for anomaly in law.anomalies:
        if not anomaly.lawful:
            found[anomaly.name] = found.get(anomaly.name, 0) + anomaly.count
    yield from (of_violations({name: number}) for name, number in list(found.items())[:NAMED])
    if len(found) > NAMED:
        yield f"and {len(found) - NAMED} more kinds"
    yield from reasons
    telling = law.counts if not found else {name: law.counts[name] for name in law.counts if name in COUNTED}
    counted = [(COUNTED.get(name, name.replace("_", " ")), number) for name, number in telling.items() if number]
    if shown := [f"{number:,} {words}" for words, number in counted if words]:
        yield ", ".join(shown[:NAMED])
