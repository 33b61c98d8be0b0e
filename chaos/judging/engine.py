"""Has laws look at the rows of shards, and judges by what they found in all of them."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import reduce

import pyarrow as pa

from chaos.driver import ONLY_IMPORTED
from chaos.findings import cap
from chaos.history.memory import give_back
from chaos.judging import plan
from chaos.judging.class_archive import build_archive
from chaos.judging.declared import Declared
from chaos.judging.law_answers import Examined, partial_of, sane_verdict
from chaos.judging.plan import WHOLE
from chaos.judging.registry import KernelId, Registry, registry
from chaos.judging.settling import settled
from chaos.judging.shard import Shard, seen_by
from chaos.judging.spark import Session
from chaos.judging.spark_job import OnProgress
from chaos.kernel import Kernel
from chaos.law import Partial, Promise, RunContext
from chaos.merged_moments import together
from chaos.moments import Moments
from chaos.verdict import UNREPORTED, Anomaly, Validity, Verdict, worst

__all__ = [
    "Examined",
    "OnProgress",
    "Session",
    "build_archive",
    "examine_shard",
    "examine_whole",
    "judge_rows",
    "registry",
    "verdicts",
]


#: What kernels leave behind of a shard with more rows is given back after each.
LARGE = 500_000


def examine_whole(table: pa.Table, context: RunContext) -> Examined:
    """All that the laws find in the rows of a small run, which are one shard, in this process."""
    try:
        return examine_shard(WHOLE, Shard(seen_by(context, table)), context)
    except MemoryError:
        return gaps(WHOLE, context, "there was no memory left to look at its rows")


def _serving(shard: str, kernels: Mapping[KernelId, Kernel], context: RunContext) -> list[KernelId]:
    """Return the kernels that look at a shard of this name: those whose evidence the driver reports. All of them are
    owed a shard that is in no plan, so that nobody takes it for judged."""
    served = plan.served(shard, kernels)
    reported = context.evidence
    return [number for number in (kernels if served is None else served) if not _lacks(kernels[number], reported)]


def _lacks(law: Kernel, reported: Set[str]) -> list[str]:
    """Return the evidence that a kernel needs and that nobody said there would be."""
    return sorted({str(one) for one in law.needs.evidence if one not in reported})


def gaps(shard: str, context: RunContext, reason: str, known: Registry | None = None) -> Examined:
    """Return what is found in a shard that could not be examined, for this reason: nothing, of every law that looks at
    it."""
    kernels = (known or registry()).kernels
    return [(number, Partial(gaps=(reason,))) for number in _serving(shard, kernels, context)]


def complete(shard: str, context: RunContext, found: Examined, known: Registry | None = None) -> Examined:
    """Return what was found in a shard, with a gap for each kernel of this process that another process did not
    have."""
    there = {number for number, _ in found}
    missing = gaps(shard, context, f"it was not examined in the shard {shard}", known)
    return [*found, *((number, partial) for number, partial in missing if number not in there)]


def judge_rows(
    shards: Iterable[tuple[str, pa.Table | Shard]], context: RunContext, known: Registry | None = None
) -> tuple[Verdict, ...]:
    """Judge one run whose shards, (name, rows), are in memory; by these laws, or by all that there are."""
    found: Examined = []
    for name, rows in shards:
        found += examine_shard(name, rows if isinstance(rows, Shard) else Shard(rows), context, known)
    return verdicts(context, found, known)


def examine_shard(name: str, rows: Shard, context: RunContext, known: Registry | None = None) -> Examined:
    """Run the kernels that look at the shard of this name. One that crashes leaves a gap in its law's evidence."""
    kernels = (known or registry()).kernels
    if plan.served(name, kernels) is None:
        reason = f"the shard {name} is in no plan"
        return [(number, Partial(gaps=(reason,))) for number in _serving(name, kernels, context)]
    return [(number, _examined(kernels[number], rows, context)) for number in _serving(name, kernels, context)]


@contextmanager
def _no_collection() -> Iterator[None]:
    """Leave garbage in circles alone meanwhile: kernels make many small objects and hardly any of it, and looking for
    it takes a tenth of their time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _examined(law: Kernel, rows: Shard, context: RunContext) -> Partial:
    if len(rows) > LARGE:
        give_back()  # what the kernel before has left
    with _no_collection():
        return partial_of(law.promise, lambda: law.examine(Declared(rows, law.needs), context))


def verdicts(context: RunContext, found: Examined, known: Registry | None = None) -> tuple[Verdict, ...]:
    """Judge each kernel, join the verdicts of those that share a law (their rows live in different shards), and say of
    each broken plug-in that its law is UNKNOWN. In the order in which verdicts list the laws. What laws have deferred
    is settled first, in this process."""
    known = known or registry()
    partials: dict[KernelId, list[Partial]] = {}
    for number, partial in settled(found, known):
        partials.setdefault(number, []).append(partial)
    judgements = []
    for promise in known.promises:
        asked = _asked(known.of(promise.name), known, context)
        judged = [_judged(number, known, _to_judge(number, known, partials), context) for number in asked]
        judgements.append(_join(promise, judged, context))
    for name, error in sorted(known.broken.items()):
        judgements.append(Verdict(law=name, validity=Validity.UNKNOWN, why=f"the plug-in {name!r} is broken: {error}"))
    return tuple(judgements)


def _asked(numbers: Sequence[KernelId], known: Registry, context: RunContext) -> Sequence[KernelId]:
    """Return those of the kernels of one law about which a verdict of this run has something to say. Of a run of ours
    nobody expects what only imported ones have; a law that is about nothing else says so."""
    lacked = {number: _lacks(known.kernels[number], context.evidence) for number in numbers}
    return [number for number in numbers if ONLY_IMPORTED.isdisjoint(lacked[number])] or numbers


def _to_judge(number: KernelId, known: Registry, partials: Mapping[KernelId, Sequence[Partial]]) -> Sequence[Partial]:
    """Return what a kernel is to judge: its own partials, and the facts and gaps of the kernels that it joins."""
    own, law = [*partials.get(number, [])], known.kernels[number]
    for joins in law.needs.joins if own else ():
        others = [one for one in known.of(law.promise.name) if known.kernels[one].needs.part == joins]
        joined = [partial for other in others for partial in partials.get(other, [])]
        own += [Partial(facts=partial.facts, gaps=partial.gaps) for partial in joined]
        own += [] if joined else [Partial(gaps=(f"nothing reports {joins}",))]
    return own


def _judged(number: KernelId, known: Registry, partials: Sequence[Partial], context: RunContext) -> Verdict:
    """Return what one kernel says of a run. ``unjudged`` names its part of the law when it says nothing."""
    law = known.kernels[number]
    lacks = _lacks(law, context.evidence)
    if lacks:
        why = f"{UNREPORTED}{', '.join(lacks)}"
        verdict = Verdict(law=law.promise.name, validity=Validity.NOT_APPLICABLE, why=why)
    elif not partials:
        verdict = Verdict(law=law.promise.name, validity=Validity.UNKNOWN, why="no rows to judge")
    else:
        merged = reduce(Partial.merge, partials)
        try:
            verdict = sane_verdict(law.judge(merged, context), law.promise)
            if merged.gaps:  # whatever the law makes of its own gaps; an INVALID one may be waived
                is_invalid, is_unknown = (verdict.validity is one for one in (Validity.INVALID, Validity.UNKNOWN))
                why = verdict.why if is_unknown else "; ".join(sorted(merged.gaps))
                validity = Validity.INVALID if is_invalid else Validity.UNKNOWN
                verdict = dataclasses.replace(verdict, validity=validity, why=why)
        except Exception as error:
            why = "; ".join((*merged.gaps, f"the judgement crashed: {type(error).__name__}: {error}"))
            verdict = Verdict(law=law.promise.name, validity=Validity.UNKNOWN, why=why)
    if verdict.validity is Validity.NOT_APPLICABLE:
        part = f"{law.needs.part} ({verdict.why})" if law.needs.part else verdict.why
        verdict = dataclasses.replace(verdict, unjudged=(part,))
    return verdict


def _join(promise: Promise, verdicts: Sequence[Verdict], context: RunContext) -> Verdict:
    """One law's verdict: of those of its kernels that judged at all, the worst."""
    counts: dict[str, int] = {}
    for verdict in verdicts:
        for name, number in verdict.counts.items():
            counts[name] = counts.get(name, 0) + number
    unjudged = tuple(dict.fromkeys(reason for verdict in verdicts for reason in verdict.unjudged))
    judged = [verdict for verdict in verdicts if verdict.validity is not Validity.NOT_APPLICABLE]
    if not judged:
        validity, why, unjudged = Validity.NOT_APPLICABLE, _least([verdict.why for verdict in verdicts]), ()
    else:
        validity, why = worst(verdict.validity for verdict in judged), [verdict.why for verdict in judged]
        if context.damage:  # what was found may come of it
            validity, why = Validity.UNKNOWN, [*context.damage, *why]
    anomalies = cap(promise, (one for number, verdict in enumerate(verdicts) for one in _of_kernel(verdict, number)))
    moments = reduce(together, (verdict.moments for verdict in verdicts))
    return Verdict(
        law=promise.name,
        validity=validity,
        anomalies=anomalies,
        counts=dict(sorted(counts.items())),
        why="; ".join(dict.fromkeys(filter(None, why))),
        unjudged=unjudged,
        moments={one.name: moments[one.name] for one in anomalies if _is_drawn(one, moments)},
    )


def _is_drawn(anomaly: Anomaly, moments: Mapping[str, Moments]) -> bool:
    """Return whether an anomaly stands for many, of which it is known when some were done."""
    return not anomaly.rows and anomaly.name in moments and bool(moments[anomaly.name].places)


def _least(whys: Sequence[str]) -> list[str]:
    """Why no kernel of a law judged: of missing evidence, what would be enough for one of them."""
    lacks = {why: set(why.removeprefix(UNREPORTED).split(", ")) for why in whys if why.startswith(UNREPORTED)}
    return [why for why in whys if why not in lacks or not any(other < lacks[why] for other in lacks.values())]


def _of_kernel(verdict: Verdict, number: int) -> Iterable[Anomaly]:
    """Return what one of a law's kernels found. What several of them only count is not the same, though it may be as
    many."""
    return (one if one.rows else dataclasses.replace(one, message=number) for one in verdict.anomalies)
