"""Undoes injections, so that what two of them hold is let go by the last one, in whatever order they end."""

from __future__ import annotations

import asyncio
from typing import cast

from chaos.deployment import CanPause, Deployment
from chaos.driver import CanBreakTier, CanChangeControllers, CanDrain, Driver
from chaos.fault import NotNow, Undo, Verb
from chaos.run.ledger import Active, Ledger

#: A node that is resumed after its disk has failed it has ended within this time.
ENDS_S = 1.0


class Undoer:
    """``started_ns``: when it started a node last (-1: never)."""

    def __init__(self, deployment: Deployment, driver: Driver, ledger: Ledger) -> None:
        self._deployment = deployment
        self._driver = driver
        self._ledger = ledger
        self._deferred_restarts: set[str] = set()  # nodes to be started once more when they are resumed
        self._waiting: list[Undo] = []  # what the driver could not undo within its bound
        self.started_ns = -1

    async def take_back(self, active: Active) -> None:
        """Undo what no other injection that lasts has promised to undo later: a node that two faults hold down stays
        down until the second one lets it go."""
        with self._ledger.closing(active):
            for step in reversed(active.injection.undo):
                if not self._ledger.holds(step):
                    await self.perform(step)

    async def perform(self, step: Undo) -> None:
        """Undo one step. A node that was started again has forgotten that a fault still holds it paused."""
        if step.verb is Verb.MEND_TIER:
            await cast(CanBreakTier, self._driver).mend_tier(self._deployment, step.subject)
        elif step.verb is Verb.ADD_CONTROLLER:
            votes = await cast(CanChangeControllers, self._driver).add_controller(self._deployment, step.subject)
            self._waiting += [] if votes else [step]
        elif step.verb is Verb.UNDRAIN:
            undrained = await cast(CanDrain, self._driver).undrain(self._deployment, step.subject)
            self._waiting += [] if undrained else [step]
        else:
            await self._deployment.undo(step)
        if step.verb is Verb.START:
            self.started_ns = self._deployment.now_ns()
        if step.verb is Verb.START and self._ledger.holds(Undo(verb=Verb.RESUME, subject=step.subject)):
            try:
                await cast(CanPause, self._deployment).pause(step.subject)
            except NotNow:  # another fault has taken it down meanwhile, or it ran all the time, and is paused
                self._deferred_restarts.add(step.subject)
        elif step.verb is Verb.RESUME and step.subject in self._deferred_restarts:
            await self._restart(step.subject)

    async def let_join(self) -> None:
        """Once nothing lasts any more: let those controllers join, and those nodes serve, that could not while other
        faults lasted, such as one that kept the controllers' majority down."""
        waiting, self._waiting = self._waiting, []
        for step in waiting:
            await self.perform(step)

    async def _restart(self, node: str) -> None:
        """Start a node that was paused when it was to be started: one whose disk had failed it before ends only now."""
        self._deferred_restarts.discard(node)
        await asyncio.sleep(ENDS_S)
        step = Undo(verb=Verb.START, subject=node)
        if not self._ledger.holds(step):
            await self.perform(step)
