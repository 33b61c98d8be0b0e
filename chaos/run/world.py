"""What the faults of a run act upon: the deployment, the driver, and the view of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from chaos.deployment import CanAddNodes, CanReplaceNodes, Deployment
from chaos.driver import (
    CanAddBrokers,
    CanBreakTier,
    CanChangeControllers,
    CanDrain,
    CanForceSwitch,
    CanRemoveBrokers,
    CanSwitch,
    CanTransferLeader,
    CanUpgrade,
    ClusterView,
    Driver,
    Record,
    TierRule,
)
from chaos.fault import Effect, Injection, NotNow, Undo, Verb
from chaos.ops import Failed, Unknown
from chaos.run import proven
from chaos.run.ledger import Ledger
from chaos.run.undo import Undoer


class RunWorld:
    """The :class:`chaos.fault.World` of a run."""

    def __init__(
        self,
        *,
        deployment: Deployment,
        driver: Driver,
        record: Record,
        ledger: Ledger,
        undoer: Undoer,
        view: Callable[[], ClusterView],
        mutant: str = "",
    ) -> None:
        self._deployment = deployment
        self._driver = driver
        self._record = record
        self._ledger = ledger
        self._undoer = undoer
        self._view = view
        self._mutant = mutant
        self._switching = 0

    @property
    def deployment(self) -> object:
        return self._deployment

    @property
    def view(self) -> ClusterView:
        """As the runner sees it. Nothing is settled while a switch is under way or a fault holds a node down, nor until
        the runner has asked after a node was started."""
        view = self._view()
        old = 0 <= view.asked_ns < self._undoer.started_ns
        return replace(view, settled=False) if self._switching or old or self._ledger.holds_any_down() else view

    async def switch(self, target: str, *, group: str = "", forced: bool = False) -> Mapping[str, object]:
        """Have a node lead. Raises :class:`NotNow` also for a node that a fault holds down: one that is wiped right now
        would become the only one who is sure to hold everything."""
        if (holder := self._ledger.holder(target)) is not None:
            raise NotNow(f"{target} is down ({holder.process})")
        group = group or next((one.name for one in self.view.groups_of(target)), "")
        self._switching += 1
        try:
            if forced:
                return await cast(CanForceSwitch, self._driver).force_switch(self._deployment, target, group)
            return await cast(CanSwitch, self._driver).switch(self._deployment, target, group)
        except (Failed, Unknown) as error:
            raise NotNow(error.reason) from error
        finally:
            self._switching -= 1

    async def remove(self, node: str) -> Mapping[str, object]:
        try:
            return await cast(CanRemoveBrokers, self._driver).remove_broker(self._deployment, node)
        except (Failed, Unknown) as error:
            raise NotNow(error.reason) from error

    async def add(self, node: str) -> Mapping[str, object]:
        """Add a node. The history gets a row ``node_added`` once the group has taken it in, or should have."""
        driver = cast(CanAddBrokers, self._driver)
        spec = driver.broker(node, self._mutant)
        begun = await cast(CanAddNodes, self._deployment).add(spec)
        try:
            joined = await driver.welcome(self._deployment, node)
        finally:
            self._record("harness", f="node_added", node=node, value={"role": spec.role})
        return {node: begun, **joined}

    async def transfer_leader(self, target: str) -> Mapping[str, object]:
        try:
            return await cast(CanTransferLeader, self._driver).transfer_leader(self._deployment, target)
        except (Failed, Unknown) as error:
            raise NotNow(error.reason) from error

    async def remove_controller(self, node: str) -> Mapping[str, object]:
        try:
            return await cast(CanChangeControllers, self._driver).remove_controller(self._deployment, node)
        except (Failed, Unknown) as error:
            raise NotNow(error.reason) from error

    async def drain(self, node: str) -> Mapping[str, object]:
        try:
            return await cast(CanDrain, self._driver).drain(self._deployment, node)
        except (Failed, Unknown) as error:
            raise NotNow(error.reason) from error

    async def change_version(self, node: str, version: str) -> Mapping[str, object]:
        spec = cast(CanUpgrade, self._driver).in_version(version)[node]
        spec = replace(spec, mutant=self._mutant) if spec.package else spec
        return await cast(CanReplaceNodes, self._deployment).replace(spec)

    async def break_tier(self, rule_id: str, rule: TierRule) -> None:
        try:
            await cast(CanBreakTier, self._driver).break_tier(self._deployment, rule_id, rule)
        except (Failed, Unknown) as error:
            raise NotNow(error.reason) from error

    def hold(self, injection: Injection, nodes: Sequence[str]) -> None:
        for active in self._ledger.of(injection):
            active.up = {step.subject for step in injection.undo if step.verb is Verb.START} - {*nodes}

    def prove(self, injection: Injection, proof: Mapping[str, object], *only: Effect) -> None:
        shown = proven.by_action(injection, proof, only or tuple(Effect))
        for active in self._ledger.of(injection):
            active.prove(shown)

    async def start(self, node: str, injection: Injection) -> bool:
        step = Undo(verb=Verb.START, subject=node)
        for active in self._ledger.of(injection):
            active.up.add(node)
        if self._ledger.holds(step):
            return False
        await self._undoer.perform(step)
        return True
