"""What the controllers and masters owe at once while nothing hinders them, and what they change without any cause.

A broken connection shows the controllers at once that a broker is gone, and they notify the elected master at once.
Timers are there for what gets lost. So where nobody is touched but the master that died, waiting for a timer is too
late.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from chaos.fault import Effect
from chaos.findings import Findings
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.arrays import NEVER
from checkers._facts.causes import HARMLESS, Causes
from checkers._facts.committed import Course, Stage, courses
from checkers._facts.faults import Fault
from checkers._facts.run import at_s

#: So soon a master that died is replaced, and the elected one is master, while nothing hinders it; and as long as
#: the jitter of so many messages: that it is gone, an entry and its answers, who was elected, what its log agrees on.
SOON_S, MESSAGES = 0.7, 8
#: A node that was not touched for so long is well again: connected, heard, and known to live.
CALM_S = 3.0
#: A new leader of the controllers has patience with a master that it has not heard yet: as long as a broker may be
#: silent (and some time more, in which it decides). Where no row says how long that is, it is no longer than this.
SILENCE_S, DECIDES_S = 10.0, 0.5
#: Controllers that apply more entries than this meanwhile are busy: in one queue an election waits for all before it.
BUSY_ENTRIES = 20
#: Changes of a set to what it was already, one after the other.
UNCHANGED = 3

LATE_ELECTION, NEEDLESS_CHANGE = "late-election", "needless-change"
#: A process that ends by a fault.
_DIES = (Effect.TAKES_DOWN, Effect.MAY_CRASH)
_CALM_NS = int(CALM_S * 1e9)
#: No replica is configured to leave its set for having been behind for so short a time.
_FALLS_BEHIND_NS = 100_000_000


@dataclass(frozen=True, slots=True)
class _Window:
    """The time from which on nothing may have happened, when something was due to happen, and its bound."""

    since_ns: int
    now_ns: int
    until_ns: int


def soon_s(context: RunContext) -> float:
    """Return how soon what is due at once is done, in this run."""
    return SOON_S + MESSAGES * context.jitter_ns / 1e9


def _window(now_ns: int, bound_s: float) -> _Window:
    return _Window(now_ns - _CALM_NS, now_ns, now_ns + int(bound_s * 1e9))


class Calm:
    """Who was well in a window, with the same leader of the controllers all the time."""

    def __init__(self, rows: Rows, causes: Causes) -> None:
        self._causes = causes
        self._times = rows.column("time_ns")
        self._end_ns = int(self._times[-1]) if len(self._times) else -1
        raft = rows.where(kind="trace", f="raft").tolist()
        self._raft_ns = np.array([int(self._times[at]) for at in raft], dtype=np.int64)
        starts = rows.where(kind="trace", f="start").tolist()
        self._starts = [(int(self._times[at]), rows.text("node", at)) for at in starts]

    def moments(self, from_ns: int, until_ns: int, patience_ns: int = 0) -> Iterator[int]:
        """Yield when something that was due at ``from_ns`` is due: then, and again whenever what may have hindered it
        has been over for as long as it may be a cause (or ``patience_ns``), until ``until_ns``."""
        after_ns = max(self._causes.after_ns, patience_ns)
        yield from_ns
        ended = {*(fault.until_ns for fault in self._causes.faults), *self._raft_ns.tolist(), *dict(self._starts)}
        for ended_ns in sorted(one for one in ended if one < min(until_ns, self._end_ns)):
            if ended_ns >= from_ns - after_ns:
                yield ended_ns + after_ns + 1

    def touched(
        self, window: _Window, led_ns: int, *, but: str = "", harmless: tuple[Effect, ...] = HARMLESS
    ) -> Set[str] | None:
        """Who was touched in it, or started; None where nothing can be demanded of the controllers themselves, because
        somebody touched them since (a slow clock makes patience longer), or because none has led for ``led_ns`` yet."""
        causes = self._causes
        if causes.began_ns < 0 or window.now_ns < causes.began_ns or window.until_ns >= self._end_ns:
            return None
        ruled = causes.in_force(window.until_ns, window.since_ns)
        touched = set(causes.of(ruled, but=but, harmless=harmless))
        since_ns = min(window.since_ns, window.now_ns - led_ns)
        while_led = causes.of(causes.in_force(window.until_ns, since_ns), but=but, harmless=harmless)
        if while_led & causes.controllers or any(one.effects is None for one in ruled):
            return None
        lately = (self._raft_ns > window.now_ns - led_ns) & (self._raft_ns <= window.until_ns)
        if lately.any() or not len(self._raft_ns):
            return None
        return touched | {node for at, node in self._starts if window.since_ns < at <= window.until_ns}


def late_elections(rows: Rows, context: RunContext, found: Findings, causes: Causes) -> None:
    """Check that a master whose process ended is replaced at once, if somebody else could be elected; where something
    hinders that, as soon as the hindrance has been over for as long as it may be a cause."""
    calm, bound_s = Calm(rows, causes), soon_s(context)
    for group, course in rows.memo(courses).items():
        patience_ns = _patience_ns(rows, course)
        for fault in causes.faults:
            before = course.at(fault.index)
            if before is None or before.master not in _ended(fault):
                continue
            for now_ns in calm.moments(fault.from_ns, fault.until_ns, patience_ns):
                window = _window(now_ns, bound_s)
                able = _able(rows, calm, course, fault, window, patience_ns)
                if able is None:
                    break
                if not able:
                    continue
                found.count("deaths", 1)
                after = _at(rows, course, window.until_ns)
                if after is not None and after.master == before.master:
                    found.add(
                        LATE_ELECTION,
                        f"The process of {before.master}, the master of {group}, had ended by "
                        f"{(fault.from_ns - causes.began_ns) / 1e9:.3f} s, but {_later(fault.from_ns, window)} the "
                        "controllers had not replaced it, although nothing hindered them, and "
                        f"{', '.join(sorted(able))} could be elected.",
                        int(rows.column("index")[before.at]),
                        fault.index,
                    )
                break


def _ended(fault: Fault) -> Set[str]:
    """Those whose process the fault has ended."""
    return fault.hits(_DIES[0]) & fault.hits(_DIES[1])


def _later(from_ns: int, window: _Window) -> str:
    return f"{(window.until_ns - from_ns) / 1e9:g} s later"


def _able(rows: Rows, calm: Calm, course: Course, fault: Fault, window: _Window, patience_ns: int) -> Set[str] | None:
    """Who could be elected in the place of the master whose process this fault has ended, and had to be in this window;
    nobody, where something was in the way; None where it lives again by then, or was replaced before."""
    gone, stage = _ended(fault), _at(rows, course, window.now_ns)
    if fault.until_ns <= window.until_ns or stage is None or stage.master not in gone:
        return None
    touched = calm.touched(window, patience_ns, but=fault.process)
    is_new = rows.column("time_ns")[stage.at] > window.since_ns
    if touched is None or stage.master in touched or is_new or _entries(rows, window) > BUSY_ENTRIES:
        return frozenset()
    return stage.members - touched - fault.targets - gone


def _patience_ns(rows: Rows, course: Course) -> int:
    """Return how long the same controller must have led, so that it waits no longer for the first word of a master."""
    elected = [rows.value(stage.at) for stage in course.stages if stage.master and not stage.altered]
    silence_s = max((entry["silence_ms"] / 1e3 for entry in elected if "silence_ms" in entry), default=SILENCE_S)
    return max(int(1e9 * (silence_s + DECIDES_S)), _CALM_NS)


def _entries(rows: Rows, window: _Window) -> int:
    """Return how many entries were applied while something was due."""
    applied, times = rows.where(kind="trace", f="applied"), rows.column("time_ns")
    inside = applied[(times[applied] >= window.now_ns) & (times[applied] <= window.until_ns)]
    return len(np.unique(rows.column("position")[inside]))


def _at(rows: Rows, course: Course, now_ns: int) -> Stage | None:
    """Return the group's stage at this time."""
    times, index = rows.column("time_ns"), rows.column("index")
    return course.at(int(index[np.searchsorted(times, now_ns, side="right") - 1]))


def late_masters(rows: Rows, context: RunContext, found: Findings, causes: Causes) -> None:
    """Check that an elected replica takes the role at once: the controllers notify it. Where something hinders that, it
    does so as soon as the hindrance has been over for as long as it may be a cause."""
    calm, times, index, epoch = Calm(rows, causes), rows.column("time_ns"), rows.column("index"), rows.column("epoch")
    roles = [at for at in rows.where(kind="trace", f="role").tolist() if rows.value(at).get("role") == "master"]
    if not roles:
        return
    bound_s = soon_s(context)
    taken = {(rows.text("node", at), int(epoch[at])): int(times[at]) for at in reversed(roles)}
    for group, course in rows.memo(courses).items():
        elected_ns = -1
        for before, stage in pairwise(course.stages):
            if not stage.master or stage.epoch == before.epoch:
                continue
            row = int(np.searchsorted(index, stage.index))
            before_ns, elected_ns = elected_ns, int(times[row])
            for now_ns in calm.moments(elected_ns, NEVER):
                window = _window(now_ns, bound_s)
                later = _at(rows, course, window.until_ns)
                if later is None or later.epoch != stage.epoch:
                    break
                touched = calm.touched(window, _CALM_NS, harmless=(*HARMLESS, Effect.SWITCHES_MASTER))
                # It may still cut its log for the master before.
                if touched is None or stage.master in touched or before_ns > window.since_ns:
                    continue
                found.count("successions", 1)
                if taken.get((stage.master, stage.epoch), window.until_ns + 1) > window.until_ns:
                    found.add(
                        LATE_ELECTION,
                        f"{stage.master} was elected as the master of {group} in epoch {stage.epoch} at "
                        f"{at_s(rows, row)}, but {_later(elected_ns, window)} it was not master, although nothing "
                        "hindered it.",
                        stage.index,
                    )
                break


def needless_changes(rows: Rows, context: RunContext, found: Findings, causes: Causes) -> None:
    """While nothing touches anybody, no replica is taken out of a SyncStateSet, and no set is changed again and again
    to what it was already. Where each message may take long, a replica may fall behind for that alone."""
    if MESSAGES * context.jitter_ns > _FALLS_BEHIND_NS:
        return
    times, index = rows.column("time_ns"), rows.column("index")
    for group, course in rows.memo(courses).items():
        same: list[Stage] = []
        for before, stage in pairwise(course.stages):
            gone, now = before.members - stage.members, int(times[np.searchsorted(index, stage.index)])
            unchanged = stage.altered and stage.epoch == before.epoch and stage.members == before.members
            # A master whose proposal had no clear answer proposes what it knows, to learn how the set stands.
            if unchanged and not (causes.touched(now) or causes.any_life(now) or causes.nobody_knows(now)):
                same.append(stage)
            else:
                same = []
            if len(same) == UNCHANGED + 1:
                found.add(
                    NEEDLESS_CHANGE,
                    f"The SyncStateSet of {group} was changed {len(same)} times, one after the other, to what it was "
                    f"already, until {at_s(rows, stage.at)}; nothing else happened to the group meanwhile.",
                    *(int(index[one.at]) for one in same),
                )
            if not gone or not stage.altered or causes.began_ns < 0 or now < causes.began_ns:
                continue
            if causes.touched(now) or causes.any_life(now) or causes.nobody_knows(now):
                continue
            found.add(
                NEEDLESS_CHANGE,
                f"{', '.join(sorted(gone))} was taken out of the SyncStateSet of {group} at {at_s(rows, stage.at)}, "
                "although no fault had touched any node for a while, and none had started or crashed.",
                int(index[before.at]),
                int(index[stage.at]),
            )
