"""The title of a run: what happened, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.judging.registry import registry
from chaos.law import AnomalyKind
from chaos.verdict import RunVerdict, Validity
from reports.run_report.diagnosis import diagnosis
from reports.run_report.story import numbered
from reports.summary import OBJECT_LABELS, Story

#: How a title begins where no law that was kept says more.
ALL_KEPT = "Every promise that was checked was kept"


def headline(verdict: RunVerdict, story: Story) -> str:
    """Return what happened, without a full stop."""
    if verdict.validity is Validity.INVALID:
        return of_violations(verdict.anomaly_counts())
    if verdict.validity is Validity.VALID:
        return _survived(verdict, story)
    return diagnosis(verdict).title


def of_violations(counts: Mapping[str, int]) -> str:
    """Return the sentence of the worst of these kinds of violations, which occurred so often."""
    name = worst(counts)
    number = counts.get(name, 0)
    kind = _kinds().get(name)
    one, *many = kind.headline if kind and kind.headline else (_meaning(name, kind),)
    if number <= 1:
        return one
    return many[0].format(n=f"{number:,}") if many else f"{one}, {number:,} times"


def worst(names: Mapping[str, int]) -> str:
    """Return the kind that a title is about; "" of none. One that no law here declares comes last."""
    ranks = {name: place for place, name in enumerate(_kinds())}
    return min(names, key=lambda name: ranks.get(name, len(ranks)), default="")


def _kinds() -> Mapping[str, AnomalyKind]:
    """Return all kinds that laws declare, those that harm most first, and then as verdicts list the laws."""
    known = [kind for promise in registry().promises for kind in promise.anomalies]
    found: dict[str, AnomalyKind] = {}
    for kind in sorted(known, key=lambda kind: kind.harm):
        found.setdefault(kind.name, kind)
    return found


def _meaning(name: str, kind: AnomalyKind | None) -> str:
    """Return what a law declares of a kind, as a sentence begins; the name itself of one that no law here declares."""
    text = kind.meaning if kind else f"A promise was broken: {name or 'it is not recorded which'}"
    return text[:1].upper() + text[1:].rstrip(".")


def _kept(verdict: RunVerdict) -> str:
    """Return how the title of a VALID run begins."""
    kept = {law.law for law in verdict.laws if law.validity is Validity.VALID}
    said = (promise.kept for promise in registry().promises if promise.name in kept and promise.kept)
    return next(said, ALL_KEPT)


def _survived(verdict: RunVerdict, story: Story) -> str:
    counts = story.counts
    faults, masters = counts.get("effective faults", 0), counts.get("master terms", 0)
    through = [numbered(faults, "fault"), *([numbered(masters, "master")] if masters else [])]
    lost = sum(one.count for one in verdict.permitted)
    begin = _kept(verdict)
    if "acknowledged writes" in counts:
        what = numbered(counts["acknowledged writes"], "acknowledged write")
    else:
        what = numbered(sum(counts.get(name, 0) for name in OBJECT_LABELS.values()), "answered call")
    if lost:
        begin = f"{lost:,} lost, as the profile permits"
    return f"{begin}: {what} {'went through' if lost else 'survived'} {' and '.join(through)}"
