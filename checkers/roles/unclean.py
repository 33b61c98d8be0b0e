"""Whether a replica that was not in sync became the master although one that was in sync lived.

A profile may permit such an election, at the price of what was acknowledged: when no member of the SyncStateSet lives,
or when an operator forces it. It is judged where nothing but a planned switch was near.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from chaos.driver import Evidence
from chaos.events import Applied, Bootstrap, Crash, RaftRole, Start
from chaos.fault import Effect
from chaos.findings import Findings, decide
from chaos.law import Key, Law, Partial
from chaos.law import Rows as LawRows
from chaos.operations import Elect, FaultRow, HarnessRow
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts.arrays import Ints
from checkers._facts.causes import HARMLESS, Causes
from checkers._facts.promptness import CALM_S
from checkers.roles.promise import ELECTION_OUTSIDE_SET, PROMISE


class Unclean(Law):
    """No unclean election while a member of the SyncStateSet lives, unless it is forced."""

    promise = PROMISE
    key = Key.RUN
    reads = (Applied, RaftRole, Start, Crash, Bootstrap, Elect, HarnessRow, FaultRow)
    evidence = (Evidence.ELECTIONS,)
    part = "elections without need"

    def examine(self, given: LawRows) -> Partial:
        rows, context = given.columns, given.run
        found = Findings(PROMISE)
        if not context.one_clock or not context.profile.unclean or facts.may_lack_ends(rows):
            return found.partial()
        causes, times = Causes(rows, context), rows.column("time_ns")
        changed: dict[str, int] = {}  # group → when it had an election last
        seen: set[int] = set()
        for at in rows.where(kind="trace", f="applied").tolist():
            entry, position = rows.value(at).get("entry") or {}, int(rows.column("position")[at])
            if position in seen or entry.get("type") != "elect" or entry.get("unattended"):
                continue
            seen.add(position)
            group, now = str(entry.get("group", "")), int(times[at])
            before, changed[group] = changed.get(group, now), now
            if entry.get("unclean") and now - before > CALM_S * 1e9:
                _judge(rows, found, causes, at, entry)
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        return decide(PROMISE, partial)  # whether there was an election at all, another kernel says


def _judge(rows: Rows, found: Findings, causes: Causes, at: int, entry: Mapping[str, object]) -> None:
    """Judge an unclean election: could a member of the set have been elected, as far as the controllers knew?"""
    now = int(rows.column("time_ns")[at])
    touched = causes.of(causes.near(now), harmless=(*HARMLESS, Effect.SWITCHES_MASTER))
    if causes.began_ns < 0 or now < causes.began_ns or not causes.controllers or touched & causes.controllers:
        return
    led = rows.where(kind="trace", f="raft")
    if not len(led) or _lately(rows, causes, now, led):  # a new leader may not have heard of all who live
        return
    if _lately(rows, causes, now, rows.where(kind="op", f="elect")) or _was_forced(rows, causes, now):
        return
    lives = np.concatenate([rows.where(kind="trace", f=f) for f in ("start", "crash", "bootstrap")])
    begun = {rows.text("node", one) for one in _lately(rows, causes, now, lives)}
    previous = entry.get("previous_set")
    members = set(map(str, previous)) if isinstance(previous, list) else set()
    well = sorted(members - touched - begun)
    if not well:
        return
    if causes.nobody_knows(now):
        found.gap("an unclean election has no need but perhaps a fault that declares no effects")
        return
    found.add(
        ELECTION_OUTSIDE_SET,
        f"{entry.get('master')} was elected master of epoch {entry.get('master_epoch')} at {facts.at_s(rows, at)} "
        f"although it was not in sync, and {', '.join(well)} of the SyncStateSet lived: no fault but a planned switch "
        "had touched it for a while.",
        int(rows.column("index")[at]),
    )


def _lately(rows: Rows, causes: Causes, now: int, some: Ints) -> list[int]:
    """Return those of these rows that may still count: a cause counts for a while, but what was before the load for
    less."""
    since = min(max(now - causes.after_ns, causes.began_ns), now - int(CALM_S * 1e9))
    times = rows.column("time_ns")[some]
    return [int(at) for at in some[(times > since) & (times <= now)]]


def _was_forced(rows: Rows, causes: Causes, now: int) -> bool:
    """Had a switch been asked for lately in another mode than as a planned one?"""
    asked = (rows.value(at).get("detail") for at in _lately(rows, causes, now, rows.where(kind="fault")))
    return any(isinstance(detail, Mapping) and bool(detail.get("mode")) for detail in asked)
