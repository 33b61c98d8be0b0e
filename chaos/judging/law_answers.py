"""What laws answer, as plain values, whatever they are: one that crashes leaves a gap, and nonsense is none."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

from chaos.judging.registry import KernelId
from chaos.law import Deferred, Partial, Promise
from chaos.moments import Moments
from chaos.verdict import Anomaly, Validity, Verdict

#: What was found in some shards: a kernel, and its partial.
Examined = list[tuple[KernelId, Partial]]


def partial_of(promise: Promise, find: Callable[[], Partial], what: str = "examined a shard") -> Partial:
    """Return what a kernel finds. One that crashes, or for which there is no memory when it does ``what``, leaves a gap
    in its law's evidence."""
    try:
        return _sane(find(), promise)
    except MemoryError:
        return Partial(gaps=(f"a worker ran out of memory when it {what}",))
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        return Partial(gaps=(f"the check crashed: {type(error).__name__}: {error} ({place})",))


def _sane(partial: Partial, promise: Promise) -> Partial:
    """Return a kernel's answer with plain values only, so that it can be joined and written. Raises whatever it takes
    when it is none."""
    if not isinstance(partial, Partial):
        raise TypeError(f"the law {promise.name} found {type(partial).__name__}, not a Partial")
    return Partial(
        counts={str(name): int(number) for name, number in partial.counts.items()},
        anomalies=tuple(_sane_anomaly(anomaly, promise) for anomaly in partial.anomalies),
        facts=tuple(partial.facts),
        gaps=tuple(map(str, partial.gaps)),
        not_owed=None if partial.not_owed is None else str(partial.not_owed),
        deferred=tuple(Deferred(about=str(one.about), given=one.given) for one in partial.deferred),
        moments=_sane_moments(partial.moments),
    )


def _sane_moments(moments: Mapping[str, Moments]) -> dict[str, Moments]:
    return {
        str(name): Moments(shift=int(one.shift), places=tuple(map(int, one.places)), whole=bool(one.whole))
        for name, one in moments.items()
    }


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


def sane_verdict(verdict: Verdict, promise: Promise) -> Verdict:
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
        moments=_sane_moments(verdict.moments),
    )
