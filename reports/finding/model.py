"""What a page about one cause holds: the events that matter, what nodes reported meanwhile, and what is not known."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from chaos import guarded
from chaos.errors import BadInput, ChaosError
from chaos.history import directory
from chaos.history.row import Row
from reports.run_report.causes import Cause, Kind
from reports.run_report.chain import Step
from reports.run_report.judged import JudgedRun, judged_run
from reports.run_report.story import facts, sentence
from reports.run_report.strip import Event, Part, Strip, strip

#: A simulated run can be repeated exactly.
SIMULATED = "sim"
#: What nodes traced this long before and after an event is shown, in seconds, and so many rows of one node.
AROUND_S, ROWS = 0.05, 12
#: So many violations are quoted.
QUOTED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRow:
    """One row that a node traced."""

    index: int
    at_s: float
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One cause; ``chain``: its steps. ``number`` counts from 1 in the order of the report, ``of`` is how many there
    are. ``quoted``: violations in their own words, with the rows behind them. ``strip`` is None when no row
    shows anything. ``traced``: rows by node, in order of time. ``logs``: files of nodes in the run's directory.
    ``often``: of how many runs of the same experiment in the same folder how many show a violation of the same
    kind, and how many there are. ``unknown``: what this run leaves unknown, a sentence each."""

    number: int
    of: int
    title: str
    sentence: str
    chain: Sequence[Step]
    facts: Sequence[tuple[str, str]]
    kinds: Sequence[tuple[str, str, int]]
    quoted: Sequence[tuple[str, str, Sequence[int]]]
    strip: Strip | None
    traced: Mapping[str, Sequence[TracedRow]]
    logs: Sequence[str]
    versions: Mapping[str, str]
    configuration: str
    experiment: str
    replay: str
    often: tuple[int, int]
    unknown: Sequence[str]

    @property
    def events(self) -> Sequence[Event]:
        return self.strip.events if self.strip is not None else ()


def find(run: Path, number: int) -> Finding:
    """Return the cause of this number. Raises :class:`chaos.errors.BadInput` where there is none, and as
    :func:`reports.run_report.judged.judged_run` does."""
    judged = judged_run(run)
    if not judged.causes:
        raise BadInput(f"{run}: no violation was found, so there is nothing to hand on")
    if not 1 <= number <= len(judged.causes):
        raise BadInput(f"{run}: there is no cause {number}; its causes are numbered from 1 to {len(judged.causes)}")
    group = judged.causes[number - 1]
    cause, kinds = group.first, group.kinds
    drawn = strip(cause, judged.all_rows)
    meta = judged.history.meta
    configured = {name: meta.json[name] for name in ("profile", "drawn", "bounds", "nodes") if meta.json.get(name)}
    return Finding(
        number=number,
        of=len(judged.causes),
        title=group.title,
        sentence=sentence(cause),
        chain=group.chain,
        facts=facts(meta, judged.verdict.seed),
        kinds=[(kind.law, kind.name, kind.here) for kind in kinds],
        quoted=[(v.law, v.anomaly.explanation, v.anomaly.rows) for v in cause.violations[:QUOTED]],
        strip=drawn,
        traced=_traced(judged, drawn.events if drawn is not None else ()),
        logs=_logs(run),
        versions=dict(meta.versions),
        configuration=json.dumps(configured, indent=2, sort_keys=True),
        experiment=_experiment(run),
        replay=meta.replay_command,
        often=_often(judged, kinds),
        unknown=list(_unknown(judged, cause, kinds)),
    )


def _logs(run: Path) -> list[str]:
    """Return the names of the nodes' logs."""
    paths = [run / name for name in guarded.listed(run, "logs", ".log")]
    return [path.name for path in paths if path.is_file() and not path.is_symlink()]


def _traced(judged: JudgedRun, events: Sequence[Event]) -> dict[str, list[TracedRow]]:
    """Return what each node of the strip traced around the events; of many rows those nearest to an event."""
    lanes = {event.lane for event in events if event.part in (Part.REPLICAS, Part.CONTROLLERS)}
    moments = [event.at_s for event in events if event.part is not Part.FAULTS]
    found: dict[str, list[tuple[float, TracedRow]]] = {}
    for row in judged.all_rows.each("trace"):
        near = min((abs(row.at_s - moment) for moment in moments), default=AROUND_S + 1)
        if row.node in lanes and near <= AROUND_S:
            one = TracedRow(index=row.index, at_s=row.at_s, what=_words(row))
            found.setdefault(row.node, []).append((near, one))
    nearest = {node: sorted(rows, key=lambda one: (one[0], one[1].index))[:ROWS] for node, rows in found.items()}
    return {node: sorted((one for _, one in nearest[node]), key=lambda one: (one.at_s, one.index))
            for node in sorted(nearest)}  # fmt: skip


def _words(row: Row) -> str:
    numbers = row.numbers("epoch", "queue", "offset", "position")
    return " ".join(filter(None, (row.f, ", ".join(f"{name} {number}" for name, number in numbers.items()), row.text)))


def _experiment(run: Path) -> str:
    try:
        return guarded.read(run / directory.EXPERIMENT).decode("utf-8", "replace")
    except OSError:
        return ""


def _often(judged: JudgedRun, of_cause: Sequence[Kind]) -> tuple[int, int]:
    """Return how many of how many runs show it, of the judged runs of this experiment beside this one, with the same
    deployment and planted bug."""
    kinds, same = {kind.name for kind in of_cause}, attrgetter("name", "deployment", "mutant")
    found = whole = 0
    for run in directory.runs(judged.history.run.parent):
        try:
            meta, verdict = directory.read_meta(run), directory.read_verdict(run)
        except ChaosError:
            continue
        if same(meta) == same(judged.history.meta):
            whole += 1
            found += bool(kinds & set(verdict.anomaly_counts()))
    return found, whole


def _unknown(judged: JudgedRun, cause: Cause, kinds: Sequence[Kind]) -> Iterator[str]:
    if cause.always:
        yield (
            "Some of it showed while no fault was in force, as what is only found after recovery does: which fault it "
            "needs, if any, is not known."
        )
    elif cause.faults and not cause.proven:
        yield "No row links a fault with the violations: the faults named here were only in force at that time."
    elif not cause.faults:
        yield "No fault was in force; what set it off is not recorded."
    for kind in kinds:
        if kind.partly:
            listed = f"{kind.listed:,} {'is' if kind.listed == 1 else 'are'} listed"
            yield (
                f"Of {kind.whole:,} × {kind.name} in the run only {listed} one by one; "
                "the others may have another cause."
            )
    if not judged.history.one_clock:
        yield "The replay command repeats the schedule of the faults, not the interleaving: it may end otherwise."
    yield from (f"{why}." for why in judged.verdict.why)
    yield from (f"Damaged: {problem}." for problem in judged.history.damage)
    yield from (f"Not judged: {part}." for part in judged.verdict.not_judged)
