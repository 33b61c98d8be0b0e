"""Run all laws over the shards of many runs, in this process or in one Spark job, and judge."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa

from chaos import plugins
from chaos.errors import MachineError
from chaos.judging.class_archive import build_archive
from chaos.judging.findings import cap
from chaos.judging.shard import ANOMALIES, Shard, anomaly_row
from chaos.judging.spark import Session
from chaos.law import Law, Partial, RunContext, Scope
from chaos.plugins import PluginKind
from chaos.verdict import LawName, Validity, Verdict, worst

__all__ = [
    "Examined",
    "RunInput",
    "Session",
    "anomaly_table",
    "build_archive",
    "examine",
    "examine_shard",
    "judge",
    "judge_rows",
    "laws",
]

#: Which scopes a shard serves, by the beginning of its file's name.
SCOPES = {
    "all": frozenset({Scope.QUEUE, Scope.CONTROL}),
    "queue": frozenset({Scope.QUEUE}),
    "control": frozenset({Scope.CONTROL}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInput:
    """One run to judge: what is known of it, and its Parquet shards. ``examined``: what :func:`examine` has found in
    them already, here or in another process."""

    context: RunContext
    shards: Sequence[Path]
    examined: Examined | None = None


@dataclass(frozen=True, slots=True)
class _Task:
    run: int
    shard: str
    context: RunContext


#: The findings in one shard: the number of a law in :func:`laws`, and its kernel's partial.
Examined = list[tuple[int, Partial]]


@cache
def laws() -> tuple[Law, ...]:
    """All laws, in the order of their modules' names: those in ``checkers/`` and those that other packages offer."""
    made: list[Law] = []
    for name in plugins.names(PluginKind.LAW):
        law = plugins.build(PluginKind.LAW, name)
        made += law if isinstance(law, Sequence) else [law]
    return tuple(made)


def judge(
    runs: Sequence[RunInput], *, engine: str = "spark", session: Session | None = None
) -> list[tuple[Verdict, ...]]:
    """Judge many runs in one job: for each run, in the given order, a verdict of every law.

    ``engine`` is ``spark`` or ``local``; ``session`` is a Spark that was started before (it stays open). Raises
    :class:`chaos.errors.MachineError` when Spark is asked for and can't start.
    """
    tasks = [task for number, run in enumerate(runs) if run.examined is None for task in _tasks(number, run)]
    if engine == "local":
        examined = [_examine_path(task) for task in tasks]
    elif session is not None:
        examined = _on_spark(session, tasks)
    else:
        with Session() as own:
            examined = _on_spark(own, tasks)
    partials: list[Examined] = [list(run.examined or ()) for run in runs]
    for task, found in zip(tasks, examined, strict=True):
        partials[task.run] += found
    return [_verdicts(run.context, found) for run, found in zip(runs, partials, strict=True)]


def examine(run: RunInput) -> Examined:
    """All that the laws find in one run's shards, in this process."""
    return [found for task in _tasks(0, run) for found in _examine_path(task)]


def _tasks(number: int, run: RunInput) -> list[_Task]:
    return [_Task(number, str(path), run.context) for path in sorted(run.shards)]


def _on_spark(session: Session, tasks: Sequence[_Task]) -> list[Examined]:
    """A job that fails as a whole (a worker that was killed, say) has examined nothing: no law may look kept."""
    try:
        return session.map(_examine_path, tasks)
    except MachineError:
        raise
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        return [_all_gaps(task, f"the Spark job failed: {reason}") for task in tasks]


def _all_gaps(task: _Task, reason: str) -> Examined:
    scopes = SCOPES.get(Path(task.shard).stem.split("-")[0], frozenset())
    return [(number, Partial(gaps=(reason,))) for number, law in enumerate(laws()) if law.scope in scopes]


def judge_rows(tables: Sequence[tuple[str, pa.Table]], context: RunContext) -> tuple[Verdict, ...]:
    """Judge one run whose shards, (name, rows), are in memory."""
    found: Examined = []
    for name, table in tables:
        found += examine_shard(Shard(table), context, SCOPES[name.split("-")[0].split(".")[0]])
    return _verdicts(context, found)


def examine_shard(rows: Shard, context: RunContext, scopes: frozenset[Scope]) -> Examined:
    """Run the kernels whose scope this shard serves. One that crashes leaves a gap in its law's evidence."""
    return [
        (number, _guarded(lambda law=law: law.examine(rows, context)))  # type: ignore[misc]
        for number, law in enumerate(laws())
        if law.scope in scopes
    ]


def _examine_path(task: _Task) -> Examined:
    path = Path(task.shard)
    scopes = SCOPES.get(path.stem.split("-")[0], frozenset())
    try:
        rows = Shard.read(path)
    except (OSError, pa.ArrowException, KeyError) as error:
        return _all_gaps(task, f"the shard {path.name} can't be read: {error}")
    return examine_shard(rows, task.context, scopes)


def _guarded(kernel: Callable[[], Partial]) -> Partial:
    try:
        return kernel()
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        return Partial(gaps=(f"the check crashed: {type(error).__name__}: {error} ({place})",))


def _verdicts(context: RunContext, found: Examined) -> tuple[Verdict, ...]:
    """Judge each law, and join the verdicts of those that share a name (their rows live in different shards)."""
    judged: dict[LawName, list[Verdict]] = {}
    for number, law in enumerate(laws()):
        partials = [partial for of, partial in found if of == number]
        try:
            verdict = law.judge(partials, context)
        except Exception as error:
            why = f"the judgement crashed: {type(error).__name__}: {error}"
            verdict = Verdict(law=law.name, validity=Validity.UNKNOWN, why=why)
        judged.setdefault(law.name, []).append(verdict)
    return tuple(_join(verdicts, context) for verdicts in judged.values())


def _join(verdicts: Sequence[Verdict], context: RunContext) -> Verdict:
    counts: dict[str, int] = {}
    for verdict in verdicts:
        for name, number in verdict.counts.items():
            counts[name] = counts.get(name, 0) + number
    validity = worst(verdict.validity for verdict in verdicts)
    why = [verdict.why for verdict in verdicts if verdict.why]
    if context.damage:
        validity = worst([validity, Validity.UNKNOWN])
        why = [*context.damage, *why]
    return Verdict(
        law=verdicts[0].law,
        validity=validity,
        anomalies=cap(verdicts[0].law, (anomaly for verdict in verdicts for anomaly in verdict.anomalies)),
        counts=dict(sorted(counts.items())),
        why="; ".join(dict.fromkeys(why)),
    )


def anomaly_table(judged: Sequence[tuple[str, Sequence[Verdict]]]) -> pa.Table:
    """All anomalies of many (run, verdicts) as one table, for trends and joins."""
    rows = [anomaly_row(run, anomaly) for run, verdicts in judged for law in verdicts for anomaly in law.anomalies]
    return pa.Table.from_pylist(rows, schema=ANOMALIES)
