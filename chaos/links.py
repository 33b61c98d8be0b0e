"""Rules on links: what happens to bytes that travel from one node or client to another.

A link is directed and carries connections as TCP does: ordered, at most once, breakable. So a network fault is one of
three things: bytes wait (``Drop``: a stall until the rule goes; dials hang), bytes come late (``Delay``), or
connections break (``Reset``). Several faults put up rules at the same time; the first answer that isn't ``Pass`` wins.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pass:
    """No opinion: the next rule is asked; after the last one, bytes go through."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Nothing gets through, and nobody is told: bytes wait in the sender's buffers, and dials hang."""


@dataclass(frozen=True, slots=True)
class Delay:
    """Bytes come ``delay_ns`` later, plus up to ``jitter_ns`` drawn for each chunk; order is kept."""

    delay_ns: int
    jitter_ns: int = 0


@dataclass(frozen=True, slots=True)
class Reset:
    """Each chunk breaks its connection with this probability, in 1/1000; buffered bytes are lost on both sides."""

    per_mille: int = 1000


@dataclass(frozen=True, slots=True)
class Stall:
    """Each chunk, with this probability in 1/1000, holds up its connection for ``stall_ns``."""

    per_mille: int
    stall_ns: int


Action = Pass | Drop | Delay | Reset | Stall

PASS = Pass()


@dataclass(frozen=True, slots=True)
class LinkRule:
    """Apply ``action`` to bytes from a member of ``sources`` to a member of ``targets``.

    Names are nodes or clients; ``"*"`` stands for every name but the harness's own (:data:`HARNESS`), which no rule
    ever touches: it must be able to observe and to heal.
    """

    sources: frozenset[str]
    targets: frozenset[str]
    action: Action

    def decide(self, source: str, target: str) -> Action:
        if (source in self.sources or "*" in self.sources) and (target in self.targets or "*" in self.targets):
            return self.action
        return PASS


#: The harness's own client: the one that observes, collects and switches.
HARNESS = "harness"


def decide(rules: Iterable[LinkRule], source: str, target: str) -> Action:
    """Ask the rules in order for what happens to bytes from ``source`` to ``target``."""
    if HARNESS in (source, target):
        return PASS
    for rule in rules:
        action = rule.decide(source, target)
        if not isinstance(action, Pass):
            return action
    return PASS
