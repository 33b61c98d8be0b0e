"""Injects one fault, proves its effect, and undoes it.

For each attempt: the undo steps go to the journal, then the injection happens and is probed; one without effect is
taken back. After the undo it is probed again, until nothing of it shows any more.
"""

from __future__ import annotations

import asyncio
from random import Random

from chaos.errors import ChaosError
from chaos.fault import Achieves, Fault, NotNow, Probes, Rest
from chaos.run import proven
from chaos.run.hits import RuleHits, on_links, rules
from chaos.run.ledger import Active, Ledger, Seen
from chaos.run.probes import ACROSS, EFFECT, WITHIN, Extent, caused
from chaos.run.undo import Undoer
from chaos.run.world import RunWorld

#: A fault that can't be injected, or had no effect, is tried again this often, for so long.
RETRY_S = 0.25
RETRY_FOR_S = 10.0
#: After an undo it is probed this often, for so long, until nothing of the fault shows any more.
GONE_EVERY_S = 0.1
GONE_WITHIN_S = 2.0


class Injector:
    """One fault at a time of many that may overlap; the ledger knows of all."""

    def __init__(self, *, world: RunWorld, ledger: Ledger, undoer: Undoer, hits: RuleHits) -> None:
        self._world = world
        self._ledger = ledger
        self._undoer = undoer
        self._hits = hits

    async def inject_with_retry(self, name: str, fault: Fault, rng: Random, rest: Rest) -> Active | None:
        """Try until the fault is effective; None when it never was within the bound, or ``rest`` said False."""
        deadline = asyncio.get_running_loop().time() + RETRY_FOR_S
        while True:
            active, reason = await self._try(name, fault, rng)
            if active is not None:
                return active
            if asyncio.get_running_loop().time() >= deadline or not await rest(RETRY_S):
                if reason:
                    self._ledger.refused(name, reason)
                return None

    async def inject(self, name: str, fault: Fault, rng: Random) -> Active | None:
        """Try once; None when it had no effect, or can't be planned now (then nothing is recorded)."""
        return (await self._try(name, fault, rng))[0]

    async def _try(self, name: str, fault: Fault, rng: Random) -> tuple[Active | None, str]:
        """Return what is to be undone later; or None, and why it can't be planned now ("" when it was planned,
        recorded, and had no effect)."""
        try:
            injection = fault.plan(self._world.view, rng, self._ledger.next_process)
        except NotNow as reason:
            return None, str(reason)
        active = self._ledger.planned(name, fault, injection)
        try:
            proof = await fault.inject(self._world, injection)
            active.seen = await self._probe(active)
            shown = proven.by_injection(injection, proof, active.seen)
            if await self._hits.clients(injection) is not None:  # the probe has shown what it felt itself
                shown = proven.but_clients(shown)
            active.prove(shown)
            if active.seen.get(EFFECT) in (Extent.NONE, Extent.UNCLEAR):
                raise NotNow("the probe shows no effect")
        except NotNow as reason:
            await self._undoer.take_back(active)
            self._ledger.failed(active, str(reason))
            return None, ""
        if active.seen:
            so_far = await self._hits.of(rules(injection))
            active.hits_of_probes = min(sum(so_far.values()), caused(active.seen, ACROSS))
        self._ledger.injected(active, proof)
        if not rules(injection) and not isinstance(fault, Achieves):
            self._ledger.effective.add(name)
        return active, ""

    async def undo(self, active: Active) -> None:
        """Undo and record whether the fault had an effect: rules must have held something up, besides probes."""
        await active.end_action()
        by_rule = await self._hits.of(rules(active.injection))
        hits = sum(by_rule.values()) - active.hits_of_probes
        clients = await self._hits.clients(active.injection)
        achieved = not isinstance(active.fault, Achieves) or active.fault.achieved(self._world, active.injection)
        await self._undoer.take_back(active)
        effective = hits > 0 if by_rule else achieved
        if clients is not None:
            effective = effective and bool(clients)
        if effective:
            self._ledger.effective.add(active.name)
        if effective and by_rule:
            hit = [rule for rule, count in by_rule.items() if count]
            active.prove(proven.by_hits(active.injection, hit, active.seen))
        probe, restored = await self._probe_until_gone(active)
        proof: dict[str, object] = {"hits": hits} if by_rule else {}
        if clients is not None:
            proof["clients"] = sorted(clients)
        self._ledger.undone(active, effective=effective, proof=proof, probe=probe, restored=restored)

    async def undo_all(self) -> None:
        """Undo everything that still lasts, newest first. An undo that fails doesn't keep the others from being
        done; the first error is raised at the end."""
        first: Exception | None = None
        for active in reversed(list(self._ledger.active)):
            try:
                await self.undo(active)
            except Exception as error:  # whatever one undo met, the next ones must still be tried
                first = first or error
        if first is not None:
            raise first
        await self._undoer.let_join()

    async def _probe(self, active: Active) -> Seen:
        """Return what is seen of it now. Connections that it tries may run into rules of others; these hits prove
        nothing."""
        if not isinstance(active.fault, Probes):
            return {}
        others = [other for other in self._ledger.active if other is not active] if on_links(active.injection) else []
        before = [await self._hits_on_links(other) for other in others]
        probe = await active.fault.probe(self._world, active.injection)
        for other, hits in zip(others, before, strict=True):
            more = await self._hits_on_links(other) - hits
            other.hits_of_probes += max(0, min(caused(probe, ACROSS, WITHIN), more))
        return probe

    async def _hits_on_links(self, active: Active) -> int:
        return sum((await self._hits.of(on_links(active.injection))).values())

    async def _probe_until_gone(self, active: Active) -> tuple[Seen, bool | None]:
        """Return what is seen after the undo, for the history, and whether nothing of the fault shows any more: None
        while other faults last, whose effect may look the same. A probe that fails must not keep anything from being
        undone."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + GONE_WITHIN_S
        try:
            probe = await self._probe(active)
            while probe.get(EFFECT, Extent.NONE) != Extent.NONE and not self._ledger.active:
                if loop.time() >= deadline_s:
                    break
                await asyncio.sleep(GONE_EVERY_S)
                probe = await self._probe(active)
        except ChaosError as error:
            probe = {"error": str(error)}
        if EFFECT in probe and (probe[EFFECT] == Extent.NONE or not self._ledger.active):
            return probe, probe[EFFECT] == Extent.NONE
        return probe, None
