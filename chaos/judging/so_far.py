"""Judges a prefix of a run: what the laws that can judge a part have found so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos.history.parted.choosing import Chooser, Chosen
from chaos.history.prefix import Prefix
from chaos.judging.divided import Divided
from chaos.judging.engine import Examined, examine_shard, verdicts
from chaos.judging.in_process import InProcess
from chaos.judging.layout import Layout
from chaos.judging.plan import WHOLE, plan
from chaos.judging.registry import Registry, registry
from chaos.judging.shard import Shard
from chaos.law import RunContext
from chaos.verdict import Anomaly, Validity, Verdict

#: What is said of a law whose promise nothing has broken yet.
NONE = "no violation so far"


@dataclass(frozen=True, slots=True, kw_only=True)
class SoFar:
    """What one law says of a run that goes on. ``violations``: those that stand whatever is still to come. ``state``:
    in a few words what is known; no promise counts as kept before its run has ended. ``is_open``: the law is about this
    run, but there is not enough to say anything yet."""

    law: str
    violations: tuple[Anomaly, ...]
    state: str
    is_open: bool = False

    @classmethod
    def of(cls, verdict: Verdict) -> SoFar:
        found = tuple(anomaly for anomaly in verdict.anomalies if not anomaly.lawful)
        if verdict.validity is Validity.INVALID:
            return cls(law=verdict.law, violations=found, state="violated")
        if verdict.validity is Validity.VALID:
            return cls(law=verdict.law, violations=(), state=NONE)
        is_open = verdict.validity is Validity.UNKNOWN
        state = f"{'unknown' if is_open else 'not judged'} so far: {verdict.why}"
        return cls(law=verdict.law, violations=(), state=state, is_open=is_open)


def able(known: Registry | None = None) -> Registry:
    """Return the kernels that may be asked about a prefix of a run."""
    every = known or registry()
    return Registry({number: law for number, law in every.kernels.items() if law.needs.on_prefix}, {})


def wanted(known: Registry) -> Callable[[pa.Table], npt.NDArray[np.bool_]]:
    """Says which rows these kernels read, and those by which the steps of nodes end."""
    reads = {(one.kind, one.f, one.queueless) for law in known.kernels.values() for one in law.needs.rows}
    chosen = [Chosen(kind, f, queueless) for kind, f, queueless in sorted(reads)]
    return lambda rows: Chooser(rows).any_of(chosen)


def judge_so_far(rows: pa.Table, context: RunContext, known: Registry | None = None) -> tuple[SoFar, ...]:
    """Judge a prefix of a run, in the order in which verdicts list the laws. ``context`` is that of the whole run."""
    asked = able(known)
    return _said(examine_shard(WHOLE, Shard(rows), replace(context, unfinished=True), asked), context, asked)


def judge_prefix(prefix: Prefix, folder: Path, context: RunContext, known: Registry | None = None) -> tuple[SoFar, ...]:
    """As :func:`judge_so_far`. Of many rows only some are in memory at a time: more stand in the ``folder``. Raises
    ``OSError`` when the disk is full."""
    if prefix.table is not None:
        return judge_so_far(prefix.table, context, known)
    asked, context = able(known), replace(context, unfinished=True)
    with InProcess(folder) as tasks:
        layout = Layout(meta=context.meta, plan=plan(asked.kernels, context.meta))
        return _said(Divided(tasks, prefix.pieces, layout).examine(context, known=asked), context, asked)


def _said(found: Examined, context: RunContext, known: Registry) -> tuple[SoFar, ...]:
    return tuple(map(SoFar.of, verdicts(replace(context, unfinished=True), found, known)))


def violated(found: Iterable[SoFar]) -> bool:
    return any(one.violations for one in found)
