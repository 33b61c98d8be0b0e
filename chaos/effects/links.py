"""Rules on links: what happens to bytes that travel from one node or client to another.

A link is directed and carries connections as TCP does: ordered, at most once, breakable. So whatever a network does,
one of these comes of it: bytes wait (``Drop``: a stall until the rule goes; dials hang), bytes come late (``Delay``,
``Stall``, ``Throttle``), connections break (``Reset``), their end is heard of late (``SlowClose``), or a bit of what
arrives is another one (``Corrupt``). What is done to requests of a kind (:mod:`chaos.effects.requests`) leaves bytes
alone. Several faults put up rules at the same time; :class:`Ruling` says what they do together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from types import UnionType

from chaos.effects.requests import OnRequests, Standing


@dataclass(frozen=True, slots=True)
class Pass:
    """Nothing happens: bytes go through as if there were no rule."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Nothing gets through, and nobody learns of it: bytes wait in the sender's buffers, and dials hang."""


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
    """Bytes go through, but the end of a connection is passed on ``delay_ns`` late; so is a refusal. Who dials again
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


Action = Pass | Drop | Delay | Reset | Stall | Throttle | Corrupt | SlowClose | Duplicate | Reorder | OnRequests

#: All that a rule may do to bytes on a link, by name. A deployment that can't do all has ``LINK_ACTIONS``.
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
        """Return whether a name is one of these names of the rule."""
        return name in names or ("*" in names and name not in self.but)


class Reach(StrEnum):
    """What became of a connection that was tried: it works; a rule has stopped it, as was seen where the rule is
    carried out; or it failed, or was too late, and no rule shows that it was the cause."""

    WORKS = "works"
    CUT = "cut"
    FAILS = "fails"


#: The harness's own client: the one that observes, collects and switches.
HARNESS = "harness"


#: Called with the id of a rule for each chunk, dial or end that it has an effect on.
Hit = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Ruling:
    """What all rules on one direction of a link do together, each as if it were a box of its own in the cable.

    So what delays and stalls adds up, ends included; of several limits the lowest one holds; each flips bits for
    itself. In front of them all stands what cuts: while anything drops, nothing gets through, and no reset either.
    ``bytes_per_s``: 0 without a limit. A rule is hit when it acts, whatever others do to the same chunk.
    """

    acting: Sequence[tuple[str, Action]] = ()
    cut: bool = False
    bytes_per_s: int = 0
    end_delay_ns: int = 0
    corrupts: bool = False

    @property
    def holds(self) -> bool:
        """Whether chunks have to wait that arrive: see :meth:`held`."""
        return self.cut or self.bytes_per_s > 0

    def late_ns(self, rng: Random, hit: Hit) -> int:
        """Return how much later a chunk arrives that is sent now."""
        late_ns = 0
        for rule_id, action in self.acting:
            if isinstance(action, Delay):
                hit(rule_id)
                late_ns += action.delay_ns + int(rng.random() * action.jitter_ns)
            elif isinstance(action, Stall | Duplicate | Reorder) and _strikes(action.per_mille, rng):
                hit(rule_id)
                late_ns += int((1.0 if isinstance(action, Stall) else rng.random()) * action.stall_ns)
        return late_ns

    def breaks(self, rng: Random, hit: Hit) -> bool:
        """Return whether a chunk that is sent now breaks its connection."""
        return not self.cut and self._strike(Reset, rng, hit) > 0

    def flips(self, rng: Random, hit: Hit) -> int:
        """Return how many bits of a chunk are flipped."""
        return self._strike(Corrupt, rng, hit)

    def held(self, hit: Hit) -> None:
        """Count a chunk that has to wait: until nothing drops any more, and until the limit lets it go."""
        self._count(Drop | Throttle, hit)

    def ends(self, hit: Hit) -> None:
        """Count the end of a connection, which is passed on ``end_delay_ns`` late."""
        self._count(SlowClose, hit)

    def _strike(self, kind: type[Reset] | type[Corrupt], rng: Random, hit: Hit) -> int:
        struck = [rule_id for rule_id, act in self.acting if isinstance(act, kind) and _strikes(act.per_mille, rng)]
        for rule_id in struck:
            hit(rule_id)
        return len(struck)

    def _count(self, kinds: type | UnionType, hit: Hit) -> None:
        for rule_id, action in self.acting:
            if isinstance(action, kinds):
                hit(rule_id)


#: No rule: everything goes through.
FREE = Ruling()


def ruling(rules: Mapping[str, LinkRule], source: str, target: str) -> Ruling:
    """Return what these rules, by id in the order in which they were put up, do to bytes from ``source`` to ``target``;
    :data:`FREE` itself if that is nothing."""
    if HARNESS in (source, target):
        return FREE
    decided = ((rule_id, rule.decide(source, target)) for rule_id, rule in rules.items())
    acting = tuple((rule_id, action) for rule_id, action in decided if not isinstance(action, Pass | OnRequests))
    if not acting:
        return FREE
    actions = [action for _, action in acting]
    return Ruling(
        acting,
        cut=any(isinstance(action, Drop) for action in actions),
        bytes_per_s=min((action.bytes_per_s for action in actions if isinstance(action, Throttle)), default=0),
        end_delay_ns=sum(action.delay_ns for action in actions if isinstance(action, SlowClose)),
        corrupts=any(isinstance(action, Corrupt) for action in actions),
    )


def on_requests(rules: Mapping[str, LinkRule], source: str, target: str) -> Standing:
    """Return what these rules do to what ``source`` asks ``target``."""
    if HARNESS in (source, target):
        return ()
    decided = ((rule_id, rule.decide(source, target)) for rule_id, rule in rules.items())
    return tuple((rule_id, action) for rule_id, action in decided if isinstance(action, OnRequests))


def _strikes(per_mille: int, rng: Random) -> bool:
    """Draw whether a rule hits one chunk."""
    return rng.random() * 1000 < per_mille
