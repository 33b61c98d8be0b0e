"""Whether the states of a member that an exploration takes for one really go on alike."""

from __future__ import annotations

from benchmarks.exploration.env import ModelEnv
from benchmarks.exploration.event import Done, Event, Facts
from benchmarks.exploration.member import Make, frozen, thawed
from benchmarks.exploration.steps import Steps


class Alike(Steps):
    """Takes each step also from another state that has the same key, if one was met. ``compared``: so many were."""

    compared = 0

    def __init__(self, make: Make, *, at_once: bool) -> None:
        super().__init__(make, at_once=at_once)
        self._others: dict[int, bytes] = {}

    def number_of(self, env: ModelEnv, facts: Facts) -> int:
        known = len(self.facts)
        number = super().number_of(env, facts)
        if number < known:
            self._others.setdefault(number, frozen(env))
        return number

    def take(self, number: int, event: Event) -> tuple[int, Done]:
        is_new = (number, event) not in self._known
        found = super().take(number, event)
        other = self._others.get(number)
        if is_new and other is not None:
            Alike.compared += 1
            reached, did = self._taken(thawed(other), event)
            assert (reached, _by_peer(did)) == (found[0], _by_peer(found[1])), (number, event)
        return found


def _by_peer(did: Done) -> list[object]:
    """Messages to several peers leave in no order."""
    by_name = sorted(did.sent, key=lambda sent: sent[0])
    return [by_name, did.applied, did.restored, did.reads, did.acknowledged]
