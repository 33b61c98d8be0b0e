"""Rules on links: what happens to bytes that travel from one node or client to another.

A link is directed and carries connections as TCP does: ordered, at most once, breakable. So whatever a network does,
one of these comes of it: bytes wait (``Drop``: a stall until the rule goes; dials hang), bytes come late (``Delay``,
``Stall``, ``Throttle``), connections break (``Reset``), their end is heard of late (``SlowClose``), or a bit of what
arrives is another one (``Corrupt``). Several faults put up rules at the same time; the first answer that isn't
``Pass`` wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


@dataclass(frozen=True, slots=True)
class Throttle:
    """A connection carries at most ``bytes_per_s``; what comes faster waits, in order, and goes on at once when the
    rule goes."""

    bytes_per_s: int


@dataclass(frozen=True, slots=True)
class Corrupt:
    """One bit of each chunk is flipped, with this probability in 1/1000. TCP's own checksum lets few such chunks
    through, so this stands for what flips bits above it: memory, a proxy, a broken card that computes the checksum."""

    per_mille: int


@dataclass(frozen=True, slots=True)
class SlowClose:
    """Bytes go through, but the end of a connection is passed on ``delay_ns`` late; so is a refusal. Who dials anew
    meanwhile makes the old end known."""

    delay_ns: int


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Each chunk, with this probability in 1/1000, is sent twice. TCP throws the second copy away; what is left of it
    above TCP is that the connection may be held up, here for up to ``stall_ns``."""

    per_mille: int
    stall_ns: int


@dataclass(frozen=True, slots=True)
class Reorder:
    """Each chunk, with this probability in 1/1000, is overtaken by others for up to ``stall_ns``. TCP hands bytes over
    in order, so what is left of it above TCP is that these wait."""

    per_mille: int
    stall_ns: int


Action = Pass | Drop | Delay | Reset | Stall | Throttle | Corrupt | SlowClose | Duplicate | Reorder

#: All that a rule may do to a link, by name. A deployment that can't do all has ``LINK_ACTIONS``.
ACTIONS: Mapping[str, type] = {
    action.__name__: action for action in (Drop, Delay, Reset, Stall, Throttle, Corrupt, SlowClose, Duplicate, Reorder)
}

PASS = Pass()


@dataclass(frozen=True, slots=True)
class LinkRule:
    """Apply ``action`` to bytes from a member of ``sources`` to a member of ``targets``.

    Names are nodes or clients; ``"*"`` stands for every name but those in ``but`` and the harness's own
    (:data:`HARNESS`), which no rule ever touches: it must be able to observe and to heal. A rule whose action is
    ``Pass`` has no effect for the time being, and keeps its hits.
    """

    sources: frozenset[str]
    targets: frozenset[str]
    action: Action
    but: frozenset[str] = frozenset()

    def decide(self, source: str, target: str) -> Action:
        return self.action if self.holds(source, self.sources) and self.holds(target, self.targets) else PASS

    def holds(self, name: str, names: frozenset[str]) -> bool:
        """Whether a name is one of these names of the rule."""
        return name in names or ("*" in names and name not in self.but)


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
