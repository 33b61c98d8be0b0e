"""Has laws look at the rows of shards, and judges by what they found in all of them."""

from __future__ import annotations

import dataclasses
import gc
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import reduce
from itertools import count
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from chaos.errors import ChaosError
from chaos.findings import cap
from chaos.judging import plan
from chaos.judging.class_archive import build_archive
from chaos.judging.declared import Declared
from chaos.judging.plan import WHOLE
from chaos.judging.registry import KernelId, Registry, registry
from chaos.judging.shard import Shard, seen_by
from chaos.judging.spark import Session
from chaos.judging.spark_errors import JobFailed, sentence
from chaos.judging.spark_job import OnProgress
from chaos.kernel import Kernel
from chaos.law import Partial, Promise, RunContext
from chaos.verdict import Anomaly, Validity, Verdict, worst

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


T = TypeVar("T")
R = TypeVar("R")

#: How the reason begins why a kernel can't judge, before the evidence that it needs.
LACKS = "the driver does not report "
#: A job that fails is tried again in parts until so many jobs have failed: each of them takes its time.
MOST_FAILED_JOBS = 32


#: The findings in one shard: a kernel, and its partial.
Examined = list[tuple[KernelId, Partial]]


def examine_whole(table: pa.Table, context: RunContext) -> Examined:
    """All that the laws find in the rows of a small run, which are one shard, in this process."""
    try:
        return examine_shard(WHOLE, Shard(seen_by(context, table)), context)
    except MemoryError:
        return gaps(WHOLE, context, "there was no memory left to look at its rows")


def in_halves(
    tasks: Sequence[T],
    examine: Callable[[Sequence[T]], list[R]],
    all_gaps: Callable[[Sequence[T], str], list[R]],
) -> list[R]:
    """Return what ``examine`` finds with tasks, in one job. A job that fails as a whole (a worker that is killed each
    time, say) has examined nothing: no law may look kept.

    Its tasks are tried again in two halves, down to the ones that fail, so that a shard that is too large for the
    workers leaves its own laws undecided and no others (``all_gaps``); but not for ever.
    """
    failed, lost = count(1), ""

    def tried(part: Sequence[T]) -> list[R]:
        nonlocal lost
        try:
            if not lost:
                return examine(part)
            reason, again = lost, False
        except ChaosError:
            raise
        except Exception as error:
            reason = f"the Spark job failed: {sentence(error)}"
            lost = reason if isinstance(error, JobFailed) and error.lost else ""
            again = not lost and len(part) > 1 and next(failed) < MOST_FAILED_JOBS
        if not again:
            return all_gaps(part, reason)
        half = len(part) // 2
        return [*tried(part[:half]), *tried(part[half:])]

    return tried(tasks)


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
    tables: Iterable[tuple[str, pa.Table]], context: RunContext, known: Registry | None = None
) -> tuple[Verdict, ...]:
    """Judge one run whose shards, (name, rows), are in memory; by these laws, or by all that there are."""
    found: Examined = []
    for name, table in tables:
        found += examine_shard(name, Shard(table), context, known)
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
    try:
        with _no_collection():
            return _sane(law.examine(Declared(rows, law.needs), context), law.promise)
    except MemoryError:
        return Partial(gaps=("a worker ran out of memory when it examined a shard",))
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        return Partial(gaps=(f"the check crashed: {type(error).__name__}: {error} ({place})",))


def _sane(partial: Partial, promise: Promise) -> Partial:
    """Return a kernel's answer with plain values only, so that it can be joined and written. Raises whatever it takes
    when it is none."""
    if not isinstance(partial, Partial):
        raise TypeError(f"examine() of the law {promise.name} gave {type(partial).__name__}, not a Partial")
    return Partial(
        counts={str(name): int(number) for name, number in partial.counts.items()},
        anomalies=tuple(_sane_anomaly(anomaly, promise) for anomaly in partial.anomalies),
        facts=tuple(partial.facts),
        gaps=tuple(map(str, partial.gaps)),
        not_owed=None if partial.not_owed is None else str(partial.not_owed),
    )


def _sane_anomaly(anomaly: Anomaly, promise: Promise) -> Anomaly:
    """Return an anomaly with plain values only. Raises ``ValueError`` for one under the name of another law, or that
    its own has not declared."""
    if anomaly.law != promise.name:
        raise ValueError(f"the law {promise.name} reports an anomaly of {anomaly.law!r}")
    kind = promise.find(anomaly.name)
    return dataclasses.replace(
        anomaly,
        name=str(anomaly.name),
        explanation=str(anomaly.explanation),
        rows=tuple(map(int, anomaly.rows)),
        queue=int(anomaly.queue),
        offset=int(anomaly.offset),
        message=int(anomaly.message),
        count=int(anomaly.count),
        lawful=kind.lawful,
        by_policy=kind.by_policy,
        policy=str(anomaly.policy) if kind.by_policy else "",
    )


def verdicts(context: RunContext, found: Examined, known: Registry | None = None) -> tuple[Verdict, ...]:
    """Judge each kernel, join the verdicts of those that share a law (their rows live in different shards), and say of
    each broken plug-in that its law is UNKNOWN. In the order in which verdicts list the laws."""
    known = known or registry()
    partials: dict[KernelId, list[Partial]] = {}
    for number, partial in found:
        partials.setdefault(number, []).append(partial)
    judgements = []
    for promise in known.promises:
        judged = [
            _judged(number, known, _to_judge(number, known, partials), context) for number in known.of(promise.name)
        ]
        judgements.append(_join(promise, judged, context))
    for name, error in sorted(known.broken.items()):
        judgements.append(Verdict(law=name, validity=Validity.UNKNOWN, why=f"the plug-in {name!r} is broken: {error}"))
    return tuple(judgements)


def _to_judge(number: KernelId, known: Registry, partials: Mapping[KernelId, Sequence[Partial]]) -> Sequence[Partial]:
    """Return what a kernel is to judge: its own partials, and the facts and gaps of the kernel that it joins."""
    own, joins = partials.get(number, []), known.kernels[number].needs.joins
    if not own or not joins:
        return own
    others = [one for one in known.of(known.kernels[number].promise.name) if known.kernels[one].needs.part == joins]
    joined = [partial for other in others for partial in partials.get(other, [])]
    if not joined:
        return [*own, Partial(gaps=(f"nothing reports {joins}",))]
    return [*own, *(Partial(facts=partial.facts, gaps=partial.gaps) for partial in joined)]


def _judged(number: KernelId, known: Registry, partials: Sequence[Partial], context: RunContext) -> Verdict:
    """Return what one kernel says of a run. ``unjudged`` names its part of the law when it says nothing."""
    law = known.kernels[number]
    lacks = _lacks(law, context.evidence)
    if lacks:
        why = f"{LACKS}{', '.join(lacks)}"
        verdict = Verdict(law=law.promise.name, validity=Validity.NOT_APPLICABLE, why=why)
    elif not partials:
        verdict = Verdict(law=law.promise.name, validity=Validity.UNKNOWN, why="no rows to judge")
    else:
        merged = reduce(Partial.merge, partials)
        try:
            verdict = _sane_verdict(law.judge(merged, context), law.promise)
            if merged.gaps and verdict.validity is not Validity.INVALID:  # whatever the law makes of its own gaps
                why = "; ".join(sorted(merged.gaps)) if verdict.validity is not Validity.UNKNOWN else verdict.why
                verdict = dataclasses.replace(verdict, validity=Validity.UNKNOWN, why=why)
        except Exception as error:
            why = "; ".join((*merged.gaps, f"the judgement crashed: {type(error).__name__}: {error}"))
            verdict = Verdict(law=law.promise.name, validity=Validity.UNKNOWN, why=why)
    if verdict.validity is Validity.NOT_APPLICABLE:
        part = f"{law.needs.part} ({verdict.why})" if law.needs.part else verdict.why
        verdict = dataclasses.replace(verdict, unjudged=(part,))
    return verdict


def _sane_verdict(verdict: Verdict, promise: Promise) -> Verdict:
    """Return a judgement with plain values only. Raises whatever it takes when it is nonsense: no verdict, one of
    another law, or one that contradicts its own findings."""
    if not isinstance(verdict, Verdict) or verdict.law != promise.name:
        raise TypeError(f"judge() of the law {promise.name} gave {verdict!r:.200}")
    anomalies = tuple(_sane_anomaly(anomaly, promise) for anomaly in verdict.anomalies)
    validity = Validity(verdict.validity)
    if validity is not Validity.INVALID and any(not anomaly.lawful for anomaly in anomalies):
        raise ValueError(f"the law {promise.name} is called {validity} although it found violations")
    return Verdict(
        law=promise.name,
        validity=validity,
        anomalies=anomalies,
        counts={str(name): int(number) for name, number in verdict.counts.items()},
        why=str(verdict.why),
    )


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
    return Verdict(
        law=promise.name,
        validity=validity,
        anomalies=cap(promise, (one for number, verdict in enumerate(verdicts) for one in _of_kernel(verdict, number))),
        counts=dict(sorted(counts.items())),
        why="; ".join(dict.fromkeys(filter(None, why))),
        unjudged=unjudged,
    )


def _least(whys: Sequence[str]) -> list[str]:
    """Why no kernel of a law judged: of missing evidence, what would be enough for one of them."""
    lacks = {why: set(why.removeprefix(LACKS).split(", ")) for why in whys if why.startswith(LACKS)}
    return [why for why in whys if why not in lacks or not any(other < lacks[why] for other in lacks.values())]


def _of_kernel(verdict: Verdict, number: int) -> Iterable[Anomaly]:
    """Return what one of a law's kernels found. What several of them only count is not the same, though it may be as
    many."""
    return (one if one.rows else dataclasses.replace(one, message=number) for one in verdict.anomalies)
