"""Accidents of the machine: a node that neither a fault nor itself has ended is an unplanned fault on that node.

Its rows are those of any fault (:mod:`chaos.run.ledger`), under the name :data:`chaos.fault.ACCIDENT`. Its effects are
``takes_down`` and ``may_crash``, its undo starts the node again, at once, as an operator of a machine does. What it
excuses is undecided (:mod:`chaos.judging.outcome`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from chaos.deployment import Ended, EndedBy, TellsEnds
from chaos.driver import ClusterView, Record
from chaos.fault import ACCIDENT, Effect, Injection, NotNow, Undo, Verb, World, on
from chaos.run.ledger import Ledger
from chaos.run.undo import Undoer

#: How often it is looked whether a node has ended.
LOOK_S = 0.25
#: What has ended a node that had an accident, for people.
WHY = {
    EndedBy.MACHINE: "the kernel killed it for want of memory",
    EndedBy.UNKNOWN: "Stormproof did not send that signal, and nothing shows who did",
}


class _Accident:
    """Stands for the fault that nobody planned."""

    needs: Sequence[type] = ()

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        raise NotNow("nobody plans an accident")

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        raise NotNow("nobody injects an accident")


class Accidents:
    """Notes what befell nodes of a run by accident, each life's end once."""

    def __init__(self, deployment: object, ledger: Ledger, undoer: Undoer, record: Record) -> None:
        self._deployment = deployment
        self._ledger = ledger
        self._undoer = undoer
        self._record = record
        self._noted: set[tuple[str, int]] = set()

    async def watch(self) -> None:
        """Look for them until cancelled."""
        while isinstance(self._deployment, TellsEnds):
            for one in await self._deployment.ended():
                await self._note(one, restart=True)
            await asyncio.sleep(LOOK_S)

    async def last(self) -> None:
        """Note those that nobody has seen so far; the run is over, and nothing is started again."""
        if isinstance(self._deployment, TellsEnds):
            for one in await self._deployment.ended():
                await self._note(one, restart=False)

    async def _note(self, one: Ended, *, restart: bool) -> None:
        if one.by is EndedBy.ITSELF or (one.node, one.incarnation) in self._noted:
            return
        self._noted.add((one.node, one.incarnation))
        detail: dict[str, Any] = {"what": f"{one}; {WHY[one.by]}"}
        if one.alive_ns >= 0:
            detail["since_ns"] = one.alive_ns
        injection = Injection(
            targets=(one.node,),
            undo=(Undo(verb=Verb.START, subject=one.node),),
            detail=detail,
            effects=on((one.node,), Effect.TAKES_DOWN, Effect.MAY_CRASH),
        )
        if one.by is EndedBy.UNKNOWN:
            self._record("harness", f="killed", node=one.node, value={"what": f"{one}; {WHY[one.by]}"})
        active = self._ledger.planned(ACCIDENT, _Accident(), injection)
        active.prove(injection.effects or {})
        proof = {one.node: {"incarnation": one.incarnation, "exit_code": one.exit_code}}
        self._ledger.injected(active, proof)
        if restart:
            await self._undoer.take_back(active)
            self._ledger.undone(active, effective=True, proof={}, probe={}, restored=None)
        else:
            with self._ledger.closing(active):
                pass  # nobody starts it again
