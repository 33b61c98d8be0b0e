"""The states of single members, and the steps between them."""

from __future__ import annotations

from collections.abc import Hashable

from benchmarks.exploration.disk import ModelDisk
from benchmarks.exploration.env import ModelEnv
from benchmarks.exploration.event import Done, Event, Facts, Kind
from benchmarks.exploration.member import Make, frozen, take, thawed


class Violation(Exception):
    """What must hold does not."""


class Steps:
    """The states of single members, by number, and the steps between them, each taken once."""

    def __init__(self, make: Make, *, at_once: bool) -> None:
        self._make, self._at_once = make, at_once
        self._numbers: dict[Hashable, int] = {}
        self._blobs: list[bytes] = []
        self.facts: list[Facts] = []
        self._known: dict[tuple[int, Event], tuple[int, Done]] = {}

    def begin(self, name: str) -> tuple[int, Done]:
        env = ModelEnv(name, self._make(name), ModelDisk())
        return self._taken(env, Event(Kind.START))

    def take(self, number: int, event: Event) -> tuple[int, Done]:
        """Let a member take an event. Raises :class:`Violation` where the member's code fails."""
        known = self._known.get((number, event))
        if known is None:
            known = self._known[number, event] = self._taken(thawed(self._blobs[number]), event)
        return known

    def _taken(self, env: ModelEnv, event: Event) -> tuple[int, Done]:
        try:
            env = take(env, event, self._make, at_once=self._at_once)
            facts = env.member.facts(env)
        except (AssertionError, ValueError, LookupError, OSError) as error:
            raise Violation(f"{env.name} fails: {type(error).__name__}: {error}") from error
        if facts.wrong:
            raise Violation(f"{env.name} {facts.wrong}")
        did = env.did
        return self.number_of(env, facts), did

    def number_of(self, env: ModelEnv, facts: Facts) -> int:
        """Return the number of a member's state, a new one for one that has not been met."""
        number = self._numbers.setdefault((env.name, env.member.key(env, facts)), len(self._blobs))
        if number == len(self._blobs):
            self._blobs.append(frozen(env))
            self.facts.append(facts)
        return number
