"""The laws themselves, as `stormproof check` runs them: kernels over shards, then the judgement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import cache, reduce
from multiprocessing import get_context
from pathlib import Path

from chaos.driver import Evidence
from chaos.history import shards
from chaos.judging import plan
from chaos.judging.engine import Examined, Session, examine_shard
from chaos.judging.masters import parse
from chaos.judging.registry import Registry, registry
from chaos.judging.shard import Shard
from chaos.law import Key, Partial, RunContext

#: The laws about what clients saw. Of those with several kernels, the ones over rows of queues.
LAWS = ("durability", "agreement", "no-rollback", "order", "consumers")
CONTEXT = RunContext(
    run="benchmark",
    seed=0,
    meta={"tells": [Evidence.OPERATIONS, Evidence.FINAL_LOGS], "brokers": ["broker-0"], "deployment": "process"},
)


@cache
def chosen() -> Registry:
    """The kernels that look at rows of queues, and have their evidence. Raises ``ValueError`` when a law has none."""
    kernels = {
        key: law
        for key, law in registry().kernels.items()
        if law.promise.name in LAWS
        and law.needs.key in (Key.QUEUE, Key.OFFSET, Key.MESSAGE, Key.CALL)
        and set(law.needs.evidence) <= CONTEXT.tells
    }
    if missing := set(LAWS) - {law.promise.name for law in kernels.values()}:
        raise ValueError(f"no kernel of {', '.join(sorted(missing))} looks at queues; broken: {registry().broken}")
    return Registry(kernels, {})


def examine(path: str) -> Examined:
    """What the kernels find in one shard; workers run this."""
    columns = plan.columns(list(chosen().kernels.values()))
    return examine_shard(shards.WHOLE, Shard.read(path, columns), CONTEXT, chosen())


def count(found: Sequence[Examined]) -> Counter[str]:
    """How often each anomaly is found, over all shards. Raises ``ValueError`` when something was left undecided."""
    counted: Counter[str] = Counter()
    for key, law in chosen().kernels.items():
        merged = reduce(Partial.merge, (partial for part in found for number, partial in part if number == key))
        if merged.gaps:
            raise ValueError(f"{law.promise.name}: {'; '.join(merged.gaps)}")
        for anomaly in law.judge(merged, CONTEXT).anomalies:
            counted[anomaly.name] += anomaly.count
    return counted


def on_spark(paths: Sequence[Path], threads: int, stack: ExitStack) -> Callable[[], Counter[str]]:
    session = stack.enter_context(Session(parse(f"local[{threads}]")))
    tasks = [str(path) for path in paths]
    return lambda: count(session.map(examine, tasks))


def in_processes(paths: Sequence[Path], threads: int, stack: ExitStack) -> Callable[[], Counter[str]]:
    pool = stack.enter_context(ProcessPoolExecutor(threads, get_context("spawn")))
    tasks = [str(path) for path in paths]
    return lambda: count(list(pool.map(examine, tasks)))
