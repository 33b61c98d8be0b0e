"""The laws themselves, as `stormproof check` asks them about a large run: its segments are divided, then examined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Any

from benchmarks.laws.histories import META, Made
from chaos.history.directory import read_meta
from chaos.history.run_meta import RunMeta
from chaos.judging.divided import Divided
from chaos.judging.engine import verdicts
from chaos.judging.in_process import InProcess
from chaos.judging.layout import Layout
from chaos.judging.masters import parse
from chaos.judging.plan import plan
from chaos.judging.registry import Registry, registry
from chaos.judging.spark import Session
from chaos.kernel import Key
from chaos.law import RunContext
from chaos.verdict import Validity

#: The laws about what clients saw; and those about logs and transactions.
QUEUES, LOGS = ("durability", "agreement", "no-rollback", "order", "consumers"), ("log", "isolation")
#: What kernels need together that look at rows of queues.
OF_QUEUES = (Key.QUEUE, Key.OFFSET, Key.MESSAGE, Key.CALL)


class Chosen(Registry):
    """Some of our laws. Kernels don't travel: a worker chooses them again."""

    def __reduce__(self) -> tuple[Callable[..., Registry], tuple[str, ...]]:
        return chosen, tuple(sorted({law.promise.name for law in self.kernels.values()}))


@cache
def chosen(*laws: str) -> Registry:
    """Return the kernels of these laws that have their evidence; of those about queues, the ones that look at rows of
    queues. Raises ``ValueError`` when a law has none."""
    kernels = {
        key: law
        for key, law in registry().kernels.items()
        if law.promise.name in laws
        and (law.needs.key in OF_QUEUES or law.promise.name in LOGS)
        and set(law.needs.evidence) <= RunMeta.of(META).reported
    }
    if missing := {*laws} - {law.promise.name for law in kernels.values()}:
        raise ValueError(f"no kernel of {', '.join(sorted(missing))} looks at queues; broken: {registry().broken}")
    return Chosen(kernels, {})


def count(session: Any, made: Made) -> Counter[str]:
    """How often each anomaly is found. Raises ``ValueError`` when something was left undecided."""
    meta = read_meta(made.run)
    context, known = RunContext(run="benchmark", seed=0, meta=meta), chosen(*(LOGS if meta.uses else QUEUES))
    layout = Layout(meta=meta, plan=plan(known.kernels, meta))
    found = Divided(session, made.pieces, layout).examine(context, known=known)
    counted: Counter[str] = Counter()
    for verdict in verdicts(context, found, known):
        if verdict.validity is Validity.UNKNOWN:
            raise ValueError(f"{verdict.law}: {verdict.why}")
        for anomaly in verdict.anomalies:
            counted[anomaly.name] += anomaly.count
    return counted


def on_spark(made: Made, threads: int, stack: ExitStack) -> Callable[[], Counter[str]]:
    session = stack.enter_context(Session(parse(f"local[{threads}]")))
    return lambda: count(session, made)


def on_one_worker(made: Made, threads: int, stack: ExitStack) -> Callable[[], Counter[str]]:
    """As :func:`on_spark`, whatever the others have: what further workers are worth."""
    return on_spark(made, 1, stack)


def in_process(made: Made, threads: int, stack: ExitStack) -> Callable[[], Counter[str]]:
    """Without Spark, in one process whatever the others have."""

    def counted() -> Counter[str]:
        with InProcess(made.run.parent) as here:
            return count(here, made)

    return counted
