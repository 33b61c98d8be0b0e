"""Looks for the goals that an experiment names in the rows of one run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from chaos import plugins
from chaos.errors import BadInput
from chaos.goal import Goal
from chaos.history.parted.choosing import Chosen
from chaos.judging.declared import Declared
from chaos.judging.shard import Shard
from chaos.kernel import Reads
from chaos.law import RunContext
from chaos.law_declaration import declared_rows
from chaos.plugins import PluginKind, spoken, unspoken


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """How often a run reached a goal; ``why`` nobody could look, where that is so (then ``times`` is 0)."""

    goal: str
    times: int = 0
    why: str = ""


def names() -> tuple[str, ...]:
    """All goals, as experiments name them, sorted."""
    return tuple(map(spoken, plugins.names(PluginKind.GOAL)))


def load(goal: str) -> Goal:
    """Return a goal. Raises :class:`BadInput` for an unknown one, with the nearest known one, and for one that is
    broken."""
    if unspoken(goal) not in plugins.names(PluginKind.GOAL):
        raise BadInput(f"unknown goal {goal!r}; {plugins.nearest(goal, names())}")
    try:
        made = plugins.build(PluginKind.GOAL, unspoken(goal))
    except BadInput:
        raise
    except Exception as error:  # a foreign file may raise anything at all
        raise BadInput(f"the goal {goal!r} is broken: {type(error).__name__}: {error}") from error
    if not isinstance(made, Goal):
        raise BadInput(f"the goal {goal!r} is broken: create() gave {type(made).__name__}, not a Goal")
    return made


def unseen(goals: Iterable[str], evidence: Iterable[str]) -> list[str]:
    """Return why goals can't be seen with the ``evidence`` that a driver reports; empty when all can. Raises as
    :func:`load`."""
    reported = frozenset(map(str, evidence))
    lacking = {goal: sorted(set(map(str, load(goal).evidence)) - reported) for goal in goals}
    return [
        f"the goal {goal!r} can't be seen: the driver does not report {', '.join(lacks)}"
        for goal, lacks in lacking.items()
        if lacks
    ]


def wanted_rows(goals: Sequence[str]) -> list[Chosen]:
    """Return the rows that these goals read; those of goals that are broken are none."""
    found = []
    for goal in goals:
        with suppress(BadInput):
            found += [Chosen(reads.kind, reads.f) for reads in load(goal).needs.rows]
    return found


def look(blocks: Iterable[pa.Table], goals: Sequence[str], context: RunContext) -> tuple[Sighting, ...]:
    """Look for each goal in all rows of a run, some at a time, in ``index`` order. One that crashes was not reached,
    and says why."""
    made: dict[str, Goal] = {}
    broken: dict[str, str] = {}
    for goal in goals:
        try:
            made[goal] = load(goal)
        except BadInput as error:
            broken[goal] = str(error)
    wanted = [reads for goal in made.values() for reads in goal.needs.rows]
    rows = Shard(pa.concat_tables(_chosen(block, wanted) for block in blocks).unify_dictionaries())
    return tuple(
        _sighting(goal, made[goal], rows, context) if goal in made else Sighting(goal=goal, why=broken[goal])
        for goal in goals
    )


def _sighting(name: str, goal: Goal, rows: Shard, context: RunContext) -> Sighting:
    try:
        return Sighting(
            goal=name, times=int(goal.reached(declared_rows(Declared(rows, goal.needs), context, goal.reads)))
        )
    except Exception as error:  # a foreign file may raise anything at all
        return Sighting(goal=name, why=f"the look for it crashed: {type(error).__name__}: {error}")


def _chosen(table: pa.Table, wanted: Sequence[Reads]) -> pa.Table:
    """Return the rows that some goal declares."""
    if not wanted:
        return table.slice(0, 0)
    kind, f = (table[name].cast(pa.string()) for name in ("kind", "f"))
    masks = [
        pc.and_(pc.equal(kind, reads.kind), pc.is_in(f, pa.array(reads.f))) if reads.f else pc.equal(kind, reads.kind)
        for reads in dict.fromkeys(wanted)
    ]
    return table.filter(reduce(pc.or_, masks))
