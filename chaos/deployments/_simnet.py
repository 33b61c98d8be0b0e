"""Simulated links: ordered, at most once, breakable, buffered, as TCP connections are.

Each pair of names has two pipes, one per direction. A node's first message to another node opens its pipe (a dial); a
node reaches a client only over the connection that the client opened. Both pipes of a pair break together, and the far
side hears of it through the pipe itself, so a stalled link also hides a peer's death.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappush
from random import Random
from typing import Protocol

from chaos.deployments._loop import VirtualLoop
from chaos.links import Action, Delay, Drop, LinkRule, Pass, Reset, Stall, decide
from chaos.node import Message

#: One-way latency: a constant of each direction, drawn once, plus jitter for each chunk, plus time by size.
BASE_LATENCY_NS = (200_000, 600_000)
JITTER_NS = 400_000
NS_PER_BYTE = 8
#: A sender's buffers: when so many chunks wait for a stalled link, the connection breaks.
MAX_WAITING_CHUNKS = 100_000


class Host(Protocol):
    """An end of connections: a node or a client. ``pipes`` belongs to the network."""

    name: str
    alive: bool
    is_client: bool
    pipes: dict[str, Pipe]

    def arrive(self, source: str, message: Message) -> None:
        """Take one message."""

    def lost(self, peer: str, refused: bool) -> None:
        """The connection with ``peer`` is gone; ``refused``: nothing of it ever reached the peer."""


@dataclass(frozen=True, slots=True)
class _Gone:
    """The last chunk of a connection: the far side has dropped it."""

    refused: bool


class Pipe:
    """One direction between two names.

    ``dialled``: the source holds a connection. ``accepted``: the target has seen it. ``void``: the target has dropped
    it, the source doesn't know yet, what it sends is lost. ``generation`` tells chunks under way from lost ones.
    ``blocked``: chunks wait in ``waiting``, later ones queue up behind them. ``floor_ns``: no chunk arrives earlier.
    """

    __slots__ = (
        "accepted",
        "action",
        "back",
        "base_ns",
        "blocked",
        "dialled",
        "floor_ns",
        "generation",
        "rule_id",
        "source",
        "target",
        "void",
        "waiting",
    )
    back: Pipe

    def __init__(self, source: Host, target: Host, base_ns: int) -> None:
        self.source = source
        self.target = target
        self.base_ns = base_ns
        self.action: Action | None = None
        self.rule_id = ""
        self.generation = 0
        self.floor_ns = 0
        self.dialled = self.accepted = self.void = self.blocked = False
        self.waiting: deque[Message | _Gone] = deque()

    def lose(self) -> None:
        """Drop all that is under way."""
        self.generation += 1
        self.waiting.clear()
        self.blocked = False


class SimNet:
    """All hosts, pipes and rules. Whatever it decides is drawn from the seed."""

    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        self._loop = loop
        self._seed = seed
        self._rng = Random(f"{seed}/links")
        self._hosts: dict[str, Host] = {}
        self._pipes: list[Pipe] = []
        self._rules: dict[str, LinkRule] = {}
        self._hits: dict[str, int] = {}

    def add(self, host: Host) -> None:
        self._hosts[host.name] = host

    def send(self, source: Host, to: str, message: Message) -> None:
        """Put a message on its way; dial first if need be. To an unknown name, or a client that has no connection:
        lost."""
        pipe = source.pipes.get(to) or self._connect(source, to)
        if pipe is None:
            return
        if pipe.void:
            pipe.dialled = True
            return
        dial_ns = 0
        if not pipe.dialled:
            if pipe.target.is_client and not pipe.back.accepted:
                return
            pipe.dialled = True
            dial_ns = 0 if pipe.target.is_client else 2 * pipe.base_ns
        loop = self._loop
        at_ns = loop.now_ns + pipe.base_ns + int(self._rng.random() * JITTER_NS) + dial_ns
        at_ns += len(message.body) * NS_PER_BYTE
        if pipe.action is not None:
            at_ns = self._act(pipe, pipe.action, at_ns)
            if at_ns < 0:
                return
        if at_ns < pipe.floor_ns:
            at_ns = pipe.floor_ns
        else:
            pipe.floor_ns = at_ns
        heappush(loop.queue, (at_ns, next(loop.ticket), self._arrive, (pipe, pipe.generation, message)))

    def leave(self, host: Host, *, lose_sent: bool) -> None:
        """The host's process is gone: all its connections break; ``lose_sent``: also what it had sent."""
        for pipe in host.pipes.values():
            self._break(pipe, lose_sent=lose_sent)

    def close(self, host: Host, peer: str) -> None:
        """The host drops its connection with this peer; what is under way is lost in both directions."""
        pipe = host.pipes.get(peer)
        if pipe is not None:
            self._break(pipe, lose_sent=True)

    def set_rule(self, rule_id: str, rule: LinkRule) -> None:
        self._rules[rule_id] = rule
        self._hits.setdefault(rule_id, 0)
        self._apply_rules(self._pipes)

    def clear_rule(self, rule_id: str) -> None:
        self._hits.pop(rule_id, None)
        if self._rules.pop(rule_id, None) is not None:
            self._apply_rules(self._pipes)

    def rule_hits(self, rule_id: str) -> int:
        return self._hits.get(rule_id, 0)

    def _connect(self, source: Host, to: str) -> Pipe | None:
        """Make the two pipes of a pair when it first speaks."""
        target = self._hosts.get(to)
        if target is None or target is source:
            return None
        pipes = []
        for one, other in ((source, target), (target, source)):
            base_ns = Random(f"{self._seed}/{one.name}>{other.name}").randint(*BASE_LATENCY_NS)
            pipe = one.pipes[other.name] = Pipe(one, other, base_ns)
            pipes.append(pipe)
        pipes[0].back, pipes[1].back = pipes[1], pipes[0]
        self._pipes += pipes
        self._apply_rules(pipes)
        return pipes[0]

    def _apply_rules(self, pipes: list[Pipe]) -> None:
        """Find the rule that now decides for each pipe; let chunks go that no rule holds any more."""
        for pipe in pipes:
            pipe.action, pipe.rule_id = None, ""
            for rule_id, rule in self._rules.items():
                action = decide((rule,), pipe.source.name, pipe.target.name)
                if not isinstance(action, Pass):
                    pipe.action, pipe.rule_id = action, rule_id
                    break
            if pipe.blocked and not isinstance(pipe.action, Drop):
                self._loop.post(pipe.base_ns, self._release, pipe)

    def _act(self, pipe: Pipe, action: Action, at_ns: int) -> int:
        """Apply a rule to a chunk that is being sent: the time of its arrival, or -1 if it broke the connection."""
        if isinstance(action, Delay):
            self._hits[pipe.rule_id] += 1
            return at_ns + action.delay_ns + int(self._rng.random() * action.jitter_ns)
        if isinstance(action, Stall):
            self._hits[pipe.rule_id] += 1
            return at_ns + action.stall_ns if self._rng.random() * 1000 < action.per_mille else at_ns
        if isinstance(action, Reset):
            self._hits[pipe.rule_id] += 1
            if self._rng.random() * 1000 < action.per_mille:
                self._reset(pipe)
                return -1
        return at_ns  # Drop holds chunks where they arrive, so that it also holds those under way

    def _arrive(self, pipe: Pipe, generation: int, chunk: Message | _Gone) -> None:
        if generation != pipe.generation:
            return
        if pipe.blocked or pipe.action.__class__ is Drop:
            self._hold(pipe, chunk)
        else:
            self._deliver(pipe, chunk)

    def _hold(self, pipe: Pipe, chunk: Message | _Gone) -> None:
        pipe.blocked = True
        pipe.waiting.append(chunk)
        if pipe.rule_id:
            self._hits[pipe.rule_id] += 1
        if len(pipe.waiting) > MAX_WAITING_CHUNKS:
            self._reset(pipe)

    def _release(self, pipe: Pipe) -> None:
        """The stall is over: what waited arrives at once, in order."""
        if isinstance(pipe.action, Drop):
            return
        while pipe.waiting:
            self._deliver(pipe, pipe.waiting.popleft())
        pipe.blocked = False

    def _deliver(self, pipe: Pipe, chunk: Message | _Gone) -> None:
        target = pipe.target
        if isinstance(chunk, _Gone):
            self._learn(pipe, chunk)
        elif target.alive:
            pipe.accepted = True
            target.arrive(pipe.source.name, chunk)
        else:
            self._refuse(pipe)

    def _refuse(self, pipe: Pipe) -> None:
        """Nobody listens at the target: its machine says so at once, and forgets what the dead process knew."""
        refused = not pipe.accepted
        pipe.lose()
        pipe.accepted = pipe.back.dialled = pipe.back.void = False
        pipe.void = True
        self._notify(pipe.back, _Gone(refused))

    def _break(self, pipe: Pipe, *, lose_sent: bool) -> None:
        """The source drops the connection; the target learns of it in the order of the bytes."""
        back = pipe.back
        known_there = pipe.dialled or pipe.accepted or back.dialled or back.void
        refused = not back.accepted
        back.lose()
        back.accepted = False
        if lose_sent:
            pipe.lose()
        pipe.dialled = pipe.void = False
        if known_there:
            back.void = True
            self._notify(pipe, _Gone(refused))

    def _reset(self, pipe: Pipe) -> None:
        """A rule breaks the connection: the source learns of it now, the target in its time."""
        refused = not pipe.accepted
        self._break(pipe, lose_sent=True)
        self._loop.post(0, pipe.source.lost, pipe.target.name, refused)

    def _notify(self, pipe: Pipe, gone: _Gone) -> None:
        loop = self._loop
        pipe.floor_ns = max(loop.now_ns + pipe.base_ns, pipe.floor_ns)
        loop.post(pipe.floor_ns - loop.now_ns, self._arrive, pipe, pipe.generation, gone)

    def _learn(self, pipe: Pipe, gone: _Gone) -> None:
        """The target hears that the source has dropped the connection."""
        back = pipe.back
        known = back.dialled or pipe.accepted
        back.dialled = back.void = pipe.accepted = False
        if known and pipe.target.alive:
            pipe.target.lost(pipe.source.name, gone.refused)
