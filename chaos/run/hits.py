"""How often rules on links, disks and the tier have had an effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import cast

from chaos.deployment import CanRuleDisks, CanRuleLinks, Deployment, TellsClients
from chaos.driver import TIER_FAULT, CanBreakTier, Driver
from chaos.experiment.targets import CLIENT
from chaos.fault import Injection, Undo, Verb

#: Undo verbs whose subjects are rules; what a rule has held up or harmed is counted.
RULES = (Verb.CLEAR_RULE, Verb.CLEAR_DISK, Verb.MEND_TIER)


def rules(injection: Injection) -> list[Undo]:
    """Return the steps whose rules prove by their hits that the injection was effective; of others the injection proves
    it."""
    return [step for step in injection.undo if step.verb in RULES]


def on_links(injection: Injection) -> list[Undo]:
    return [step for step in injection.undo if step.verb is Verb.CLEAR_RULE]


class RuleHits:
    """Asks the deployment or the driver, whichever enforces a rule, how often it has hit something."""

    def __init__(self, deployment: Deployment, driver: Driver) -> None:
        self._deployment = deployment
        self._driver = driver
        self._of_tier: Counter[str] = Counter()  # as traced, by rule

    def on_trace(self, row: Mapping[str, object]) -> None:
        if row["f"] == TIER_FAULT:
            self._of_tier[str(cast(Mapping[str, object], row["value"])["rule"])] += 1

    async def of(self, steps: list[Undo]) -> dict[str, int]:
        """By rule."""
        return {step.subject: await self._of(step) for step in steps}

    async def clients(self, injection: Injection) -> frozenset[str] | None:
        """Return the clients that a fault on all clients has hit; None where it is none, or the deployment can't
        say."""
        if CLIENT not in injection.targets or not isinstance(self._deployment, TellsClients):
            return None
        found = [await self._deployment.clients_hit(step.subject) for step in on_links(injection)]
        return frozenset().union(*found)

    async def _of(self, step: Undo) -> int:
        if step.verb is Verb.CLEAR_DISK:
            return await cast(CanRuleDisks, self._deployment).disk_rule_hits(step.subject)
        if step.verb is Verb.MEND_TIER:
            hits = await cast(CanBreakTier, self._driver).tier_hits(self._deployment, step.subject)
            return max(hits, self._of_tier[step.subject])  # a store that has ended meanwhile knows of none
        return await cast(CanRuleLinks, self._deployment).rule_hits(step.subject)
