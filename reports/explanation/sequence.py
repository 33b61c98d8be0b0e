"""The backward slice of an anomaly as a sequence of arrows, folded to a number that a person can read."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from chaos.driver import Evidence
from chaos.errors import BadInput, DamagedHistory
from chaos.history.directory import read_verdict
from chaos.history.history import History
from chaos.history.row import Row
from chaos.ops import DELIVERED
from chaos.verdict import Anomaly, Validity
from reports.explanation.contradictions import Contradiction, Known, contradiction
from reports.explanation.decisions import Decision, decisions, unplaced
from reports.explanation.happens_before import happens_before
from reports.explanation.selection import selection, staying
from reports.explanation.subject import subject
from reports.explanation.words import targets, words
from reports.printable import argument

if TYPE_CHECKING:
    import networkx

#: So many arrows are shown; what matters least is left out first.
ARROWS = 40
#: Rows by which the outcome was decided; they stay when there are too many arrows.
DECISIVE = ("truncate", "recovered", "crash", "bootstrap", "role", "applied", "raft", "acked", "append",
            "fence", "opened", "group_append", "group_acked")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """Who did what to whom, in seconds since the load began; ``source`` is ``target`` where a node did it by itself.
    ``count`` alike ones are folded into it: ``rows`` are all of them. ``named``: the law names one of the rows.
    ``decided``: the methods of the nodes' code that decided it, as ``Class.method``, where that is known. ``why``: it
    contradicts a promise by itself, as this sentence says. ``unplaced``: only its outcome shows that."""

    at_s: float
    source: str
    target: str
    what: str
    text: str
    rows: tuple[int, ...]
    named: bool
    decided: tuple[str, ...] = ()
    count: int = 1
    why: str = ""
    unplaced: bool = False

    @property
    def phrase(self) -> str:
        return self.text if self.count == 1 else f"{self.text} … {self.count} times"

    @property
    def numbers(self) -> str:
        """Its rows as commands take them."""
        first, last = self.rows[0], self.rows[-1]
        whole = f"{first}..{last}" if last > first else str(first)
        few = ",".join(map(str, self.rows)) if len(self.rows) <= 3 else whole
        return few if last - first >= len(self.rows) else whole

    def link(self, run: str) -> str:
        """Return the command that prints its rows."""
        return f"stormproof explain {shlex.quote(argument(run))} --rows {self.numbers}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One anomaly, the violation ``number`` of ``of`` in the order of the verdict, and its slice; with ``number`` 0
    rows that somebody chose, of which ``text`` is the title. ``notes``: what the slice can't show, a sentence each."""

    run: Path
    law: str
    name: str
    text: str
    number: int
    of: int
    arrows: Sequence[Arrow]
    notes: Sequence[str]

    @property
    def title(self) -> str:
        """What it shows, in a few words."""
        return f"What caused violation {self.number} ({self.name})" if self.number else self.text


def explain(run: Path, which: str = "1") -> Explanation:
    """Return the slice of a violation: ``which`` is its number from 1 on, or the name of its kind (the first one of
    it).

    Raises :class:`chaos.errors.BadInput` for a run that isn't INVALID, without such a violation, or where the law names
    no rows of it; :class:`chaos.errors.DamagedHistory` when nothing can be read."""
    history, found = History.open(run), violations(run)
    number = number_of(run, which, found)
    anomaly = found[number - 1]
    if not anomaly.rows:
        raise BadInput(f"{run}: violation {number} ({anomaly.name}) names no rows, so nothing leads back from it")
    explanation = of_violation(found, number, history)
    if not explanation.arrows:
        raise DamagedHistory(f"{run}: the rows of violation {number} ({anomaly.name}) are not in the history")
    return replace(explanation, notes=[*explanation.notes, *history.damage])


def violations(run: Path) -> list[Anomaly]:
    """Return each violation of an INVALID run, in the order of the verdict. Raises :class:`chaos.errors.BadInput` for
    any other run."""
    verdict = read_verdict(run)
    if verdict.validity is not Validity.INVALID:
        raise BadInput(f"{run} is {verdict.validity}: only a violation can be explained")
    return verdict.violations


def of_violation(
    found: Sequence[Anomaly], number: int, history: History, decided: Mapping[int, Decision] | None = None
) -> Explanation:
    """Return the slice of the violation ``number`` of all that were ``found``; without arrows where its rows are not in
    the history. ``decided``: the :func:`decisions` of all, where they are known already."""
    anomaly = found[number - 1]
    arrows, left_out = sequence(anomaly, history, decisions(found, history) if decided is None else decided)
    return Explanation(
        run=history.run, law=anomaly.law, name=anomaly.name, text=anomaly.explanation, number=number, of=len(found),
        arrows=arrows, notes=_notes(history, left_out),
    )  # fmt: skip


def number_of(run: Path, which: str, found: Sequence[Anomaly]) -> int:
    """Return which of these violations is meant: by its number from 1 on, or by the name of its kind. Raises
    :class:`chaos.errors.BadInput`."""
    if which in map(str, range(1, len(found) + 1)):
        return int(which)
    for place, anomaly in enumerate(found, 1):
        if anomaly.name == which and anomaly.rows:
            return place
    names = ", ".join(dict.fromkeys(anomaly.name for anomaly in found))
    raise BadInput(f"{run} has no violation {which!r}; they are numbered from 1 to {len(found)}, or named: {names}")


def _notes(history: History, left_out: int) -> list[str]:
    notes = []
    if not history.has_traces:
        notes.append("The nodes traced nothing: the slice has operations, polls and faults only.")
    elif not history.one_clock:
        notes.append("The nodes ran on clocks of their own: the order of rows of different nodes rests on these.")
    if left_out:
        less = "arrow that matters less is" if left_out == 1 else "arrows that matter less are"
        notes.append(f"{left_out} {less} left out.")
    return notes


def sequence(
    anomaly: Anomaly, history: History, decided: Mapping[int, Decision] = MappingProxyType({})
) -> tuple[list[Arrow], int]:
    """Return the arrows of an anomaly of ``verdict.json``, by time, and how many were left out. ``decided``: the rows
    that laws call the decision by which some violation of the run came about."""
    import networkx

    about = subject(anomaly, history)
    chosen = selection(about, history) if about.witnesses else []
    graph = happens_before(chosen, about, history)
    named = {row.index for row in about.witnesses}
    ends = named | staying([row for row in about.witnesses if row.f == "append"], chosen, history)
    kept = ends.union(*(networkx.ancestors(graph, index) for index in ends))
    sliced = [row for row in chosen if row.index in kept]
    if not history.one_clock:
        sliced.sort(key=lambda row: (row.time_ns, row.index))
    meta, (stuck, reason) = history.meta, unplaced(anomaly, sliced)
    drawn = []
    for place, row in enumerate(sliced):
        before = sliced[:place]
        known = Known(chosen, before, meta.promises, history.one_clock, Evidence.CONFIRM in meta.reported)
        wrong = contradiction(row, known) or decided.get(row.index)
        arrow = arrow_of(row, before, graph, row.index in named, wrong)
        if row is stuck:
            arrow = replace(arrow, text=f"{arrow.text}; {reason}") if reason else arrow
            arrow = replace(arrow, why=arrow.why or f"{_who(row, arrow.target)} {arrow.text}", unplaced=wrong is None)
        drawn.append(replace(arrow, decided=_deciders(row, meta.decided_by, wrong)))
    return fold(drawn)


#: What is known against a row: other rows, or a law.
_Wrong = Contradiction | Decision | None


def _deciders(row: Row, decided_by: Mapping[str, Sequence[str]], wrong: _Wrong) -> tuple[str, ...]:
    """Return the methods behind what a node traced or answered."""
    if row.kind not in ("trace", "op") or not row.node:
        return ()
    details = (row.type, row.value.get("role"), row.entry.get("type"), *row.value)
    names = [*(f"{row.f} {detail}" for detail in details if isinstance(detail, str)), row.f]
    if isinstance(wrong, Decision):  # other decisions may stand behind such rows
        names = [wrong.name]
    elif wrong is not None:
        names = [f"{row.f} {wrong.name}", *names]
    return tuple(next((decided_by[name] for name in names if name in decided_by), ()))


def arrow_of(
    row: Row, before: Sequence[Row], graph: networkx.DiGraph[Any], named: bool = False, wrong: _Wrong = None
) -> Arrow:
    """Return the arrow of a row: from who led to it, by the ``graph`` and the rows ``before`` it, to who did it."""
    source, target = _ends(row, before, graph)
    what = f"{row.f} {row.type if row.kind == 'op' else row.value.get('role', '')}".strip()
    text = words(row, before, wrong.text if isinstance(wrong, Contradiction) else "")
    why = wrong.sentence if isinstance(wrong, Decision) else f"{_who(row, target)} {text}" if wrong else ""
    return Arrow(
        at_s=row.at_s, source=source, target=target, what=what, text=text, rows=(row.index,), named=named, why=why
    )


def _who(row: Row, target: str) -> str:
    """Return who did it: a node that answers somebody does it itself, and a reader is given something."""
    return row.node if row.kind == "op" and row.type == "ok" and row.f != DELIVERED else target


def _ends(row: Row, before: Sequence[Row], graph: networkx.DiGraph[Any]) -> tuple[str, str]:
    if row.kind == "fault":
        return "faults", targets(row)
    if row.kind == "op" and row.type == "invoke":
        return row.lane, str(row.value.get("to") or row.lane)
    if row.kind == "op" and row.node:
        return row.node, row.lane
    led = set(graph.predecessors(row.index))
    others = [one for one in before if one.index in led and one.lane != row.lane and one.kind != "fault"]
    return (others[-1].lane if others else row.lane), row.lane


def fold(arrows: Sequence[Arrow], most: int = ARROWS) -> tuple[list[Arrow], int]:
    """Fold like arrows that stand next to each other into one; beyond ``most``, like ones anywhere, the second one on.
    What matters least is left out last: how many arrows that are. What a law names is never left out."""
    folded: list[Arrow] = []
    for arrow in arrows:
        if folded and _like(folded[-1]) == _like(arrow) and not (folded[-1].named or arrow.named):
            folded[-1] = _joined(folded[-1], arrow)
        else:
            folded.append(arrow)
    if len(folded) > most:
        folded = _fold_anywhere(folded)
    ranks = [_rank(arrow) for arrow in folded]
    stays = sorted(range(len(folded)), key=lambda place: (ranks[place], place))
    stays = [place for count, place in enumerate(stays) if count < most or folded[place].named]
    return [folded[place] for place in sorted(stays)], len(folded) - len(stays)


def _fold_anywhere(arrows: Sequence[Arrow]) -> list[Arrow]:
    places: dict[tuple[str, str, str, bool], int] = {}
    folded: list[Arrow] = []
    for arrow in arrows:
        place = places.get(_like(arrow), -1)
        if place < 0 or arrow.named or _rank(arrow) < 2:
            if not arrow.named:
                places[_like(arrow)] = len(folded)
            folded.append(arrow)
        else:
            folded[place] = _joined(folded[place], arrow)
    return folded


def _like(arrow: Arrow) -> tuple[str, str, str, bool]:
    return arrow.source, arrow.target, arrow.what, bool(arrow.why)


def _joined(one: Arrow, other: Arrow) -> Arrow:
    decided = tuple(dict.fromkeys([*one.decided, *other.decided]))
    return replace(one, rows=tuple(sorted({*one.rows, *other.rows})), decided=decided, count=one.count + other.count)


def _rank(arrow: Arrow) -> int:
    """Return 0: the law names it, or it is wrong by itself, 1: it decided something, 2: it is a step on the way."""
    if arrow.named or arrow.why:
        return 0
    return 1 if arrow.what.split()[0] in DECISIVE or arrow.source == "faults" else 2
