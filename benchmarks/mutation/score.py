"""From outcomes to the score, and to the page that publishes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ruamel.yaml import YAML

from benchmarks.mutation.mutants import ROOT, Mutant
from benchmarks.mutation.state import Key
from benchmarks.mutation.systems import REFERENCE, System
from benchmarks.mutation.trial import Outcome, Result

#: Where it stands what people have found out about survivors: ``mutant``, ``verdict`` and ``reason``.
VERDICTS = Path(__file__).parent
EQUIVALENT, LIMIT, FOUND = "equivalent", "limit", "found"


class Class(StrEnum):
    """Why a mutant may have survived. The first three are rulings, the others are measured."""

    EQUIVALENT = "equivalent"
    LIMIT = "limits of what a run can show or the documents promise"
    ELSEWHERE = "found by another run than those of this score"
    NOT_REACHED = "not reached"
    NO_EFFECT = "reached, without an effect on any row of any history"
    UNSEEN = "reached, histories differ, no law looks"


_RULED = {EQUIVALENT: Class.EQUIVALENT, LIMIT: Class.LIMIT, FOUND: Class.ELSEWHERE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What somebody says of a survivor, and why: that it is ``equivalent``; that no history can show it, or that it
    breaks no promise, which is a ``limit``; what has ``found`` it since; or what it would take to find it (``open``).
    """

    mutant: str
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """One mutant and all its outcomes, in the order in which its seeds have their turn; ``reaching`` is how many seeds
    come to its statement at all. ``correct``: the correct system's outcomes, of the same trials."""

    mutant: Mutant
    outcomes: tuple[Outcome, ...]
    correct: Mapping[Key, Outcome]
    reaching: int = 0
    ruling: Ruling | None = None

    @property
    def finder(self) -> Outcome | None:
        return next((outcome for outcome in self.outcomes if outcome.result.finds), None)

    @property
    def survived(self) -> bool:
        return self.finder is None

    @property
    def begun(self) -> bool:
        """Whether anything is known of it: it was run, or no seed comes to its statement."""
        return bool(self.outcomes) or not self.reaching

    @property
    def ruled(self) -> Class | None:
        """The group that its ruling puts it in; None where measurements do."""
        return _RULED.get(self.ruling.verdict) if self.ruling is not None else None

    @property
    def group(self) -> Class:
        if self.ruled is not None:
            return self.ruled
        if not any(outcome.reached for outcome in self.outcomes):
            return Class.NOT_REACHED
        return Class.NO_EFFECT if all(map(self.same, self.outcomes)) else Class.UNSEEN

    @property
    def doubted(self) -> bool:
        """Whether some run of it was UNKNOWN, where the correct system's is VALID: it is not found, and not green."""
        return any(outcome.result is Result.UNKNOWN for outcome in self.outcomes)

    def same(self, outcome: Outcome) -> bool:
        """Return whether this run was the correct system's, row by row."""
        return outcome.history == self.correct["", outcome.experiment, outcome.seed].history


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """``there_are``: how many mutants the system has, of which ``drawn`` were drawn with the seed ``draw``, without the
    ``trivial`` ones. ``fates``: the first of them, in the order of the draw, as far as they were run. ``seeds``: how
    many the correct system ran with. ``outdated``: what is wrong with rulings, a sentence each, as :func:`outdated`
    returns them."""

    fates: Sequence[Fate]
    drawn: int
    trivial: int
    there_are: int
    draw: int
    seeds: int
    experiments: Sequence[str]
    commit: str
    code: str
    skipped: Sequence[int]
    outdated: Sequence[str] = ()

    @property
    def survivors(self) -> list[Fate]:
        return [fate for fate in self.fates if fate.survived]

    @property
    def equivalent(self) -> int:
        return sum(fate.group is Class.EQUIVALENT for fate in self.survivors)

    def found(self, *results: Result) -> int:
        return sum(fate.finder is not None and (not results or fate.finder.result in results) for fate in self.fates)


def rulings(system: System = REFERENCE) -> dict[str, Ruling]:
    """Return all rulings about a system, by mutant. Raises ``TypeError`` when one lacks a field."""
    entries = YAML(typ="safe").load(VERDICTS / system.verdicts) or ()
    return {ruling.mutant: ruling for ruling in (Ruling(**entry) for entry in entries)}


def outdated(ruled: Mapping[str, Ruling], known: Sequence[Mutant]) -> list[str]:
    """Return a sentence for each ruling about a mutant that does not exist any more: its reason speaks of other code.
    In the order of the rulings."""
    ids = {mutant.id for mutant in known}
    places = {_place(one) for one in ids}
    return [
        f"the ruling about `{one}` is outdated: "
        + ("its statement has changed" if _place(one) in places else "its function has no such place any more")
        for one in ruled
        if one not in ids
    ]


def _place(mutant: str) -> str:
    """Return module, function and operator: what is left of an id when the statement has changed."""
    return mutant.rpartition(":")[0]


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


def headline(score: Score) -> str:
    run, found = len(score.fates), score.found()
    of = f"{run}" if run == score.drawn else f"{run} of {score.drawn}"
    most = max((len(fate.outcomes) for fate in score.fates), default=0)
    seeds = "one seed" if most == 1 else f"up to {most} seeds"
    return f"{of} drawn mutants, {seeds} each: {percent(found, run)} found ({found})"


def summary(score: Score) -> list[str]:
    """Return the figures, a line each."""
    run, found = len(score.fates), score.found()
    parts = [f"{score.found(result)} by {_BY[result]}" for result in _BY]
    groups = Counter(fate.group for fate in score.survivors)
    doubted = sum(fate.doubted for fate in score.survivors)
    at_once = sum(fate.outcomes[:1] == (fate.finder,) for fate in score.fates)
    skipped = f", without {', '.join(map(str, score.skipped))}" if score.skipped else ""
    return [
        headline(score),
        f"found: {', '.join(parts)}; {at_once} with the first seed",
        f"survived: {run - found}: {', '.join(f'{groups[group]} {group}' for group in Class)};"
        f" {doubted} of them were UNKNOWN with some seed with which the correct system is VALID",
        f"of those not shown equivalent: {percent(found, run - score.equivalent)}",
        _done(score),
        f"drawn with seed {score.draw} of {score.there_are}, without {score.trivial} on the way that compile to the"
        f" same program; {_experiments(score)}, seeds 1 to {score.seeds}{skipped}; commit"
        f" {score.commit or '?'} (code {score.code})",
    ]


def _experiments(score: Score) -> str:
    """Their names, or how many they are."""
    return ", ".join(score.experiments) if len(score.experiments) < 5 else f"{len(score.experiments)} experiments"


def _done(score: Score) -> str:
    """How thoroughly those were run that count as survivors."""
    runs = sum(len(fate.outcomes) for fate in score.fates)
    same = sum(fate.same(outcome) for fate in score.fates for outcome in fate.outcomes)
    open_ = [fate for fate in score.survivors if fate.group is not Class.EQUIVALENT and fate.reaching]
    whole = sum(len(fate.outcomes) == fate.reaching for fate in open_)
    few, most = (limit((len(fate.outcomes) for fate in open_), default=0) for limit in (min, max))
    return (
        f"{runs} runs, {same} of them equal to the correct system's in every row; survivors that some seed reaches and"
        f" that are not equivalent: {len(open_)}, run with {few} to {most} seeds each; {whole} of them had all that"
        " reach them"
    )


_BY = {
    Result.LAW: "a law",
    Result.CRASH: "a crash",
    Result.NO_SERVICE: "no service",
    Result.NO_END: "no end",
}


def survivor(fate: Fate) -> str:
    """One survivor with its diff."""
    said = f"\n{fate.ruling.verdict}: {fate.ruling.reason}" if fate.ruling is not None else ""
    where = f"{fate.mutant.path}:{fate.mutant.change.line}"
    hits = sum(outcome.reached > 0 for outcome in fate.outcomes)
    reach = f"reached in {hits} runs; {fate.reaching} seeds come there"
    return f"{fate.mutant.id}\n{where}; {fate.group}; {reach}{said}\n{fate.mutant.diff(ROOT)}\n"


def tables(score: Score) -> list[str]:
    """How the drawn mutants fared, by operator and by part of the system; lines of Markdown."""
    by_operator: dict[str, list[Fate]] = {}
    by_part: dict[str, list[Fate]] = {}
    for fate in score.fates:
        by_operator.setdefault(fate.mutant.operator, []).append(fate)
        by_part.setdefault(fate.mutant.id.partition(":")[0], []).append(fate)
    return [*_table("operator", by_operator), "", *_table("file", by_part)]


def _table(what: str, groups: Mapping[str, Sequence[Fate]]) -> list[str]:
    lines = [f"| {what} | drawn | found | equivalent | other survivors |", "|---|---|---|---|---|"]
    for name in sorted(groups):
        fates = groups[name]
        found = sum(not fate.survived for fate in fates)
        equivalent = sum(fate.survived and fate.group is Class.EQUIVALENT for fate in fates)
        lines.append(f"| {name} | {len(fates)} | {found} | {equivalent} | {len(fates) - found - equivalent} |")
    return lines
