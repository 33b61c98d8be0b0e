"""The laws themselves, as `stormproof check` asks them about a large run: its segments are divided, then examined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Any

from benchmarks.laws.histories import META, Made
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

#: The laws about what clients saw. Of those with several kernels, the ones over rows of queues.
LAWS = ("durability", "agreement", "no-rollback", "order", "consumers")
CONTEXT = RunContext(run="benchmark", seed=0, meta=RunMeta.of(META))


class Chosen(Registry):
    """Some of our laws. Kernels don't travel: a worker chooses them again."""

    def __reduce__(self) -> tuple[Callable[[], Registry], tuple[()]]:
        return chosen, ()


@cache
def chosen() -> Registry:
    """Return the kernels that look at rows of queues, and have their evidence. Raises ``ValueError`` when a law has
    none."""
    kernels = {
        key: law
        for key, law in registry().kernels.items()
        if law.promise.name in LAWS
        and law.needs.key in (Key.QUEUE, Key.OFFSET, Key.MESSAGE, Key.CALL)
        and set(law.needs.evidence) <= CONTEXT.evidence
    }
    if missing := set(LAWS) - {law.promise.name for law in kernels.values()}:
        raise ValueError(f"no kernel of {', '.join(sorted(missing))} looks at queues; broken: {registry().broken}")
    return Chosen(kernels, {})


def count(session: Any, made: Made) -> Counter[str]:
    """How often each anomaly is found. Raises ``ValueError`` when something was left undecided."""
    layout = Layout(meta=CONTEXT.meta, plan=plan(chosen().kernels, CONTEXT.meta))
    found = Divided(session, made.pieces, layout).examine(CONTEXT, known=chosen())
    counted: Counter[str] = Counter()
    for verdict in verdicts(CONTEXT, found, chosen()):
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
