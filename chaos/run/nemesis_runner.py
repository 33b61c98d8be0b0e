"""Fires an experiment's faults when their schedules say so, and undoes each when its time is over.

When: this file, by :mod:`chaos.experiment.schedule`. How one is injected, proven and undone: :mod:`chaos.run.injector`.
What lasts, and what the history says of it: :mod:`chaos.run.ledger`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import cast

from chaos.deployment import Deployment
from chaos.draws import Draws
from chaos.driver import ClusterView, Driver, Record
from chaos.experiment.model import FaultSpec, Trigger
from chaos.experiment.schedule import Watch, moments
from chaos.experiment.targets import Target
from chaos.fault import Acts, Fault
from chaos.run.accidents import Accidents
from chaos.run.hits import RuleHits
from chaos.run.injector import Injector
from chaos.run.journal import Journal
from chaos.run.ledger import Ledger, rest_unless
from chaos.run.undo import Undoer
from chaos.run.world import RunWorld
from chaos.tasks import Group

#: One whose rules hit nothing is injected so many times at most.
MOST_TIMES = 4
#: Of faults at random moments, those without effect after this part of the load go first; the others wait for them.
PRIORITY_PHASE = 2 / 3
PRIORITY_EVERY_S = 1.0


class NemesisRunner:
    """The faults of one run."""

    def __init__(
        self,
        faults: list[FaultSpec],
        *,
        deployment: Deployment,
        driver: Driver,
        record: Record,
        journal: Journal,
        view: Callable[[], ClusterView],
        draws: Draws,
        mutant: str = "",
    ) -> None:
        self._specs = faults
        self._faults: list[list[Fault]] = [[step.use.build() for step in spec.steps()] for spec in faults]
        self._draws = draws
        self._hits = RuleHits(deployment, driver)
        self._over = asyncio.Event()
        self._watches: dict[str, list[tuple[Watch, Callable[[str], None]]]] = {}
        self._set_off_so_far: Counter[int] = Counter()
        self.ledger = Ledger(record, journal)
        undoer = Undoer(deployment, driver, self.ledger)
        self.world = RunWorld(
            deployment=deployment,
            driver=driver,
            record=record,
            ledger=self.ledger,
            undoer=undoer,
            view=view,
            mutant=mutant,
        )
        self.injector = Injector(world=self.world, ledger=self.ledger, undoer=undoer, hits=self._hits)
        self.accidents = Accidents(deployment, self.ledger, undoer, record)

    @property
    def effective(self) -> frozenset[str]:
        """The names of faults that had an effect so far."""
        return frozenset(self.ledger.effective)

    async def run(self, duration_s: float, quiet_s: float = 0.0) -> None:
        """Inject the faults as scheduled for this long; in its last ``quiet_s`` seconds none lasts. Returns once no
        injection is under way any more; what then still lasts is left to :meth:`heal`."""
        await self._run(max(0.0, duration_s - quiet_s))
        if quiet_s:
            await self.heal()
            await asyncio.sleep(min(quiet_s, duration_s))

    async def heal(self) -> None:
        """Undo everything that still lasts (see :meth:`chaos.run.injector.Injector.undo_all`)."""
        await self.injector.undo_all()

    def on_trace(self, row: Mapping[str, object]) -> None:
        """Look at one trace row; faults that wait for it are injected at once (in the simulator: before the messages
        of that step leave)."""
        self._hits.on_trace(row)
        waiting = self._watches and self._watches.get(cast(str, row["f"]))  # most runs watch for nothing
        if waiting:
            now_s = asyncio.get_running_loop().time()
            for watch, fire in waiting:
                if watch.due(row, self.world.view, now_s):
                    fire(str(row.get("node", "")))

    # When

    async def _run(self, duration_s: float) -> None:
        self._over.clear()
        async with Group() as group:
            for number, spec in enumerate(self._specs):
                if spec.schedule.when is not None:
                    self._fire_on_event(group, number, spec.schedule.when)
                elif spec.schedule.after is None:
                    group.start(self._fire_at_times(group, number, duration_s))
            if any(spec.schedule.mean_s for spec in self._specs):
                group.start(self._fire_by_priority(group, duration_s * PRIORITY_PHASE))
            await asyncio.sleep(duration_s)
            self._watches.clear()
            self._over.set()
            for active in self.ledger.active:
                active.ending.set()

    def _fire_on_event(self, group: Group, number: int, trigger: Trigger) -> None:
        fired = 0

        def fire(node: str) -> None:
            nonlocal fired
            group.start(self._fire_later(group, number, fired, trigger.delay_s, node))
            fired += 1

        self._watches.setdefault(trigger.event, []).append((Watch(trigger), fire))

    async def _fire_later(self, group: Group, number: int, turn: int, delay_s: float, node: str = "") -> None:
        if not delay_s or await self._rest(delay_s):
            await self._fire(group, number, turn, node)

    async def _fire_at_times(self, group: Group, number: int, duration_s: float) -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        rng = self._draws.of(f"schedule/{self._which(number)}")
        spec = self._specs[number]
        for turn, moment in enumerate(moments(spec.schedule, duration_s, rng, spec.anew)):
            if not await self._rest(begin + moment - loop.time()):
                return
            if moment < duration_s * PRIORITY_PHASE or not self._gives_way(number):
                group.start(self._fire(group, number, turn))

    def _set_off(self, group: Group, number: int, name: str) -> None:
        """Start what waits in other entries until this fault of this entry has taken effect."""
        for other, spec in enumerate(self._specs):
            after = spec.schedule.after
            if after is not None and after.fault == name and other != number:
                group.start(self._fire_later(group, other, self._set_off_so_far[other], after.delay_s))
                self._set_off_so_far[other] += 1

    async def _fire_by_priority(self, group: Group, moment: float) -> None:
        """From that moment on inject what had no effect so far: an experiment that asks for a fault shall have it on
        every seed. One by one, since together they would leave no node for each other."""
        await self._rest(moment)
        for number, spec in enumerate(self._specs):
            for step, (which, fault) in enumerate(self._steps(number) if spec.schedule.mean_s else ()):
                if which.name not in self.ledger.effective and not self._over.is_set():
                    rng = self._draws.of(f"fault/{self._which(number)}/last/{step}")
                    group.start(self._inject_and_undo(group, number, which, fault, rng, asyncio.Event()))
                    await self._rest(PRIORITY_EVERY_S)

    def _gives_way(self, number: int) -> bool:
        """Return whether this fault waits because there is one at random moments that is still without effect, as it is
        not: among many faults some find no moment, such as one that needs all replicas in sync."""
        if not self._specs[number].schedule.mean_s:
            return False
        wanted = {step.name for spec in self._specs if spec.schedule.mean_s for step in spec.steps()}
        mine = {step.name for step in self._specs[number].steps()}
        return not wanted <= self.ledger.effective and mine <= self.ledger.effective

    # What

    def _which(self, number: int) -> str:
        """Whose random choices a fault makes: those of its own number, unless its file pins others."""
        draws = self._specs[number].draws
        return draws if draws and "/" not in draws else str(number)

    def _time(self, number: int, turn: int, step: int, spec: FaultSpec) -> str:
        """Return the same of one time that it fires, and of one step."""
        if "/" in spec.draws:
            return f"{spec.draws}/again/{turn}" if turn else spec.draws
        return f"{self._which(number)}/{turn}" + (f"/{step}" if step else "")

    def _steps(self, number: int) -> list[tuple[FaultSpec, Fault]]:
        return list(zip(self._specs[number].steps(), self._faults[number], strict=True))

    async def _fire(self, group: Group, number: int, turn: int, node: str = "") -> None:
        """Inject a fault and undo it when its time is over; then the next one of its sequence, if there is one, or
        already some time after this one's effect. Of faults in turn, only the one whose turn it is. ``node``: that of
        the event for which it fires."""
        steps = [(spec, _aimed(spec, fault, node)) for spec, fault in self._steps(number)]
        if self._specs[number].in_turn:
            steps = [steps[turn % len(steps)]]
        for step, (spec, fault) in enumerate(steps):
            if step and self._over.is_set():
                return
            rng = self._draws.of(f"fault/{self._time(number, turn, step, spec)}")
            began = asyncio.Event()
            whole = self._inject_and_undo(group, number, spec, fault, rng, began)
            after_s = spec.then.after_s if spec.then else None
            if after_s is not None:
                group.start(whole)
                await began.wait()
                if not await self._rest(after_s):
                    return
            elif not await whole or (spec.rest_s and not await self._rest(spec.rest_s)):
                return

    async def _inject_and_undo(
        self, group: Group, number: int, spec: FaultSpec, fault: Fault, rng: Random, began: asyncio.Event
    ) -> bool:
        """Inject a fault, and undo it in its time; once more when its rules hit nothing, nor did any of its kind so
        far. ``began`` is set once it took effect, or won't any more. False when it lasts until the end of the load."""
        for attempt in range(MOST_TIMES):
            active = await self.injector.inject_with_retry(spec.name, fault, rng, self._rest)
            began.set()
            if active is None:
                break
            if not attempt:
                self._set_off(group, number, spec.name)
            if isinstance(fault, Acts) and not self._over.is_set():
                active.acting = group.start(active.act(fault, self.world))
            else:
                active.acted.set()
            if active.injection.passes:
                await rest_unless(active.acted, spec.for_s or None)
            elif active.injection.undo and not (spec.for_s and await self._rest(spec.for_s)):
                return False
            await self.injector.undo(active)
            if spec.name in self.ledger.effective or self._over.is_set():
                break
        return True

    async def _rest(self, seconds: float) -> bool:
        """Sleep; False when the load ended meanwhile."""
        return await rest_unless(self._over, seconds)


def _aimed(spec: FaultSpec, fault: Fault, node: str) -> Fault:
    """Return the fault, with the node of the event as its target where it asks for that."""
    if getattr(spec.use.options, "target", "") != Target.EVENT_NODE:
        return fault
    aimed: Fault = replace(spec.use, options=replace(spec.use.options, target=node)).build()
    return aimed
