"""What may have been the cause of something: whom faults have touched, and when."""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import cached_property

from chaos.fault import Effect
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.faults import Fault, faults
from checkers._facts.run import bound, phase_time

#: So long after a fault has ended it may still be the cause of an election, if the bound is not higher.
AFTER_S = 10.0
#: What a fault may do without touching anybody who is elected, or elects.
HARMLESS = (Effect.HARMS_TIER, Effect.ADDS_REPLICA)


class Causes:
    """Whom faults have touched, and when: from their beginning until some time after their end."""

    def __init__(self, rows: Rows, context: RunContext) -> None:
        self.after_ns = int(1e9 * max(AFTER_S, bound(context, "available_s", AFTER_S)))
        self.controllers = frozenset(context.meta.controllers)
        self.began_ns = phase_time(rows, "load")
        self.faults = rows.memo(faults)
        recorded = {rows.text("f", at) for at in rows.where(kind="fault").tolist()}
        asked = set(context.meta.faults) - set(context.meta.drawn_faults)
        self._lacks_faults = bool(asked - recorded)
        times = rows.column("time_ns")
        lives = [at for f in ("start", "crash") for at in rows.where(kind="trace", f=f).tolist()]
        lives += rows.where(kind="op", f="elect").tolist()
        self.lives_ns = sorted(int(times[at]) for at in lives if times[at] >= self.began_ns)

    def near(self, now_ns: int, since_ns: int | None = None) -> list[Fault]:
        """Return the faults that were in force at this time (at any time since another one), or shortly before."""
        return self.in_force(now_ns, (now_ns if since_ns is None else since_ns) - self.after_ns)

    def in_force(self, now_ns: int, since_ns: int) -> list[Fault]:
        """Return the faults that were in force at any time between these two."""
        return [one for one in self.faults if one.began_ns <= now_ns and since_ns < one.until_ns]

    def touched(self, now_ns: int, since_ns: int | None = None, *, but: str = "") -> Set[str]:
        """Whom faults may have touched by then, ``but`` this one: also one that failed may have done some of it."""
        return self.of(self.near(now_ns, since_ns), but=but)

    def of(self, faults: Sequence[Fault], *, but: str = "", harmless: Sequence[Effect] = HARMLESS) -> Set[str]:
        """Whom these faults may have touched, ``but`` this one, by any effect that is not ``harmless``."""
        found: set[str] = set()
        for one in faults:
            harms = [effect for effect in one.effects or () if effect not in harmless]
            if harms and one.process != but:
                found |= one.targets | one.hits(*harms)
        return found

    def nobody_knows(self, now_ns: int, since_ns: int | None = None) -> bool:
        """Was a fault near that declares nothing, or may one have been near that is missing in the history?"""
        return self._lacks_faults or any(one.effects is None for one in self.near(now_ns, since_ns))

    def asked(self, now_ns: int) -> bool:
        """Was somebody to lead the controllers by request?"""
        changes = (one for one in self.near(now_ns) if Effect.SWITCHES_MASTER in (one.effects or ()))
        return any(one.targets & self.controllers for one in changes)

    def any_life(self, now_ns: int, since_ns: int | None = None) -> bool:
        """Did a node start or crash shortly before, or did an operator ask for another master?"""
        since_ns = now_ns if since_ns is None else since_ns
        return any(since_ns - self.after_ns < at <= now_ns for at in self.lives_ns)

    @cached_property
    def majority(self) -> int:
        return len(self.controllers) // 2 + 1
