"""The laws themselves, as `stormproof check` runs them: kernels over shards, then the judgement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import pyarrow.parquet as pq

from chaos.driver import Evidence
from chaos.history import shards
from chaos.history.run_meta import RunMeta
from chaos.judging import plan
from chaos.judging.engine import Examined, Session, examine_shard, verdicts
from chaos.judging.masters import parse
from chaos.judging.registry import Registry, registry
from chaos.judging.shard import Shard
from chaos.kernel import Key
from chaos.law import RunContext
from chaos.verdict import Validity

#: The laws about what clients saw. Of those with several kernels, the ones over rows of queues.
LAWS = ("durability", "agreement", "no-rollback", "order", "consumers")
#: The folder of the shards of what was parted.
PARTED = "parted"
CONTEXT = RunContext(
    run="benchmark",
    seed=0,
    meta=RunMeta.of(
        {"tells": [Evidence.OPERATIONS, Evidence.FINAL_LOGS], "brokers": ["broker-0"], "deployment": "process"}
    ),
)


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
    return Registry(kernels, {})


def parted(paths: Sequence[Path]) -> list[str]:
    """Return the shards of this history as `check` would write them: one whose queue has too many rows is parted, and
    its parts are written beside it. A process of its own does that, so that its memory counts for nobody."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return [shard for found in pool.map(_parted, paths) for shard in found]


def _parted(path: Path) -> list[str]:
    if pq.read_metadata(path).num_rows <= shards.SHARD_ROWS:
        return [str(path)]
    folder = path.parent / PARTED / path.stem
    folder.mkdir(parents=True)
    for name, rows in shards.parts(pq.read_table(path), plan.plan(chosen().kernels)):
        shards.write_one(rows, folder / f"{name}.parquet")
    return [str(shard) for shard in sorted(folder.iterdir())]


def examine(path: str) -> Examined:
    """Return what the kernels find in one shard; workers run this."""
    name = Path(path).stem if Path(path).parent.parent.name == PARTED else shards.WHOLE
    serving = [chosen().kernels[number] for number in plan.served(name, chosen().kernels) or ()]
    return examine_shard(name, Shard.read(path, plan.columns(serving)), CONTEXT, chosen())


def count(found: Sequence[Examined]) -> Counter[str]:
    """How often each anomaly is found, over all shards. Raises ``ValueError`` when something was left undecided."""
    counted: Counter[str] = Counter()
    for verdict in verdicts(CONTEXT, [one for examined in found for one in examined], chosen()):
        if verdict.validity is Validity.UNKNOWN:
            raise ValueError(f"{verdict.law}: {verdict.why}")
        for anomaly in verdict.anomalies:
            counted[anomaly.name] += anomaly.count
    return counted


def on_spark(paths: Sequence[Path], threads: int, stack: ExitStack) -> Callable[[], Counter[str]]:
    session = stack.enter_context(Session(parse(f"local[{threads}]")))
    tasks = parted(paths)
    return lambda: count(session.map(examine, tasks))


def on_one_worker(paths: Sequence[Path], threads: int, stack: ExitStack) -> Callable[[], Counter[str]]:
    """As :func:`on_spark`, whatever the others have: what further workers are worth."""
    return on_spark(paths, 1, stack)


def in_processes(paths: Sequence[Path], threads: int, stack: ExitStack) -> Callable[[], Counter[str]]:
    pool = stack.enter_context(ProcessPoolExecutor(threads, get_context("spawn")))
    tasks = parted(paths)
    return lambda: count(list(pool.map(examine, tasks)))
