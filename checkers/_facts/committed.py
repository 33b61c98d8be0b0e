"""The SyncStateSet as the controllers committed it, along their log, and as masters say that they count on it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from chaos.shard_rows import Rows
from checkers._facts.arrays import NEVER, Flags, Ints, groups
from checkers._facts.masters import masters


@dataclass(frozen=True, slots=True)
class Stage:
    """The state of a group from the entry of row ``at`` on. ``index``: that of the row by which the first controller
    reported that it had applied the entry. ``master`` is "" while there is none."""

    index: int
    at: int
    members: frozenset[str]
    epoch: int
    master: str
    altered: bool


@dataclass(slots=True)
class Course:
    """The stages of one group, in the order of the controllers' log."""

    stages: list[Stage] = field(default_factory=list)

    def at(self, index: int) -> Stage | None:
        """Return the stage at the time of this row (in a simulated run, where ``index`` is one clock)."""
        place = bisect_right(self.stages, index, key=lambda stage: stage.index) - 1
        return self.stages[place] if place >= 0 else None

    @property
    def masters(self) -> Mapping[int, str]:
        """Epoch → who was elected."""
        return {stage.epoch: stage.master for stage in self.stages if stage.master}


def courses(rows: Rows) -> Mapping[str, Course]:
    """Return group → its course. Empty where an entry is missing from the record, so that the sets are unknown."""
    position, index = rows.column("position"), rows.column("index")
    first: dict[int, int] = {}
    for at in rows.where(kind="trace", f="applied").tolist():
        first.setdefault(int(position[at]), at)
    if len(first) != max(first, default=0):
        return {}
    found: dict[str, Course] = {}
    known_at = -1
    for number in sorted(first):
        at = first[number]
        known_at = max(known_at, int(index[at]))
        entry = rows.value(at).get("entry") or {}
        if isinstance(entry.get("group"), str) and not entry.get("unattended"):
            course = found.setdefault(entry["group"], Course())
            _follow(course, known_at, at, entry)
    return found


def _follow(course: Course, index: int, at: int, entry: Mapping[str, object]) -> None:
    before = course.stages[-1] if course.stages else Stage(-1, -1, frozenset(), -1, "", False)
    members, master, epoch = before.members, before.master, before.epoch
    names, removed = entry.get("set"), entry.get("removed")
    if isinstance(names, Sequence):
        members = frozenset(map(str, names))
    elif isinstance(removed, Sequence):
        members -= frozenset(map(str, removed))
    kind, number = entry.get("type"), entry.get("master_epoch")
    if kind != "alter" and isinstance(number, int):
        epoch, master = number, str(entry.get("master", "")) if kind == "elect" else ""
    course.stages.append(Stage(index, at, members, epoch, master, kind == "alter"))


@dataclass(frozen=True, slots=True)
class Told:
    """Whom a master says that it counts on, from the row ``at`` on: its set and those that it has proposed."""

    index: int
    at: int
    members: frozenset[str]


@dataclass(frozen=True, slots=True)
class SetRows:
    """Rows that may name a master's SyncStateSet: those of roles, of sets, and of confirm offsets, each in the order of
    recording. ``code``: which of ``sets`` (members, proposed) each names; ``number``: its set epoch, NEVER for none."""

    at: Ints
    code: Ints
    number: Ints
    sets: Sequence[tuple[frozenset[str], frozenset[str]]]

    def only(self, keep: Flags | Ints) -> SetRows:
        return SetRows(self.at[keep], self.code[keep], self.number[keep], self.sets)


def set_rows(rows: Rows) -> SetRows:
    at = np.concatenate([rows.where(kind="trace", f=f) for f in ("role", "set", "confirm")])
    is_role = rows.column("f")[at] == rows.code("f", "role")
    code, number = np.full(len(at), -1, dtype=np.int64), np.full(len(at), NEVER, dtype=np.int64)
    known: dict[tuple[frozenset[str], frozenset[str]], int] = {}
    for form in rows.forms(at):
        pair = (frozenset(form.value.get("set") or ()), frozenset(form.value.get("proposed") or ()))
        by_master = form.at if form.value.get("role") == "master" else form.at[~is_role[form.at]]
        code[by_master] = known.setdefault(pair, len(known))
        epoch = form.value.get("set_epoch")
        if isinstance(epoch, int | np.ndarray):
            number[form.at] = form.whole(epoch)
    return SetRows(at, code, number, [*known]).only(code >= 0)


def told_sets(rows: Rows) -> Mapping[tuple[str, int], Sequence[Told]]:
    """Return (node, epoch) of each master term → the sets that the master reported, each time that it was another one,
    in the order of recording."""
    index, node, epoch = (rows.column(name) for name in ("index", "node", "epoch"))
    found: dict[tuple[str, int], list[Told]] = {key: [] for key in sorted(rows.memo(masters))}
    reported = rows.memo(set_rows)
    reported = reported.only(np.argsort(reported.at))
    unions = [members | proposed for members, proposed in reported.sets]
    code = np.array([unions.index(union) for union in unions], dtype=np.int64)[reported.code]
    order, starts = groups(node[reported.at], epoch[reported.at])
    another = np.ones(len(order), dtype=np.bool_)
    another[1:] = code[order[1:]] != code[order[:-1]]
    another[starts] = True
    for place in np.sort(order[another]).tolist():
        at = int(reported.at[place])
        key = (rows.text("node", at), int(epoch[at]))
        if key in found:
            found[key].append(Told(int(index[at]), at, unions[reported.code[place]]))
    return found


def changes_of_sets(rows: Rows) -> Ints:
    """Keep the rows by which a node reports, in an epoch, another set or another set epoch than with its row before.
    What it repeats says nothing new: neither whom it counted on (:func:`told_sets`), nor when it first said so.
    A sieve."""
    reported = rows.memo(set_rows)
    reported = reported.only(np.argsort(reported.at))
    order, starts = groups(rows.column("node")[reported.at], rows.column("epoch")[reported.at])
    another = np.ones(len(order), dtype=np.bool_)
    another[1:] = (reported.code[order[1:]] != reported.code[order[:-1]]) | (
        reported.number[order[1:]] != reported.number[order[:-1]]
    )
    another[starts] = True
    return reported.at[order[another]]
