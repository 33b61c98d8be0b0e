"""The promises of a run as a table that speaks: the broken first, with how often; the kept with what shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from chaos.judging.registry import registry
from chaos.law import AnomalyKind, Promise
from chaos.verdict import RunVerdict, Validity, Verdict
from reports.run_report.headlines import of_violations

#: So many kinds of violations, and numbers, stand beside a promise.
NAMED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseLine:
    """One promise: its name, what it demands, and in ``words`` what was found. ``lossy``: part of that is permitted by
    the profile. ``unjudged``: parts of it that were not judged, with the reason. ``violations``: what breaks it, and
    ``evidence``: what it is judged from, each part by itself."""

    name: str
    meaning: str
    words: Markup | str
    lossy: bool = False
    unjudged: Sequence[str] = ()
    violations: Sequence[AnomalyKind] = ()
    evidence: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """All promises by how they were judged. ``idle``: by reason, which were not exercised by the workloads, or are not
    visible in what the driver reports; so many are ``not_exercised`` and ``not_visible``."""

    broken: Sequence[PromiseLine]
    unknown: Sequence[PromiseLine]
    kept: Sequence[PromiseLine]
    idle: Mapping[str, Sequence[PromiseLine]]
    not_exercised: int
    not_visible: int

    @property
    def idle_words(self) -> str:
        """How many were not judged at all, in words; "" for none."""
        counts = {"not exercised": self.not_exercised, "not visible": self.not_visible}
        return ", ".join(f"{count} {words}" for words, count in counts.items() if count)

    @property
    def parts(self) -> list[tuple[str, str]]:
        """Parts of other promises that were not judged, each with its promise."""
        judged = [*self.broken, *self.unknown, *self.kept]
        return [(line.name, part) for line in judged for part in line.unjudged]


def promises(verdict: RunVerdict, by_policy: Mapping[str, Markup], reasons: Mapping[str, Sequence[str]]) -> Promises:
    """Return the promises of a run. ``by_policy``: what the profile permits, by law; ``reasons``: why a promise is
    UNKNOWN, beside what makes the whole run so."""
    known = {promise.name: promise for promise in registry().promises}
    lines: dict[Validity, list[PromiseLine]] = {validity: [] for validity in Validity}
    idle: dict[str, list[PromiseLine]] = {}
    for law in verdict.laws:
        lossy = by_policy.get(law.law)
        promise = known.get(law.law, Promise(name=law.law, meaning="", anomalies=()))
        words = "; ".join(_words(law, promise.counts, reasons.get(law.law, ())))
        line = PromiseLine(
            name=law.law,
            meaning=promise.meaning.rstrip("."),
            words=Markup("<b>{}</b>{}").format(lossy, f"; {words}" if words else "") if lossy else words,
            lossy=bool(lossy),
            unjudged=law.unjudged,
            violations=[kind for kind in promise.anomalies if not kind.lawful],
            evidence=[" and ".join(some) for some in registry().evidence(law.law)],
        )
        lines[law.validity].append(line)
        if law.validity is Validity.NOT_APPLICABLE:
            idle.setdefault(law.why, []).append(line)
    return Promises(
        broken=lines[Validity.INVALID],
        unknown=lines[Validity.UNKNOWN],
        kept=lines[Validity.VALID],
        idle=idle,
        not_exercised=sum(law.is_not_exercised for law in verdict.laws),
        not_visible=sum(law.is_not_visible for law in verdict.laws),
    )


def _words(law: Verdict, counted: Mapping[str, str], reasons: Sequence[str]) -> Iterator[str]:
    found: dict[str, int] = {}
    for anomaly in law.anomalies:
        if not anomaly.lawful:
            found[anomaly.name] = found.get(anomaly.name, 0) + anomaly.count
    yield from (of_violations({name: number}) for name, number in list(found.items())[:NAMED])
    if len(found) > NAMED:
        yield f"and {len(found) - NAMED} more kinds"
    yield from reasons
    telling = law.counts if not found else {name: law.counts[name] for name in law.counts if name in counted}
    named = [(counted.get(name, name.replace("_", " ")), number) for name, number in telling.items() if number]
    if shown := [f"{number:,} {words}" for words, number in named if words]:
        yield ", ".join(shown[:NAMED])
