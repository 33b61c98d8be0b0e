"""The linearizability checker in Python alone: for machines without Java, for short runs, and as the other opinion.

Every object of a history is searched for itself (Herlihy and Wing: linearizability is local), the smallest first, in
turns that grow, so that an illegal object is found soon even beside a hopeless one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from checkers.linearizable.history import DeadEnd, History, Result, Undecided, Witness
from checkers.linearizable.models import Model, model_named, restricts_nothing
from checkers.linearizable.python.depth_first import DepthFirst, Status
from checkers.linearizable.python.minimal import minimal

#: Configurations in the first turn of every object, and how much longer each turn is than the one before.
FIRST_TURN = 1_000
GROWTH = 4
#: Configurations between two looks at the clock, for an object with few operations: some hundredths of a second. Where
#: thousands overlap, each configuration takes as much longer.
SLICE, FEW = 2_000, 1_000
#: What the search for a minimal witness may cost.
MINIMAL_CONFIGURATIONS = 100_000
MINIMAL_S = 1.0


def examine(
    history: History,
    *,
    max_configs: int = 1_000_000,
    max_seconds: float | None = None,
    every_key: bool = True,
    orders: bool = False,
) -> Result:
    """Judge one history.

    ``max_configs`` and ``max_seconds`` bound the whole history: what is undecided then is named in the result. Without
    ``every_key`` the first violation ends it. ``orders``: return a linearization of every object when all have one.
    Raises BadInput: no such model, or the model has no such operation.
    """
    start = time.perf_counter()
    end = None if max_seconds is None else start + max_seconds
    model = model_named(history.model)
    objects: dict[str | None, list[int]] = {}
    for number, operation in enumerate(history.operations):
        objects.setdefault(operation.key, []).append(number)
    searches = {
        key: DepthFirst(model, history.init, history.operations, numbers)
        for key, numbers in sorted(objects.items(), key=lambda item: len(item[1]))
    }
    gave_up = _take_turns(list(searches.values()), max_configs, end, every_key)
    broken = [key for key, search in searches.items() if search.status is Status.VIOLATION]
    undecided = tuple(
        Undecided(key=key, reason=gave_up, placed=search.placed, of=len(search.completed))
        for key, search in searches.items()
        if search.status is Status.RUNNING
    )
    witness = None
    if broken:
        left_s = MINIMAL_S if end is None else min(MINIMAL_S, end - time.perf_counter())
        witness = _witness(model, history, broken[0], searches[broken[0]], left_s)
    valid = False if broken else None if undecided else True
    return Result(
        id=history.id,
        valid=valid,
        ms=(time.perf_counter() - start) * 1000,
        configs=sum(search.visited for search in searches.values()),
        peak_mib=0.0,
        undecided=undecided if every_key or not broken else (),
        witness=witness,
        orders={key: searches[key].order() for key in objects} if orders and valid else {},
    )


def _take_turns(searches: Sequence[DepthFirst], max_configs: int, end: float | None, every_key: bool) -> str:
    """Run the searches until all are decided, the first violation is found, or the budget is spent; then return which
    part of the budget that was."""
    visited = 0
    turn = FIRST_TURN
    running = list(searches)
    while running:
        for search in running:
            target = search.visited + turn
            while search.status is Status.RUNNING and search.visited < target:
                if end is not None and time.perf_counter() >= end:
                    return "time"
                if visited >= max_configs:
                    return f"{max_configs:,} configurations"
                before = search.visited
                search.run(min(_slice(search), target - before, max_configs - visited))
                visited += search.visited - before
            if search.status is Status.VIOLATION and not every_key:
                return "another object is not linearizable"
        running = [search for search in running if search.status is Status.RUNNING]
        turn *= GROWTH
    return ""


def _slice(search: DepthFirst) -> int:
    return max(1, SLICE * FEW // max(FEW, len(search.completed)))


def _witness(model: Model, history: History, key: str | None, search: DepthFirst, seconds: float) -> Witness:
    """Say why the object is not linearizable."""
    operations = history.operations
    blocked = operations[search.blocked]
    # What was called after the blocked operation returned can only make it worse.
    culprits = [
        number
        for number, operation in enumerate(operations)
        if operation.key == key and operation.call < (blocked.ret or 0) and not restricts_nothing(operation)
    ]
    return Witness(
        key=key,
        reason="",
        prefix=search.dead_ends[0].order,
        blocked=search.blocked,
        dead_ends=tuple(DeadEnd(order=b.order, state=b.state, illegal=b.illegal) for b in search.dead_ends),
        minimal=minimal(history, culprits, _StillIllegal(model, history, seconds)),
    )


class _StillIllegal:
    """Asks whether some operations alone are not linearizable; ``spent`` when it may not search any more."""

    def __init__(self, model: Model, history: History, seconds: float) -> None:
        self._model = model
        self._history = history
        self._left = MINIMAL_CONFIGURATIONS
        self._end = time.perf_counter() + seconds
        self.spent = False

    def __call__(self, numbers: Sequence[int]) -> bool:
        search = DepthFirst(self._model, self._history.init, self._history.operations, numbers)
        while search.status is Status.RUNNING and not self.spent:
            before = search.visited
            search.run(min(_slice(search), self._left))
            self._left -= search.visited - before + 1
            self.spent = self._left <= 0 or time.perf_counter() >= self._end
        return search.status is Status.VIOLATION
